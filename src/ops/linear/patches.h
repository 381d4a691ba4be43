/* patches.h -- the right-hand matrix of a convolution as a matrix product, gathered on the fly.
 * SPDX-License-Identifier: Apache-2.0
 *
 *     Y[b] = W[b] * P[b],   P[b] has a row for every (channel, kernel position) and a column for
 *                           every output position; b = image * groups + group
 *
 * Outside the input P is 0. A transposed convolution is the same product with the roles of input
 * and output positions exchanged. */
#ifndef CM_OPS_PATCHES_H
#define CM_OPS_PATCHES_H

#include "ops/linear/window_shape.h"

typedef struct cm_patches {
    const double *x;  /* dense [images, groups * channels, in...] */
    int n;            /* spatial axes */
    int64_t channels; /* of one group */
    int64_t in[CM_MAX_RANK], out[CM_MAX_RANK];
    cm_window w; /* padding fixed, kernel numbers */
    bool transposed;
} cm_patches;

int64_t cm_patches_rows(const cm_patches *p);    /* channels * kernel positions: the product's k */
int64_t cm_patches_columns(const cm_patches *p); /* output positions: the product's n */
/* A cm_gemm_load_f64 over a cm_patches. */
void cm_patches_load_f64(const void *arg, int64_t batch, int64_t row, int64_t col, int64_t n,
                         double *dst);

#endif
