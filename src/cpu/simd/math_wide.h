/* math_wide.h -- the elementary functions on vectors that need more than float32 inside: sin, cos, pow.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A vector of float32 is taken as two halves of doubles. pow is within 1 ulp of float32, sin and cos
 * within 2, for arguments of any size, at every level. */
#ifndef CM_CPU_SIMD_MATH_WIDE_H
#define CM_CPU_SIMD_MATH_WIDE_H

#include "cpu/simd/math.h"

#if VW == 16
typedef __m512d vd;
typedef __m512i vl;
#define vd_set(x)    _mm512_set1_pd(x)
#define vd_add(a, b) _mm512_add_pd(a, b)
#define vd_sub(a, b) _mm512_sub_pd(a, b)
#define vd_mul(a, b) _mm512_mul_pd(a, b)
#define vd_div(a, b) _mm512_div_pd(a, b)
#define vd_max(a, b) _mm512_max_pd(a, b)
#define vd_min(a, b) _mm512_min_pd(a, b)
#define vl_set(x)    _mm512_set1_epi64(x)
#define vl_add(a, b) _mm512_add_epi64(a, b)
#define vl_sub(a, b) _mm512_sub_epi64(a, b)
#define vl_or(a, b)  _mm512_or_si512(a, b)
#define vl_shr(a, n) _mm512_srli_epi64(a, n)
#define vl_shl(a, n) _mm512_slli_epi64(a, n)
#define vl_bits(a)   _mm512_castpd_si512(a)
#define vd_bits(a)   _mm512_castsi512_pd(a)
#elif VW == 8
typedef __m256d vd;
typedef __m256i vl;
#define vd_set(x)    _mm256_set1_pd(x)
#define vd_add(a, b) _mm256_add_pd(a, b)
#define vd_sub(a, b) _mm256_sub_pd(a, b)
#define vd_mul(a, b) _mm256_mul_pd(a, b)
#define vd_div(a, b) _mm256_div_pd(a, b)
#define vd_max(a, b) _mm256_max_pd(a, b)
#define vd_min(a, b) _mm256_min_pd(a, b)
#define vl_set(x)    _mm256_set1_epi64x(x)
#define vl_add(a, b) _mm256_add_epi64(a, b)
#define vl_sub(a, b) _mm256_sub_epi64(a, b)
#define vl_or(a, b)  _mm256_or_si256(a, b)
#define vl_shr(a, n) _mm256_srli_epi64(a, n)
#define vl_shl(a, n) _mm256_slli_epi64(a, n)
#define vl_bits(a)   _mm256_castpd_si256(a)
#define vd_bits(a)   _mm256_castsi256_pd(a)
#else
typedef __m128d vd;
typedef __m128i vl;
#define vd_set(x)    _mm_set1_pd(x)
#define vd_add(a, b) _mm_add_pd(a, b)
#define vd_sub(a, b) _mm_sub_pd(a, b)
#define vd_mul(a, b) _mm_mul_pd(a, b)
#define vd_div(a, b) _mm_div_pd(a, b)
#define vd_max(a, b) _mm_max_pd(a, b)
#define vd_min(a, b) _mm_min_pd(a, b)
#define vl_set(x)    _mm_set1_epi64x(x)
#define vl_add(a, b) _mm_add_epi64(a, b)
#define vl_sub(a, b) _mm_sub_epi64(a, b)
#define vl_or(a, b)  _mm_or_si128(a, b)
#define vl_shr(a, n) _mm_srli_epi64(a, n)
#define vl_shl(a, n) _mm_slli_epi64(a, n)
#define vl_bits(a)   _mm_castpd_si128(a)
#define vd_bits(a)   _mm_castsi128_pd(a)
#endif

typedef struct vdd {
    vd low, high; /* of the lanes */
} vdd;

VINLINE vdd vdd_of(vf x)
{
#if VW == 16
    return (vdd){_mm512_cvtps_pd(_mm512_castps512_ps256(x)),
                 _mm512_cvtps_pd(_mm512_extractf32x8_ps(x, 1))};
#elif VW == 8
    return (vdd){_mm256_cvtps_pd(_mm256_castps256_ps128(x)),
                 _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1))};
#else
    return (vdd){_mm_cvtps_pd(x), _mm_cvtps_pd(_mm_movehl_ps(x, x))};
#endif
}

