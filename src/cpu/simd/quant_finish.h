/* quant_finish.h -- from exact sums to what is stored: shared by products and depthwise convolutions.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_CPU_SIMD_QUANT_FINISH_H
#define CM_CPU_SIMD_QUANT_FINISH_H

#include "cpu/qmatmul.h"
#include "cpu/simd/quant_bytes.h"

VINLINE vi vi_load(const void *p)
{
#if VW == 16
    return _mm512_loadu_si512(p);
#elif VW == 8
    return _mm256_loadu_si256((const __m256i *)p);
#else
    return _mm_loadu_si128((const __m128i *)p);
#endif
}
VINLINE void vi_store(void *p, vi v)
{
#if VW == 16
    _mm512_storeu_si512(p, v);
#elif VW == 8
    _mm256_storeu_si256((__m256i *)p, v);
#else
    _mm_storeu_si128((__m128i *)p, v);
#endif
}
VINLINE vi vi_madd(vi a, vi b)
{
    return V1(_mm512_madd_epi16, _mm256_madd_epi16, _mm_madd_epi16)(a, b);
}

/* Columns [col, col + n) of one row, the sums in acc. */
VINLINE void finish_row(const cm_qfinish *f, const int32_t *acc, int64_t row, int64_t col, int n)
{
    const vf zero = vf_set(f->y_zero);
    uint8_t bytes[CM_QGEMM_WIDEST];
    float reals[CM_QGEMM_WIDEST];
    size_t at = (size_t)(row * f->ld + col);
    bool whole = n % VW == 0;
    uint8_t *to_bytes = whole ? (uint8_t *)f->y + at : bytes;
    float *to_reals = whole ? (float *)f->y + at : reals;
    for (int j = 0; j < n; j += VW) {
        vi s = vi_add(vi_load(acc + j), vi_load(f->add + col + j));
        if (f->mode == CM_QFINISH_SUMS) {
            vf_store(to_reals + j, vf_bits(s));
            continue;
        }
        vf x = vf_mul(vf_of_int(s), vf_load(f->factor + col + j));
        if (f->mode == CM_QFINISH_REAL) {
            if (f->bias)
                x = vf_add(x, vf_load(f->bias + col + j));
            vf_store(to_reals + j, x);
            continue;
        }
        store_bytes(to_bytes + j, round_to_byte(x, zero, f->is_signed), f->is_signed);
    }
    if (whole)
        return;
    if (f->mode == CM_QFINISH_BYTES)
        memcpy((uint8_t *)f->y + at, bytes, (size_t)n);
    else
        memcpy((float *)f->y + at, reals, (size_t)n * sizeof *reals);
}

#endif
