/* sort.h -- looking for numbers beyond a bound: one body for every level.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_CPU_SIMD_SORT_H
#define CM_CPU_SIMD_SORT_H

#include "cpu/simd/vec.h"
#include "cpu/sort.h"

/* Which lanes are not on this side of t. */
VINLINE uint32_t beyond(vf x, vf t, bool above)
{
    vm inside = above ? vf_le(x, t) : vf_le(t, x);
#if VW == 16
    return (uint16_t)~inside;
#elif VW == 8
    return (uint8_t)~_mm256_movemask_ps(inside);
#else
    return 15 & ~(uint32_t)_mm_movemask_ps(inside);
#endif
}

int64_t CM_LEVEL(cm_cpu_next_beyond)(const float *x, int64_t from, int64_t n, float t, bool above)
{
    const vf bound = vf_set(t);
    int64_t i = from;
    for (; i + 4 * VW <= n; i += 4 * VW) {
        uint32_t any = 0;
        for (int k = 0; k < 4; k++)
            any |= beyond(vf_load(x + i + k * VW), bound, above);
        if (any)
            break;
    }
    for (; i + VW <= n; i += VW) {
        uint32_t m = beyond(vf_load(x + i), bound, above);
        if (m)
            return i + __builtin_ctz(m);
    }
    for (; i < n; i++)
        if (!(above ? x[i] <= t : x[i] >= t))
            return i;
    return n;
}

/* VW numbers as two halves in double. */
#if VW == 16
typedef __m512d vd;
#define vd_low(v)  _mm512_cvtps_pd(_mm512_castps512_ps256(v))
#define vd_high(v) _mm512_cvtps_pd(_mm512_extractf32x8_ps(v, 1))
#define vf_join(l, h)                                                                              \
    _mm512_insertf32x8(_mm512_castps256_ps512(_mm512_cvtpd_ps(l)), _mm512_cvtpd_ps(h), 1)
#elif VW == 8
typedef __m256d vd;
#define vd_low(v)  _mm256_cvtps_pd(_mm256_castps256_ps128(v))
#define vd_high(v) _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1))
#define vf_join(l, h)                                                                              \
    _mm256_insertf128_ps(_mm256_castps128_ps256(_mm256_cvtpd_ps(l)), _mm256_cvtpd_ps(h), 1)
#else
typedef __m128d vd;
#define vd_low(v)     _mm_cvtps_pd(v)
#define vd_high(v)    _mm_cvtps_pd(_mm_movehl_ps(v, v))
#define vf_join(l, h) _mm_movelh_ps(_mm_cvtpd_ps(l), _mm_cvtpd_ps(h))
#endif

void CM_LEVEL(cm_cpu_running)(const float *x, float *y, int64_t lanes, int64_t n, int64_t step,
                              bool exclusive)
{
    for (int64_t c = 0; c < lanes; c += VW) {
        int m = lanes - c < VW ? (int)(lanes - c) : VW;
        vd low = vd_low(vf_zero()), high = low;
        for (int64_t i = 0; i < n; i++) {
            vf v = m == VW ? vf_load(x + i * step + c) : vf_load_n(x + i * step + c, m);
            vd next_low = low + vd_low(v), next_high = high + vd_high(v);
            vf sum = exclusive ? vf_join(low, high) : vf_join(next_low, next_high);
            if (m == VW)
                vf_store(y + i * step + c, sum);
            else
                vf_store_n(y + i * step + c, sum, m);
            low = next_low;
            high = next_high;
        }
    }
}

#endif