VINLINE vf vf_of_vdd(vdd x)
{
#if VW == 16
    return _mm512_insertf32x8(_mm512_castps256_ps512(_mm512_cvtpd_ps(x.low)),
                              _mm512_cvtpd_ps(x.high), 1);
#elif VW == 8
    return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm256_cvtpd_ps(x.low)),
                                _mm256_cvtpd_ps(x.high), 1);
#else
    return _mm_movelh_ps(_mm_cvtpd_ps(x.low), _mm_cvtpd_ps(x.high));
#endif
}

VINLINE vd vd_poly(const double *c, int n, vd x)
{
    vd p = vd_set(c[n - 1]);
#pragma GCC unroll 16
    for (int i = n - 2; i >= 0; i--)
        p = vd_add(vd_mul(p, x), vd_set(c[i]));
    return p;
}
#define VD_POLY(c, x) vd_poly(c, (int)(sizeof(c) / sizeof *(c)), x)

/* To the nearest whole number, for |x| < 2^51; its low bits are those of the sum with the constant. */
#define VD_ROUNDER 0x1.8p52
VINLINE vd vd_round(vd x)
{
    return vd_sub(vd_add(x, vd_set(VD_ROUNDER)), vd_set(VD_ROUNDER));
}

/* x - q pi/2 for the whole number q nearest to x 2/pi, |x| < 2^20: the first part of pi/2 has 33
 * bits, so that q times it is exact. */
VINLINE vd vd_reduce_pi(vd x, vd *q)
{
    *q = vd_round(vd_mul(x, vd_set(0x1.45f306dc9c883p-1)));
    vd r = vd_sub(x, vd_mul(*q, vd_set(0x1.921fb544p+0)));
    return vd_sub(r, vd_mul(*q, vd_set(0x1.0b4611a626331p-34)));
}

/* One number of any size: 2/pi has its bits in `two_over_pi`, of which a window of 96 decides. Gives q
 * modulo 4. */
VINLINE float reduce_pi_large(float x, int *q)
{
    static const uint32_t two_over_pi[] = {0x00000000, 0xa2f9836e, 0x4e441529, 0xfc2757d1,
                                           0xf534ddc0, 0xdb629599, 0x3c439041, 0xfe5163ab};
    uint32_t b;
    memcpy(&b, &x, sizeof b);
    int e = (int)(b >> 23 & 0xff) - 150; /* x = m 2^e */
    uint32_t m = (b & 0x7fffff) | 0x800000;
    int bit = e + 32 - 2; /* the window begins two bits before those of weight 1 in m 2/pi */
    int word = bit >> 5, shift = bit & 31;
    uint32_t w[3];
    for (int i = 0; i < 3; i++) {
        uint64_t two = (uint64_t)two_over_pi[word + i] << 32 | two_over_pi[word + i + 1];
        w[i] = (uint32_t)(two << shift >> 32);
    }
    uint64_t high = (uint64_t)m * w[0] << 32, middle = (uint64_t)m * w[1];
    uint64_t all = high + middle + ((uint64_t)m * w[2] >> 32); /* modulo 4, 62 bits of fraction */
    int whole = (int)(all >> 62);
    int64_t fraction = (int64_t)(all << 2);
    whole += fraction < 0; /* to nearest: the fraction is then negative */
    double r = (double)fraction * (0x1.921fb54442d18p+0 * 0x1p-64);
    *q = b >> 31 ? -whole : whole;
    return (float)(b >> 31 ? -r : r);
}

VINLINE int vm_any(vm m)
{
#if VW == 16
    return m != 0;
#elif VW == 8
    return _mm256_movemask_ps(m);
#else
    return _mm_movemask_ps(m);
#endif
}

/* The lanes that are large, one by one. */
static __attribute__((noinline, unused)) void reduce_lanes(vf x, vf *r, vi *k)
{
    float lanes[VW], reduced[VW];
    int quarters[VW];
    vf_store(lanes, x);
    vf_store(reduced, *r);
    memcpy(quarters, k, sizeof *k);
    for (int i = 0; i < VW; i++)
        if (fabsf(lanes[i]) >= 0x1p20f && fabsf(lanes[i]) < INFINITY)
            reduced[i] = reduce_pi_large(lanes[i], &quarters[i]);
    *r = vf_load(reduced);
    memcpy(k, quarters, sizeof *k);
}

