/* gemm.c -- the matrix product behind MatMul, Conv, Einsum, Attention and their kin.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops/linear/gemm.h"

#include <stdatomic.h>
#include <string.h>

#include "base/size.h"

enum { TILE = 4, BLOCK_M = 64, BLOCK_N = 64, BLOCK_K = 256 };

static int64_t round_up(int64_t n)
{
    return (n + TILE - 1) / TILE * TILE;
}

/* A slot that no other thread uses. There are as many as threads, so one is free. */
static int take_slot(atomic_bool *taken, int n)
{
    for (int i = 0;; i = (i + 1) % n)
        if (!atomic_exchange(&taken[i], true))
            return i;
}

#define JOB     cm_gemm_f64
#define NUM     double
#define SUM     double
#define NAME(x) x##_f64
#include "ops/linear/gemm_body.inc"
#undef JOB
#undef NUM
#undef SUM
#undef NAME

#define JOB     cm_gemm_i64
#define NUM     int64_t
#define SUM     uint64_t
#define NAME(x) x##_i64
#include "ops/linear/gemm_body.inc"

static int64_t offset(const cm_matrix *m, int64_t batch, int64_t row, int64_t col)
{
    return (m->offsets ? m->offsets[batch] : batch * m->batch) + row * m->row + col * m->col;
}

static const char *address(const cm_matrix *m, int64_t index)
{
    return (const char *)m->data + index * (int64_t)cm_dtype_size(m->dtype);
}

void cm_matrix_load_f64(const void *arg, int64_t batch, int64_t row, int64_t col, int64_t n,
                        double *dst)
{
    const cm_matrix *m = arg;
    int64_t at = offset(m, batch, row, col);
    if (m->col == 1) {
        cm_load_f64(m->dtype, address(m, at), n, dst);
    } else if (m->dtype == CM_F32) {
        const float *src = (const float *)m->data + at;
        for (int64_t j = 0; j < n; j++)
            dst[j] = src[j * m->col];
    } else {
        for (int64_t j = 0; j < n; j++)
            dst[j] = cm_get_f64(m->dtype, m->data, at + j * m->col);
    }
}

void cm_matrix_load_i64(const void *arg, int64_t batch, int64_t row, int64_t col, int64_t n,
                        int64_t *dst)
{
    const cm_matrix *m = arg;
    int64_t at = offset(m, batch, row, col);
    if (m->col == 1) {
        cm_load_i64(m->dtype, address(m, at), n, dst);
        return;
    }
    for (int64_t j = 0; j < n; j++)
        dst[j] = cm_get_i64(m->dtype, m->data, at + j * m->col);
}

void cm_matrix_store_f64(void *arg, int64_t batch, int64_t row, int64_t col, int64_t n,
                         const double *src)
{
    const cm_matrix *m = arg;
    int64_t at = offset(m, batch, row, col);
    if (m->col == 1) {
        cm_store_f64(m->dtype, src, n, (void *)address(m, at));
        return;
    }
    for (int64_t j = 0; j < n; j++)
        cm_set_f64(m->dtype, m->data, at + j * m->col, src[j]);
}

void cm_matrix_store_i64(void *arg, int64_t batch, int64_t row, int64_t col, int64_t n,
                         const int64_t *src)
{
    const cm_matrix *m = arg;
    int64_t at = offset(m, batch, row, col);
    if (m->col == 1) {
        cm_store_i64(m->dtype, src, n, (void *)address(m, at));
        return;
    }
    for (int64_t j = 0; j < n; j++)
        cm_set_i64(m->dtype, m->data, at + j * m->col, src[j]);
}

cm_status cm_matrix_multiply(cm_ctx *cx, cm_threads *t, int64_t batch, int64_t m, int64_t n,
                             int64_t k, const cm_matrix *a, const cm_matrix *b, cm_matrix *c)
{
    if (cm_dtype_is_float(c->dtype)) {
        cm_gemm_f64 g = {
            batch, m, n, k, cm_matrix_load_f64, cm_matrix_load_f64, cm_matrix_store_f64, a, b, c};
        return cm_gemm_run_f64(cx, t, &g);
    }
    cm_gemm_i64 g = {batch, m, n, k, cm_matrix_load_i64, cm_matrix_load_i64, cm_matrix_store_i64,
                     a,     b, c};
    return cm_gemm_run_i64(cx, t, &g);
}
