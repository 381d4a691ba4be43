/* gemm_pack.h -- operands of the matrix product into tiles and panels, built once per ISA level.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Included after simd/gemm.h, which says how wide a panel is. */
#ifndef CM_CPU_SIMD_GEMM_PACK_H
#define CM_CPU_SIMD_GEMM_PACK_H

#include "cpu/simd/gemm.h"

/* Four rows of four -> four columns, `to_ld` apart. */
VINLINE void transpose4(const float *const *from, int64_t l, float *to, int64_t to_ld)
{
    __m128 a = _mm_loadu_ps(from[0] + l), b = _mm_loadu_ps(from[1] + l);
    __m128 c = _mm_loadu_ps(from[2] + l), d = _mm_loadu_ps(from[3] + l);
    _MM_TRANSPOSE4_PS(a, b, c, d);
    _mm_storeu_ps(to, a);
    _mm_storeu_ps(to + to_ld, b);
    _mm_storeu_ps(to + 2 * to_ld, c);
    _mm_storeu_ps(to + 3 * to_ld, d);
}

/* to[l * to_ld + i] = rows[i][l]. The last four rows may overlap those before. */
VINLINE void pack_turned(int64_t m, int64_t k, const float *const *rows, float *to, int64_t to_ld)
{
    int64_t l = 0;
    for (; m >= 4 && l + 4 <= k; l += 4) {
        int64_t i = 0;
        for (; i + 4 <= m; i += 4)
            transpose4(rows + i, l, to + l * to_ld + i, to_ld);
        if (i < m)
            transpose4(rows + m - 4, l, to + l * to_ld + m - 4, to_ld);
    }
    for (; l < k; l++) {
        for (int64_t i = 0; i < m; i++)
            to[l * to_ld + i] = rows[i][l];
    }
}

static void pack_rows(int64_t m, int64_t k, const float *const *rows, float *to)
{
    pack_turned(m, k, rows, to, m);
}

/* The same of rows that are `ld` apart. */
static void pack_transposed(int64_t m, int64_t k, const float *from, int64_t ld, float *to,
                            int64_t to_ld)
{
    const float *rows[NR > GEMM_MR ? NR : GEMM_MR];
    for (int64_t i = 0; i < m; i++)
        rows[i] = from + i * ld;
    pack_turned(m, k, rows, to, to_ld);
}

static void pack_a(int64_t m, int64_t k, const float *a, int64_t row, int64_t col, float *to)
{
    if (col == 1) {
        pack_transposed(m, k, a, row, to, m);
        return;
    }
    for (int64_t l = 0; l < k; l++, a += col, to += m) {
        if (row == 1) {
            memcpy(to, a, (size_t)m * sizeof *to);
        } else {
            for (int64_t i = 0; i < m; i++)
                to[i] = a[i * row];
        }
    }
}

/* One panel: n columns, n <= NR. */
static void pack_panel(int64_t k, int64_t n, const float *b, int64_t row, int64_t col, float *to)
{
    if (n < NR) {
        for (int64_t l = 0; l < k; l++)
            memset(to + l * NR + n, 0, (size_t)(NR - n) * sizeof *to);
    }
    if (row == 1) {
        pack_transposed(n, k, b, col, to, NR);
        return;
    }
    if (col == 1 && n == NR) {
        for (int64_t l = 0; l < k; l++, b += row, to += NR) {
            UNROLL
            for (int j = 0; j < NV; j++)
                vf_store(to + j * VW, vf_load(b + j * VW));
        }
        return;
    }
    for (int64_t l = 0; l < k; l++, b += row, to += NR) {
        for (int64_t j = 0; j < n; j++)
            to[j] = b[j * col];
    }
}

static void pack_b(int64_t k, int64_t n, const float *b, int64_t row, int64_t col, float *to,
                   int64_t panel)
{
    for (int64_t j = 0; j < n; j += NR, to += panel)
        pack_panel(k, n - j < NR ? n - j : NR, b + j * col, row, col, to);
}

#endif
