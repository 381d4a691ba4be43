/* quant_lookup.c -- 64 bytes looked up at a time, where the CPU has VBMI.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The table is in four registers. Each half of it answers for all bytes by their lower seven bits; the eighth says which half is
 * meant. */
#include <immintrin.h>

#include "cpu/quant.h"

enum { WIDE = 64 };

typedef struct {
    __m512i part[4];
} wide_table;

__attribute__((target("avx512vbmi"))) static inline __m512i pick(const wide_table *t, __m512i x)
{
    __m512i low = _mm512_permutex2var_epi8(t->part[0], x, t->part[1]);
    __m512i high = _mm512_permutex2var_epi8(t->part[2], x, t->part[3]);
    return _mm512_mask_blend_epi8(_mm512_movepi8_mask(x), low, high);
}

__attribute__((target("avx512vbmi"))) void cm_cpu_lookup__avx512(const uint8_t *x, int64_t n,
                                                                 const uint8_t *table, uint8_t *y)
{
    wide_table t;
    int64_t i = 0;
    for (int k = 0; k < 4; k++)
        t.part[k] = _mm512_loadu_si512(table + k * WIDE);
    for (; i + WIDE <= n; i += WIDE)
        _mm512_storeu_si512(y + i, pick(&t, _mm512_loadu_si512(x + i)));
    if (i < n) {
        __mmask64 some = ~(__mmask64)0 >> (WIDE - (n - i));
        _mm512_mask_storeu_epi8(y + i, some, pick(&t, _mm512_maskz_loadu_epi8(some, x + i)));
    }
}
