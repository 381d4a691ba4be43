/* quant_pool.h -- pools of bytes: one body for every level.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Sums of real numbers: they are multiples of a unit of the scale's last place below 2^9 times the scale, so
 * that double holds sums of 2^20 of them exactly and their order does not matter. */
#ifndef CM_CPU_SIMD_QUANT_POOL_H
#define CM_CPU_SIMD_QUANT_POOL_H

#include "cpu/quant_pool.h"
#include "cpu/simd/quant_bytes.h"

/* Every position of a window; x points to channel c there. */
#define EACH_POSITION(w, c)                                                                        \
    for (int64_t d = 0; d < (w)->n[0]; d++)                                                        \
        for (int64_t h = 0; h < (w)->n[1]; h++)                                                    \
            for (int64_t i = 0; i < (w)->n[2]; i++)                                                \
                for (const uint8_t *x =                                                            \
                         (w)->from + d * (w)->step[0] + h * (w)->step[1] + i * (w)->step[2] + (c); \
                     x; x = NULL)

enum { FEW = 16 };

/* 16 channels, n of which are there. */
VINLINE __m128i load_few(const uint8_t *x, int n)
{
    uint8_t bytes[FEW] = {0};
    if (n >= FEW)
        return _mm_loadu_si128((const __m128i *)x);
    memcpy(bytes, x, (size_t)n);
    return _mm_loadu_si128((const __m128i *)bytes);
}

/* Signed bytes are compared with their sign bits turned over. */
VINLINE void most_of(const cm_qwindow *w, int64_t c, int n, bool is_signed, uint8_t *y)
{
    uint8_t bytes[FEW];
    const __m128i sign = _mm_set1_epi8(is_signed ? -128 : 0);
    __m128i m = _mm_setzero_si128();
    EACH_POSITION(w, c)
    m = _mm_max_epu8(m, _mm_xor_si128(load_few(x, n), sign));
    m = _mm_xor_si128(m, sign);
    if (n >= FEW) {
        _mm_storeu_si128((__m128i *)(y + c), m);
        return;
    }
    _mm_storeu_si128((__m128i *)bytes, m);
    memcpy(y + c, bytes, (size_t)n);
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

/* VW channels, n of which are there. */
VINLINE vi load_channels(const uint8_t *x, int n, bool is_signed)
{
    uint8_t bytes[VW] = {0};
    if (n >= VW)
        return load_bytes(x, is_signed);
    memcpy(bytes, x, (size_t)n);
    return load_bytes(bytes, is_signed);
}

VINLINE void put_channels(vf v, int n, float zero, bool is_signed, uint8_t *y)
{
    uint8_t bytes[VW];
    store_bytes(bytes, round_to_byte(v, vf_set(zero), is_signed), is_signed);
    memcpy(y, bytes, (size_t)(n < VW ? n : VW));
}

VINLINE void mean_of(const cm_qpool *q, const cm_qwindow *w, int64_t c, int n, bool is_signed,
                     uint8_t *y)
{
    const vf scale = vf_set(q->scale), zero = vf_set(q->zero);
    vd low = vd_low(vf_zero()), high = low;
    const vd by = low + q->divisor;
    EACH_POSITION(w, c)
    {
        vf v = vf_mul(scale, vf_sub(vf_of_int(load_channels(x, n, is_signed)), zero));
        low += vd_low(v);
        high += vd_high(v);
    }
    vf v = vf_join(low / by, high / by);
    put_channels(vf_div(v, vf_set(q->y_scale)), n, q->y_zero, is_signed, y + c);
}

VINLINE void total_of(const cm_qpool *q, const cm_qwindow *w, int64_t c, int n, bool is_signed,
                      uint8_t *y)
{
    vi sum = vi_set(-q->zero_sum);
    EACH_POSITION(w, c)
    sum = vi_add(sum, load_channels(x, n, is_signed));
    put_channels(vf_mul(vf_of_int(sum), vf_set(q->scale)), n, q->y_zero, is_signed, y + c);
}

VINLINE void pool(const cm_qpool *q, const cm_qwindow *w, int64_t n, bool is_signed, uint8_t *y)
{
    int64_t step = q->kind == CM_QPOOL_MAX ? FEW : VW;
    for (int64_t c = 0; c < n; c += step) {
        int m = n - c < FEW ? (int)(n - c) : FEW;
        if (q->kind == CM_QPOOL_MAX)
            most_of(w, c, m, is_signed, y);
        else if (q->kind == CM_QPOOL_AVERAGE)
            mean_of(q, w, c, m, is_signed, y);
        else
            total_of(q, w, c, m, is_signed, y);
    }
}

void CM_LEVEL(cm_cpu_qpool)(const cm_qpool *q, const cm_qwindow *w, int64_t n, uint8_t *y)
{
    if (q->is_signed)
        pool(q, w, n, true, y);
    else
        pool(q, w, n, false, y);
}

#endif
