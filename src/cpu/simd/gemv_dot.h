/* gemv_dot.h -- a few rows times columns that lie along k: products of vectors, built once per ISA level.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_CPU_SIMD_GEMV_DOT_H
#define CM_CPU_SIMD_GEMV_DOT_H

#include "cpu/gemv_dot.h"
#include "cpu/simd/vec.h"

/* m rows by q columns, both constants where this is inlined. */
VINLINE void dots(int m, int q, const cm_gemv_dot *d, int64_t j)
{
    vf acc[CM_DOT_ROWS][4];
    const float *b = d->b + j * d->ldb;
    int64_t l = 0;
    UNROLL
    for (int i = 0; i < m; i++) {
        UNROLL
        for (int c = 0; c < q; c++)
            acc[i][c] = vf_zero();
    }
    for (; l + VW <= d->k; l += VW) {
        UNROLL
        for (int i = 0; i < m; i++) {
            vf a = vf_load(d->a + i * d->lda + l);
            UNROLL
            for (int c = 0; c < q; c++)
                acc[i][c] = vf_fma(a, vf_load(b + c * d->ldb + l), acc[i][c]);
        }
    }
    int rest = (int)(d->k - l);
    UNROLL
    for (int i = 0; i < m; i++) {
        UNROLL
        for (int c = 0; c < q; c++) {
            if (rest)
                acc[i][c] = vf_fma(vf_load_n(d->a + i * d->lda + l, rest),
                                   vf_load_n(b + c * d->ldb + l, rest), acc[i][c]);
            d->c[i * d->ldc + j + c] = d->alpha * vf_sum(acc[i][c]);
        }
    }
}

VINLINE void all_columns(int m, const cm_gemv_dot *d)
{
    int64_t j = 0;
    for (; j + 4 <= d->n; j += 4)
        dots(m, 4, d, j);
    for (; j < d->n; j++)
        dots(m, 1, d, j);
}

void CM_LEVEL(cm_gemv_dot)(const cm_gemv_dot *d)
{
    switch (d->m) {
    case 1:
        all_columns(1, d);
        break;
    case 2:
        all_columns(2, d);
        break;
    case 3:
        all_columns(3, d);
        break;
    default:
        all_columns(4, d);
    }
}

#endif
