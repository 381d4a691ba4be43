/* window_shape.h -- output sizes and padding of what slides a window: convolutions and pools.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A type rule reads the attributes with cm_window_read and sizes the output with cm_window_out; the
 * evaluator does the same with numbers and gets the actual padding with cm_window_fix. */
#ifndef CM_OPS_WINDOW_SHAPE_H
#define CM_OPS_WINDOW_SHAPE_H

#include "ops/infer.h"

typedef enum { CM_PAD_NOTSET, CM_PAD_VALID, CM_PAD_SAME_UPPER, CM_PAD_SAME_LOWER } cm_auto_pad;

typedef struct cm_window {
    int n; /* spatial axes */
    cm_auto_pad auto_pad;
    cm_dim kernel[CM_MAX_RANK];     /* numbers, unless they come from symbolic weights */
    int64_t stride[CM_MAX_RANK];    /* >= 1 */
    int64_t dilation[CM_MAX_RANK];  /* >= 1 */
    int64_t pad_begin[CM_MAX_RANK]; /* >= 0; of SAME_*: 0 until cm_window_fix */
    int64_t pad_end[CM_MAX_RANK];
} cm_window;

/* The attributes that every window operator shares, for cm_window_read. Empty lists: defaults. */
typedef struct cm_window_attr {
    cm_str auto_pad;
    cm_ints kernel_shape, strides, dilations, pads;
} cm_window_attr;

/* Check the attributes for `n` spatial axes and fill `w`. `kernel` (n dims, from the weights'
 * shape) is checked against kernel_shape when both are given; with kernel NULL kernel_shape is
 * required. */
cm_status cm_window_read(cm_infer *f, const cm_window_attr *a, int n, const cm_dim *kernel,
                         cm_window *w) CM_MUST_USE;

/* Sizes of the output of spatial sizes `in`: how many positions the window takes.
 *   NOTSET  floor((in + pads - extent) / stride) + 1, extent = (kernel - 1) * dilation + 1
 *           (ceil_mode: ceil, and a last window that would begin in the end padding is dropped)
 *   VALID   the same without pads        SAME_*  ceil(in / stride)
 * A window larger than the padded input is refused; an input of size 0 gives 0. */
cm_status cm_window_out(cm_infer *f, const cm_window *w, const cm_dim *in, bool ceil_mode,
                        cm_dim *out) CM_MUST_USE;

/* With numbers: fill the padding of SAME_* from the input's sizes. */
void cm_window_fix(cm_window *w, const int64_t *in);

/* The same two in one, for evaluators: attributes were checked by the type rule with the same
 * arguments. `kernel` as above. */
void cm_window_of(const cm_window_attr *a, int n, const int64_t *kernel, const int64_t *in,
                  cm_window *w);

#endif
