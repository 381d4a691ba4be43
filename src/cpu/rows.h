/* rows.h -- the kernels of softmax and normalisations, per ISA level.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Two forms. In a `row` the elements are adjacent. In `lanes` many rows lie side by side: element c of
 * row l is at x[c * step + l]. Results may go where the input is. */
#ifndef CM_CPU_ROWS_H
#define CM_CPU_ROWS_H

#include "plan/tactic.h"

enum {
    CM_ROWS_LANES = 64,  /* rows side by side that a lanes kernel takes at once, at most */
    CM_ROWS_CHUNK = 4096 /* elements whose moments are taken by two walks, the second from L1 */
};

/* LAYER, RMS, L2, L1 norm over n elements. */
typedef struct cm_norm {
    cm_rows_kind kind;
    int64_t n;
    float epsilon;
    const float *scale, *bias; /* n each; NULL: none */
} cm_norm;

/* Channels-last groups: `n` positions of `channels` values. */
typedef struct cm_group_norm {
    int64_t channels, groups;
    const float *mean, *scale,
        *bias; /* per channel, the group's part in each: (x - mean) * scale + bias */
    bool silu;
} cm_group_norm;

typedef struct cm_rows_kernels {
    /* `rows` rows, `x_step` and `y_step` apart. */
    void (*softmax_rows)(const float *x, int64_t x_step, float *y, int64_t y_step, int64_t rows,
                         int64_t n, bool log);
    void (*softmax_lanes)(const float *x, int64_t x_step, float *y, int64_t y_step, int64_t n,
                          int64_t lanes, bool log);
    /* False: sums of squares leave float32's range; use cm_norm_slow. stats: mean and 1 / deviation. */
    bool (*norm_row)(const cm_norm *a, const float *x, float *y, double stats[2]);
    /* Goes to cm_norm_slow itself. */
    void (*norm_lanes)(const cm_norm *a, const float *x, int64_t x_step, float *y, int64_t y_step,
                       int64_t lanes);
    /* y = a + b + c + d; b, c and d may be NULL. */
    void (*sum)(const float *a, const float *b, const float *c, const float *d, float *y,
                int64_t n);
    void (*to_f32)(cm_dtype from, const void *x, float *y, int64_t n);
    /* Mean, and sum of squared distances from it. False: out of range, as above. */
    bool (*moments)(const float *x, int64_t n, double out[2]);
    /* y = (x - mean) * scale + bias, then SiLU where wanted. */
    void (*affine)(const float *x, float *y, int64_t n, float mean, float scale, float bias,
                   bool silu);
    /* Of `n` positions that fit L2: per group mean and squared distances, in out[2 * group]. `scratch`
     * has 3 * channels floats. False: out of range in one of them. */
    bool (*group_moments)(const float *x, int64_t n, int64_t channels, int64_t groups,
                          float *scratch, double *out);
    void (*group_affine)(const cm_group_norm *a, const float *x, float *y, int64_t n);
} cm_rows_kernels;

extern const cm_rows_kernels cm_cpu_rows_kernels__generic, cm_cpu_rows_kernels__avx2,
    cm_cpu_rows_kernels__avx512;

static inline const cm_rows_kernels *cm_cpu_rows_kernels(int level)
{
    return level >= CM_ISA_AVX512 ? &cm_cpu_rows_kernels__avx512
           : level >= CM_ISA_AVX2 ? &cm_cpu_rows_kernels__avx2
                                  : &cm_cpu_rows_kernels__generic;
}

/* One row in doubles, for values that float32 cannot square. */
void cm_norm_slow(const cm_norm *a, const float *x, int64_t x_step, float *y, int64_t y_step,
                  double stats[2]);
/* Mean and sum of squared distances of `runs` runs of n elements, `step` apart, in doubles. */
void cm_moments_slow(const float *x, int64_t n, int64_t runs, int64_t step, double out[2]);
/* Join the moments b of nb elements to a, of na. */
void cm_moments_join(double a[2], double na, const double b[2], double nb);

/* GROUP_NORM: cpu/rows_group.c. */
const char *cm_cpu_group_norm_reject(const cm_problem *p);
double cm_cpu_group_norm_cost(const cm_problem *p);
size_t cm_cpu_group_norm_workspace(const cm_problem *p);
cm_status cm_cpu_group_norm_run(const cm_run *r);

/* How many of the innermost axes of t, in memory, have `cols` elements together. */
int cm_cpu_col_axes(const cm_tensor *t, int64_t cols);

#endif