VINLINE vf vf_sin_cos(vf x, int quarter)
{
    vdd d = vdd_of(x), q;
    d.low = vd_reduce_pi(d.low, &q.low);
    d.high = vd_reduce_pi(d.high, &q.high);
    vf r = vf_of_vdd(d);
    vi k = vi_of_float(vf_of_vdd(q)); /* exact: |q| < 2^20 where it counts */
    if (vm_any(vf_le(vf_set(0x1p20f), vf_abs(x))))
        reduce_lanes(x, &r, &k);
    k = vi_add(k, vi_set(quarter));
    vf t = vf_mul(r, r);
    vf s = vf_fma(vf_mul(VF_POLY(sin_p, t), t), r, r);
    vf c = vf_fma(VF_POLY(cos_p, t), vf_mul(t, t), vf_fnma(t, vf_set(0.5f), vf_set(1)));
    vf odd = vf_of_int(vi_and(k, vi_set(1)));
    vf y = vf_select(vf_eq(odd, vf_zero()), s, c);
    y = vf_xor(y, vf_bits(vi_shl(vi_and(k, vi_set(2)), 30)));
    return vf_select(vf_lt(vf_abs(x), vf_set(INFINITY)), y, vf_set(NAN));
}

VINLINE vf vf_sin(vf x)
{
    return vf_select(vf_eq(x, vf_zero()), x, vf_sin_cos(x, 0));
}

VINLINE vf vf_cos(vf x)
{
    return vf_sin_cos(x, 1);
}

/* 2^(y log2(x)) for finite x > 0. */
VINLINE vd vd_pow(vd x, vd y)
{
    vl b = vl_bits(x);
    /* the exponent plus 1024, so that the rest is within [sqrt(1/2), sqrt(2)) */
    vl k = vl_shr(vl_add(vl_sub(b, vl_set(0x3fe6a09e667f3bcd)), vl_set(INT64_C(1024) << 52)), 52);
    vd m = vd_bits(vl_sub(b, vl_shl(vl_sub(k, vl_set(1024)), 52)));
    vd e = vd_sub(vd_bits(vl_or(k, vl_set(0x4330000000000000))), vd_set(0x1p52 + 1024));
    vd s = vd_div(vd_sub(m, vd_set(1)), vd_add(m, vd_set(1)));
    vd log2 = vd_add(vd_mul(VD_POLY(pow_log2, vd_mul(s, s)), s), e);
    vd z = vd_min(vd_set(130), vd_max(vd_set(-160), vd_mul(y, log2)));
    vd whole = vd_add(z, vd_set(VD_ROUNDER));
    vd p = VD_POLY(pow_exp2, vd_sub(z, vd_sub(whole, vd_set(VD_ROUNDER))));
    return vd_bits(vl_add(vl_bits(p), vl_shl(vl_bits(whole), 52)));
}

VINLINE vf vf_pow(vf x, vf y)
{
    vf a = vf_abs(x), zero = vf_zero(), one = vf_set(1), inf = vf_set(INFINITY);
    vdd ad = vdd_of(a), yd = vdd_of(y);
    vf r = vf_of_vdd((vdd){vd_pow(ad.low, yd.low), vd_pow(ad.high, yd.high)});
    /* 0 and infinity to a power; the reciprocal of it when y is negative */
    vf edge = vf_select(vf_lt(y, zero), vf_div(one, a), a);
    r = vf_select(vf_eq(a, zero), edge, vf_select(vf_eq(a, inf), edge, r));
    /* numbers below zero: odd y keep the sign, y that is not whole gives NaN */
    vf half = vf_mul(y, vf_set(0.5f));
    vf odd = vf_select(vf_eq(half, vf_round(half)), zero, vf_set(-0.0f));
    vm whole = vf_eq(y, vf_round(y));
    vf flip = vf_select(whole, odd, zero);
    vf negative = vf_select(whole, vf_xor(r, flip), vf_select(vf_eq(a, inf), r, vf_set(NAN)));
    vf sign = vf_and(x, vf_set(-0.0f));
    r = vf_select(vf_lt(x, zero), negative, vf_xor(r, vf_and(sign, flip)));
    r = vf_select(vf_eq(a, one), vf_select(vf_eq(vf_abs(y), inf), one, r), r);
    r = vf_select(vf_ne(x, x), x, vf_select(vf_ne(y, y), y, r));
    return vf_select(vf_eq(y, zero), one, vf_select(vf_eq(x, one), one, r));
}

#endif
