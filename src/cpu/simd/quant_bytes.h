/* quant_bytes.h -- VW numbers to as many bytes: shared by the bodies on quantised tensors.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_CPU_SIMD_QUANT_BYTES_H
#define CM_CPU_SIMD_QUANT_BYTES_H

#include <stdbool.h>

#include "cpu/simd/vec.h"

/* The low bytes of VW numbers that are in range. */
VINLINE void store_bytes(uint8_t *to, vi v, bool is_signed)
{
#if VW == 16
    (void)is_signed;
    _mm_storeu_si128((__m128i *)to, _mm512_cvtepi32_epi8(v));
#elif VW == 8
    (void)is_signed;
    const __m256i low = _mm256_set1_epi32(0x0c080400);
    __m256i b = _mm256_shuffle_epi8(v, low);
    __m128i lo = _mm256_castsi256_si128(b), hi = _mm256_extracti128_si256(b, 1);
    _mm_storel_epi64((__m128i *)to, _mm_unpacklo_epi32(lo, hi));
#else
    __m128i h = _mm_packs_epi32(v, v);
    __m128i b = is_signed ? _mm_packs_epi16(h, h) : _mm_packus_epi16(h, h);
    int32_t four = _mm_cvtsi128_si32(b);
    memcpy(to, &four, sizeof four);
#endif
}

/* VW bytes as numbers. */
VINLINE vi load_bytes(const uint8_t *p, bool is_signed)
{
#if VW == 16
    __m128i b = _mm_loadu_si128((const __m128i *)p);
    return is_signed ? _mm512_cvtepi8_epi32(b) : _mm512_cvtepu8_epi32(b);
#elif VW == 8
    __m128i b = _mm_loadl_epi64((const __m128i *)p);
    return is_signed ? _mm256_cvtepi8_epi32(b) : _mm256_cvtepu8_epi32(b);
#else
    int32_t four;
    memcpy(&four, p, sizeof four);
    __m128i b = _mm_cvtsi32_si128(four), zero = _mm_setzero_si128();
    if (!is_signed)
        return _mm_unpacklo_epi16(_mm_unpacklo_epi8(b, zero), zero);
    b = _mm_unpacklo_epi8(b, b);
    return _mm_srai_epi32(_mm_unpacklo_epi16(b, b), 24);
#endif
}

/* round(x) + zero in the range of a byte. */
VINLINE vi round_to_byte(vf x, vf zero, bool is_signed)
{
    const vf lo = vf_set(is_signed ? -128.0f : 0.0f), hi = vf_set(is_signed ? 127.0f : 255.0f);
    return vi_of_float(vf_min(vf_max(vf_add(vf_round(x), zero), lo), hi));
}

#endif
