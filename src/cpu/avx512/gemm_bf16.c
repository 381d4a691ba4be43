/* gemm_bf16.c -- tiles of bfloat16 with AVX512-BF16: 14 x 32, a pair of products per lane and instruction.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Called only where cm_cpu_info()->bf16. The instruction treats denormals as zero and rounds to nearest. */
#include "cpu/gemm_half.h"
#include "cpu/simd/vec.h"

enum { MR = 14, NV = 2, HALF = 16 * CM_BF16_K };
#define INLINE static inline __attribute__((always_inline))

/* Two elements of a row, as one lane. */
INLINE __m512i pair(const uint16_t *p)
{
    int32_t v;
    __builtin_memcpy(&v, p, sizeof v);
    return _mm512_set1_epi32(v);
}

INLINE void step(int m, __m512 acc[MR][NV], const uint16_t *const *p, int64_t l, const uint16_t *b)
{
    __m512i v[NV];
    UNROLL
    for (int j = 0; j < NV; j++)
        v[j] = _mm512_loadu_si512(b + j * HALF);
    UNROLL
    for (int i = 0; i < m; i++) {
        __m512bh x = (__m512bh)pair(p[i] + l);
        UNROLL
        for (int j = 0; j < NV; j++)
            acc[i][j] = _mm512_dpbf16_ps(acc[i][j], x, (__m512bh)v[j]);
    }
}

/* Small tiles keep several sums per element, or they would wait for one addition after the other. */
INLINE void run_tile(int m, const cm_bf16_tile *t)
{
    enum { MOST = 4 };
    const int sets = m >= 4 ? 1 : m >= 2 ? 2 : 4;
    __m512 acc[MOST][MR][NV];
    const uint16_t *p[MR], *b = t->b;
    UNROLL
    for (int i = 0; i < m; i++) {
        p[i] = t->a + i * t->lda;
        UNROLL
        for (int s = 0; s < sets; s++) {
            UNROLL
            for (int j = 0; j < NV; j++)
                acc[s][i][j] = _mm512_setzero_ps();
        }
    }
    for (int64_t q = 0; q < t->k / CM_BF16_K; q++, b += HALF) {
        int64_t l = t->at ? t->at[q] : q * CM_BF16_K;
        for (int i = 0; i < 4; i++, l += 8) {
            UNROLL
            for (int u = 0; u < 4; u++, b += 32)
                step(m, acc[u % sets], p, l + 2 * u, b);
        }
    }
    UNROLL
    for (int i = 0; i < m; i++) {
        UNROLL
        for (int j = 0; j < NV; j++) {
            __m512 sum = acc[0][i][j];
            UNROLL
            for (int s = 1; s < sets; s++)
                sum = _mm512_add_ps(sum, acc[s][i][j]);
            float *c = t->c + i * t->ldc + j * 16;
            if (t->add)
                sum = _mm512_add_ps(sum, _mm512_loadu_ps(c));
            _mm512_storeu_ps(c, sum);
        }
    }
}

/* clang-format off */
#define EACH_HEIGHT(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14)
/* clang-format on */

#define X(m)                                                                                       \
    static void tile_##m(const cm_bf16_tile *t)                                                    \
    {                                                                                              \
        run_tile(m, t);                                                                            \
    }
EACH_HEIGHT(X)
#undef X

static void tile(const cm_bf16_tile *t)
{
    static void (*const heights[])(const cm_bf16_tile *) = {NULL,
#define X(h) tile_##h,
                                                            EACH_HEIGHT(X)
#undef X
    };
    heights[t->m](t);
}

const cm_gemm_bf16_kernel cm_gemm_bf16__avx512 = {MR, 120, tile, NULL, NULL};
