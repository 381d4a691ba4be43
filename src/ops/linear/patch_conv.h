/* patch_conv.h -- convolution as a product of weights and patches, on doubles, for any layout.
 * SPDX-License-Identifier: Apache-2.0
 *
 * For each image and group: C[out_c, positions] = W[out_c, in_c * kernel] * patches. Padding counts
 * as zero, that is as the zero point. */
#ifndef CM_OPS_PATCH_CONV_H
#define CM_OPS_PATCH_CONV_H

#include "ops/eval.h"
#include "ops/linear/window_shape.h"

/* Attributes that Conv and its kin share; they are the first fields of each one's struct. */
typedef struct cm_conv_fields {
    cm_str auto_pad;
    cm_ints dilations, kernel_shape, pads, strides;
    int64_t group;
} cm_conv_fields;

/* Shape of output o for data x and weights w [M, C/group, kernel...], both sizes checked, the bias
 * too (b < 0: none). channels_last: data and output are [N, spatial..., C]. */
cm_status cm_patch_conv_infer(cm_infer *f, int o, int x, int w, int b, const cm_conv_fields *a,
                              bool channels_last) CM_MUST_USE;

typedef struct cm_patch_conv cm_patch_conv;
/* n results of one output channel (of all groups), at dense positions [at, at + n) of image i. */
typedef void (*cm_patch_conv_store)(const cm_patch_conv *c, int64_t image, int64_t channel,
                                    int64_t at, int64_t n, const double *v);

struct cm_patch_conv {
    int64_t images, group, in_c, out_c; /* channels of one group */
    cm_window window;
    int64_t in[CM_MAX_RANK], out[CM_MAX_RANK], kernel[CM_MAX_RANK];
    int64_t positions;                                /* product of `out` */
    const double *x, *w;                              /* w as ONNX has it: [M, in_c, kernel...] */
    int64_t x_image, x_channel, x_space[CM_MAX_RANK]; /* strides */
    int64_t y_image, y_channel, y_position;           /* strides of a result, for `store` */
    double x_zero;
    const double *w_zero; /* NULL, or one, or one per output channel */
    int64_t n_w_zero;
    cm_patch_conv_store store;
    void *arg;
};

/* Everything but zero points, store and arg, from the tensors. */
cm_status cm_patch_conv_read(cm_eval *e, int x, int w, const cm_conv_fields *a, bool channels_last,
                             cm_patch_conv *out) CM_MUST_USE;
cm_status cm_patch_conv_run(cm_eval *e, const cm_patch_conv *c) CM_MUST_USE;

#endif
