/* pool.h -- the kernels of pools.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Reducing is taking the largest (NaN if there is one), adding, adding magnitudes or adding squares. */
#ifndef CM_CPU_POOL_H
#define CM_CPU_POOL_H

#include "cpu/cpu.h"

enum { CM_POOL_SLACK = 32 };

typedef enum {
    CM_REDUCING_MAX,
    CM_REDUCING_SUM,
    CM_REDUCING_MAGNITUDES,
    CM_REDUCING_SQUARES,
    CM_REDUCING_COUNT
} cm_reducing;

/* The part of a window that is inside the input, channels innermost; and others beside it that are cut in the same way. */
typedef struct cm_pool_window {
    const void *x; /* float32 or bfloat16 */
    int64_t n[3], step[3];
    int64_t pixels, apart,
        to_apart; /* windows, and elements from one to the next in input and output */
} cm_pool_window;

/* One level's kernels, by what they reduce with. Sums of an axis are added up on their own, so that
 * rounding does not grow with the window. */
typedef struct cm_pool_kernels {
    /* y[i] = reduced over each window, for `channels` adjacent channels, divided by `divisor`; [1]: of bfloat16. */
    void (*window[2][CM_REDUCING_COUNT])(const cm_pool_window *w, int64_t channels, float divisor,
                                         float *y);
    /* t[i] = x[i] or, where `onto`, t[i] reduced with x[i]; MAGNITUDES and SQUARES take those. */
    void (*down[CM_REDUCING_COUNT])(float *t, const float *x, int64_t n, int onto);
    /* y[i] = reduced over t[i * stride + j * dilation], j < kernel, of what `down` left. Reads, and does
     * not use, up to CM_POOL_SLACK floats behind the last. */
    void (*along[CM_REDUCING_COUNT])(const float *t, int64_t n, int64_t kernel, int64_t stride,
                                     int64_t dilation, float *y);
    /* `rows` rows of n outputs each, adjacent: 2 x 2 windows side by side, of rows that are `row` apart; a sum is
     * divided by 4, squares are rooted. */
    void (*quarters[CM_REDUCING_COUNT])(const float *x, int64_t row, int64_t rows, int64_t n,
                                        float *y);
    /* n adjacent elements of the input. */
    float (*line[CM_REDUCING_COUNT])(const float *x, int64_t n);
} cm_pool_kernels;

/* pool_half.c */
CM_TACTIC(pool_half);
CM_TACTIC_WORKSPACE(pool_half);

extern const cm_pool_kernels cm_cpu_pool__generic, cm_cpu_pool__avx2, cm_cpu_pool__avx512;

#endif
