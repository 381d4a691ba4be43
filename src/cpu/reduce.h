/* reduce.h -- kernels of reductions: float32 folded into doubles.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_CPU_REDUCE_H
#define CM_CPU_REDUCE_H

#include "cpu/cpu.h"
#include "cpu/tile.h"

/* How elements are folded; what a cm_reduce_kind does at the end is not the kernels' business. */
typedef enum {
    CM_FOLD_SUM,
    CM_FOLD_ABS,
    CM_FOLD_SQUARE,
    CM_FOLD_MAX, /* NaN if any is */
    CM_FOLD_MIN,
    CM_FOLD_PROD,
    CM_FOLD_EXP, /* sum of e^(x - shift) */
    CM_FOLDS
} cm_fold;

typedef struct cm_reduce_kernels {
    /* All of x[0..n) into one. n > 0. */
    double (*one[CM_FOLDS])(const float *x, int64_t n, float shift);
    /* Each of x[0..n) into acc of its own; `shift` only for EXP. */
    void (*each[CM_FOLDS])(double *acc, const float *x, const float *shift, int64_t n);
    /* acc[i] += the sum of x[i], x[ld + i], ... of all rows. */
    void (*sum_rows)(double *acc, const float *x, int64_t ld, int64_t rows, int64_t n);
    /* Where the largest (sign 1) or smallest (sign -1) is, NaN before all; the first or the last of equals. */
    int64_t (*arg)(const float *x, int64_t n, float sign, int last);
} cm_reduce_kernels;

extern const cm_reduce_kernels cm_cpu_reduce__generic, cm_cpu_reduce__avx2, cm_cpu_reduce__avx512;
const cm_reduce_kernels *cm_reduce_kernels_at(int level);

/* A view with all kept axes but a kept innermost one as rows, then (of inputs) the reduced ones, then the innermost as
 * columns (of outputs where it is kept). False: too many axes. */
bool cm_reduce_view(cm_tile_view *v, const cm_reduce *r, const int64_t *strides, cm_dtype dtype,
                    const void *data, bool input);

/* Of whole numbers: reduce_whole.c. */
CM_TACTIC(reduce_whole);

/* acc with v folded in. */
double cm_fold_two(cm_fold f, double acc, double v);
double cm_fold_start(cm_fold f);

#endif
