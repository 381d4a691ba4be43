/* epilogue_text.h -- from a product's sums to its results: what kernels/finish.cuh is given.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Output 0 is seen as a batch of matrices: element (z, row, col). Each axis of the output belongs to one of these
 * coordinates; the output, the bias and the epilogue's operands are walked by them.
 *
 *     cm_finish f;
 *     cm_finish_init(&f, p, &axes, bias);      // when sizes are bound
 *     cm_finish_text(&f, p, bias, &text);      // what stands before the kernel
 *     ...
 *     cm_finish_bind(&f, r, bias_data);        // in each run, on a copy; an argument of the kernel */
#ifndef CM_CUDA_EPILOGUE_TEXT_H
#define CM_CUDA_EPILOGUE_TEXT_H

#include "base/buf.h"
#include "plan/tactic.h"

enum { CM_FINISH_OPERANDS = 12, CM_AXES = 4 };

/* The layouts of these are those of finish.cuh. */
typedef struct cm_axes {
    int32_t n;
    uint32_t dim[CM_AXES];
    int64_t stride[CM_AXES]; /* outermost first */
} cm_axes;
/* Append an axis inside those that are there, as part of the last where it goes on from it. False: too many. */
bool cm_axes_push(cm_axes *a, int64_t dim, int64_t stride);

typedef struct cm_view {
    void *data;
    cm_axes z, row, col;
} cm_view;

typedef struct cm_finish {
    float alpha, beta;
    cm_view out, bias;
    cm_view operand[CM_FINISH_OPERANDS];
} cm_finish;

/* The output's axes by coordinate, outermost first. */
typedef struct cm_result_axes {
    struct cm_result_coordinate {
        int n;
        int axis[CM_MAX_RANK];
    } z, row, col;
} cm_result_axes;
/* Those of a matrix product that is walked as `s` says, which may be the transposed one. False: the output's axes are not
 * the product's. */
bool cm_result_of_matmul(const cm_tensor *out, const cm_matmul *s, cm_result_axes *a);
/* Those of a convolution: rows are pixels, columns channels. */
void cm_result_of_conv(const cm_tensor *out, cm_result_axes *a);

/* Why results cannot be handled (for `reject`), or NULL. bias: as it broadcasts to the output; NULL: none. */
const char *cm_finish_reject(const cm_problem *p, const cm_result_axes *a, const cm_tensor *bias);
/* Of a problem that was not rejected. */
void cm_finish_init(cm_finish *f, const cm_problem *p, const cm_result_axes *a,
                    const cm_tensor *bias);
void cm_finish_text(const cm_finish *f, const cm_problem *p, const cm_tensor *bias, cm_buf *out);
void cm_finish_bind(cm_finish *f, const cm_run *r, const void *bias);

/* What an element type is called in kernels, NULL: it is not handled. */
const char *cm_element_text(cm_dtype t);

#endif
