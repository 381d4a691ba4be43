/* half.h -- vectors of float16 and bfloat16 from and to memory.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_CPU_SIMD_HALF_H
#define CM_CPU_SIMD_HALF_H

#include <string.h>

#include "cpu/simd/vec.h"
#include "plan/dtype.h"

/* VW numbers of float16, where the level converts them. */
#if VW == 16
VINLINE vf vf_load_f16(const uint16_t *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}
VINLINE void vf_store_f16(uint16_t *p, vf v)
{
    _mm256_storeu_si256((__m256i *)p, _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}
#elif VW == 8
VINLINE vf vf_load_f16(const uint16_t *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
}
VINLINE void vf_store_f16(uint16_t *p, vf v)
{
    _mm_storeu_si128((__m128i *)p, _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}
#else
VINLINE vf vf_load_f16(const uint16_t *p)
{
    float x[VW];
    for (int i = 0; i < VW; i++)
        x[i] = cm_f16_to_f32(p[i]);
    return vf_load(x);
}
VINLINE void vf_store_f16(uint16_t *p, vf v)
{
    float x[VW];
    vf_store(x, v);
    for (int i = 0; i < VW; i++)
        p[i] = cm_f64_to_f16(x[i]);
}
#endif

/* To nearest even; NaN keeps its sign and becomes quiet. */
VINLINE vi vi_bf16_of(vf v)
{
    vi b = vi_bits(v);
    vi odd = vi_and(vi_shr(b, 16), vi_set(1));
    vi rounded = vi_shr(vi_add(b, vi_add(odd, vi_set(0x7fff))), 16);
    vi quiet = vi_or(vi_shr(b, 16), vi_set(0x40));
    return vi_bits(vf_select(vf_ne(v, v), vf_bits(quiet), vf_bits(rounded)));
}
VINLINE void vf_store_bf16(uint16_t *p, vf v)
{
    vi h = vi_bf16_of(v);
#if VW == 16
    _mm256_storeu_si256((__m256i *)p, _mm512_cvtepi32_epi16(h));
#elif VW == 8
    __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(h, h), 0x08);
    _mm_storeu_si128((__m128i *)p, _mm256_castsi256_si128(packed));
#else
    uint32_t x[VW];
    memcpy(x, &h, sizeof h);
    for (int i = 0; i < VW; i++)
        p[i] = (uint16_t)x[i];
#endif
}

/* n numbers, zeros behind them. */
VINLINE vf vf_load_bf16_n(const uint16_t *p, int n)
{
    uint16_t some[VW] = {0};
    memcpy(some, p, (size_t)n * sizeof *p);
    return vf_load_bf16(some);
}

VINLINE vf vf_load_narrow(const uint16_t *p, bool bf16)
{
    return bf16 ? vf_load_bf16(p) : vf_load_f16(p);
}
VINLINE void vf_store_narrow(uint16_t *p, vf v, bool bf16)
{
    if (bf16)
        vf_store_bf16(p, v);
    else
        vf_store_f16(p, v);
}

#endif
