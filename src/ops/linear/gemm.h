/* gemm.h -- the matrix product behind MatMul, Conv, Einsum, Attention and their kin.
 * SPDX-License-Identifier: Apache-2.0
 *
 * C[b] = A[b] * B[b] for b in [0, batch), A[b] m by k, B[b] k by n. Operands are read through
 * `load` and the result is handed to `store`, a piece of a row at a time, so that no operand need
 * exist as a matrix in memory (a convolution gathers its patches in `load`) and the result is
 * rounded once.
 *
 * Every element is the sum of its k products in ascending order, starting from 0, whatever the
 * number of threads and the size of the other dimensions: the same bits always. k == 0 gives zeros.
 * The f64 form is exact for integers while sums stay under 2^53 (any 8-bit product); the i64 form
 * is exact modulo 2^64. */
#ifndef CM_OPS_GEMM_H
#define CM_OPS_GEMM_H

#include "base/threads.h"
#include "plan/dtype.h"

/* Row `row`, columns [col, col + n) of matrix `batch`. Called from several threads at once; `dst`
 * is dense. Rows of A are rows of C; columns of A run along k; rows of B run along k. */
typedef void (*cm_gemm_load_f64)(const void *arg, int64_t batch, int64_t row, int64_t col,
                                 int64_t n, double *dst);
typedef void (*cm_gemm_store_f64)(void *arg, int64_t batch, int64_t row, int64_t col, int64_t n,
                                  const double *src);
typedef void (*cm_gemm_load_i64)(const void *arg, int64_t batch, int64_t row, int64_t col,
                                 int64_t n, int64_t *dst);
typedef void (*cm_gemm_store_i64)(void *arg, int64_t batch, int64_t row, int64_t col, int64_t n,
                                  const int64_t *src);

typedef struct cm_gemm_f64 {
    int64_t batch, m, n, k;
    cm_gemm_load_f64 load_a, load_b;
    cm_gemm_store_f64 store; /* each element of C exactly once */
    const void *a, *b;       /* first argument of the loads */
    void *c;                 /* first argument of the store */
} cm_gemm_f64;

typedef struct cm_gemm_i64 {
    int64_t batch, m, n, k;
    cm_gemm_load_i64 load_a, load_b;
    cm_gemm_store_i64 store;
    const void *a, *b;
    void *c;
} cm_gemm_i64;

/* Working memory comes from cx->scratch and is given back. `t` may be NULL. Fails for want of
 * memory or when the job is cancelled. */
cm_status cm_gemm_run_f64(cm_ctx *cx, cm_threads *t, const cm_gemm_f64 *g) CM_MUST_USE;
cm_status cm_gemm_run_i64(cm_ctx *cx, cm_threads *t, const cm_gemm_i64 *g) CM_MUST_USE;

/* A matrix, or a batch of them, in memory: element (b, i, j) at data[b*batch + i*row + j*col]. A
 * transpose swaps row and col; a broadcast has stride 0. The arg for the functions below. */
typedef struct cm_matrix {
    cm_dtype dtype;
    void *data;
    int64_t batch, row, col; /* strides in elements */
    const int64_t *offsets;  /* not NULL: offsets[b] in place of b*batch */
} cm_matrix;

void cm_matrix_load_f64(const void *m, int64_t batch, int64_t row, int64_t col, int64_t n,
                        double *dst);
void cm_matrix_load_i64(const void *m, int64_t batch, int64_t row, int64_t col, int64_t n,
                        int64_t *dst);
/* Rounds to the matrix's dtype. */
void cm_matrix_store_f64(void *m, int64_t batch, int64_t row, int64_t col, int64_t n,
                         const double *src);
void cm_matrix_store_i64(void *m, int64_t batch, int64_t row, int64_t col, int64_t n,
                         const int64_t *src);

/* The product of matrices in memory: through double when c->dtype is a float, else exact integers
 * (wrapped to c's width). */
cm_status cm_matrix_multiply(cm_ctx *cx, cm_threads *t, int64_t batch, int64_t m, int64_t n,
                             int64_t k, const cm_matrix *a, const cm_matrix *b,
                             cm_matrix *c) CM_MUST_USE;

#endif
