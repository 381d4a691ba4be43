/* math.h -- elementary functions on vectors of float32, without branches.
 * SPDX-License-Identifier: Apache-2.0
 *
 * NaN, infinities, denormals and signed zeros come out as C's Annex F has them. Errors, in units in the
 * last place of the float32 result, are stated with each function for avx2 and avx512, then in
 * brackets for generic, which has no fused multiply-add; tests/unit/vector_math.c measures them on all 2^32
 * arguments. Polynomials come from math_tables.h. sin, cos and pow are in math_wide.h. */
#ifndef CM_CPU_SIMD_MATH_H
#define CM_CPU_SIMD_MATH_H

#include <math.h>
#include <stdbool.h>

#include "cpu/simd/math_tables.h"
#include "cpu/simd/vec.h"

/* c[0] + c[1] x + ... + c[n - 1] x^(n - 1); n is a constant where this is inlined. */
VINLINE vf vf_poly(const float *c, int n, vf x)
{
    vf p = vf_set(c[n - 1]);
#pragma GCC unroll 16
    for (int i = n - 2; i >= 0; i--)
        p = vf_fma(p, x, vf_set(c[i]));
    return p;
}
enum { VF_EACH = VW == 16 ? 4 : 1 }; /* vectors that are best computed side by side */
#define VF_POLY(c, x) vf_poly(c, (int)(sizeof(c) / sizeof *(c)), x)

/* e^x = p 2^n with whole n and p within [0.7, 1.5]; with 16 lanes n is of sixteenths, to be rounded down, and p
 * within [0.9, 2.1]. */
typedef struct vf_power {
    vf p, n;
#if VW != 16
    vi exponent; /* n in the place of a float's exponent */
#endif
} vf_power;

/* x = n ln(2) + r, |r| <= ln(2)/2; the first part of ln(2) has 9 bits, so that n times it is exact. Adding
 * 1.5 * 2^23 rounds to a whole number, which is then in the low bits. |x| < 2^20 or NaN. */
VINLINE vf vf_reduce_ln2(vf x, vf_power *to)
{
#if VW == 16
    to->n = vf_round(vf_mul(x, vf_set(1.44269504088896340736f)));
#else
    vf t = vf_fma(x, vf_set(1.44269504088896340736f), vf_set(0x1.8p23f));
    to->exponent = vi_shl(vi_bits(t), 23);
    to->n = vf_sub(t, vf_set(0x1.8p23f));
#endif
    vf r = vf_fnma(to->n, vf_set(0.693359375f), x);
    return vf_fnma(to->n, vf_set(-2.12194440054690583e-4f), r);
}

#if VW == 16
/* x = n ln(2) + r, n of sixteenths, |r| <= ln(2)/32. Returns n + 1.5 * 2^19, whose last four bits are n's behind the
 * point. |x| < 2^17 or NaN. */
VINLINE vi vf_reduce_sixteenth(vf x, vf *n, vf *r)
{
    vf t = vf_fma(x, vf_set(1.44269504088896340736f), vf_set(0x1.8p19f));
    *n = vf_sub(t, vf_set(0x1.8p19f));
    *r = vf_fnma(*n, vf_set(0.693359375f), x);
    *r = vf_fnma(*n, vf_set(-2.12194440054690583e-4f), *r);
    return vi_bits(t);
}
#endif

VINLINE vf_power vf_exp_split(vf x)
{
    vf_power e;
#if VW == 16
    vf r, power;
    power = vf_lookup(exp_powers, vf_reduce_sixteenth(x, &e.n, &r));
    e.p = vf_fma(power, VF_POLY(exp_q, r), power);
    return e;
#else
    vf r = vf_reduce_ln2(x, &e);
    e.p = vf_fma(VF_POLY(exp_p, r), r, vf_set(1));
    e.p = vf_fma(e.p, r, vf_set(1));
    return e;
#endif
}

/* e^x for |x| <= 87, or NaN. 1 ulp (2). */
VINLINE vf vf_exp_within(vf x)
{
    vf_power e = vf_exp_split(x);
#if VW == 16
    return _mm512_scalef_ps(e.p, e.n);
#else
    return vf_mul(e.p, vf_bits(vi_add(e.exponent, vi_set(127 << 23))));
#endif
}

/* e^x for x <= 0, or NaN: 1 ulp (2), denormal results too: 2^n is taken in two steps, so that the second
 * alone rounds. */
VINLINE vf vf_exp_below(vf x)
{
    vf_power e = vf_exp_split(vf_max(vf_set(-104), x));
#if VW == 16
    return _mm512_scalef_ps(e.p, e.n);
#else
    vf near = vf_bits(vi_add(e.exponent, vi_set((127 + 64) << 23)));
    return vf_mul(vf_mul(e.p, near), vf_set(0x1p-64f));
#endif
}

/* 1 ulp (2). */
VINLINE vf vf_exp(vf x)
{
    x = vf_min(vf_set(89), vf_max(vf_set(-104), x));
    vf_power e = vf_exp_split(x);
#if VW == 16
    return _mm512_scalef_ps(e.p, e.n);
#else
    vf far = vf_select(vf_lt(x, vf_zero()), vf_set(0x1p-64f), vf_set(0x1p64f));
    vf near = vf_bits(vi_add(e.exponent, vi_sub(vi_set(254 << 23), vi_bits(far))));
    return vf_mul(vf_mul(e.p, near), far);
#endif
}

/* e^x - 1 for x <= 80: 2 ulp (2). */
VINLINE vf vf_expm1_below(vf x)
{
    vf_power e;
    vf r = vf_reduce_ln2(vf_max(vf_set(-40), x), &e);
    vf p = vf_fma(VF_POLY(expm1_p, r), vf_mul(r, r), r);
#if VW == 16
    vf t = _mm512_scalef_ps(vf_set(1), e.n);
#else
    vf t = vf_bits(vi_add(e.exponent, vi_set(127 << 23)));
#endif
    return vf_fma(p, t, vf_sub(t, vf_set(1)));
}

/* ln(1 + f) + k ln(2) for sqrt(1/2) <= 1 + f <= sqrt(2) and whole k. */
VINLINE vf vf_log_sum(vf f, vf k)
{
    vf ff = vf_mul(f, f);
    vf y = vf_mul(vf_mul(VF_POLY(log_p, f), f), ff);
    y = vf_fma(k, vf_set(-2.12194440054690583e-4f), y);
    y = vf_fnma(ff, vf_set(0.5f), y);
    return vf_fma(k, vf_set(0.693359375f), vf_add(f, y));
}

/* 1 ulp (2). */
VINLINE vf vf_log(vf x)
{
    vm denormal = vf_lt(x, vf_set(0x1p-126f));
    vi b = vi_bits(vf_select(denormal, vf_mul(x, vf_set(0x1p23f)), x));
    vi k = vi_sar(vi_sub(b, vi_set(0x3f3504f3)), 23); /* the bits of sqrt(1/2) */
    vf m = vf_bits(vi_sub(b, vi_shl(k, 23)));
    vf kf = vf_sub(vf_of_int(k), vf_select(denormal, vf_set(23), vf_zero()));
    vf y = vf_log_sum(vf_sub(m, vf_set(1)), kf);
    y = vf_select(vf_lt(x, vf_set(INFINITY)), y, x); /* NaN too */
    y = vf_select(vf_eq(x, vf_zero()), vf_set(-INFINITY), y);
    return vf_select(vf_lt(x, vf_zero()), vf_set(NAN), y);
}

/* ln(1 + e) for 0 <= e <= 1. 1 ulp (2). */
VINLINE vf vf_log1p_unit(vf e)
{
    vm upper = vf_lt(vf_set(0.41421356f), e);
    vf f = vf_select(upper, vf_mul(vf_sub(e, vf_set(1)), vf_set(0.5f)), e);
    return vf_log_sum(f, vf_select(upper, vf_set(1), vf_zero()));
}

/* Some functions are given n vectors, a constant of VF_EACH or less: with 16 lanes they are computed side by side, since the operations
 * of one wait for each other for longer than the processor looks ahead. */
#define EACH_VF                                                                                    \
    UNROLL                                                                                         \
    for (int i = 0; i < n; i++)

/* 2 ulp (2). With 16 lanes by one of 16 polynomials of |x| - lo, its coefficients looked up by the first bits of
 * |x| + 1; beyond 9.2 it rounds to 1. Else x + x^3 P(x^2), or 1 - 2 / (e^2x + 1). */
VINLINE void vf_tanh_each(vf *x, int n)
{
#if VW == 16
    enum { TERMS = sizeof tanh_pieces / sizeof *tanh_pieces };
    vf r[VF_EACH], y[VF_EACH];
    vi piece[VF_EACH];
    EACH_VF
    {
        vf a = vf_min(vf_set(9.2f), vf_abs(x[i]));
        vi b = vi_bits(vf_add(a, vf_set(1)));
        r[i] = vf_sub(a, vf_sub(vf_bits(vi_and(b, vi_set((int32_t)0xffe00000))), vf_set(1)));
        piece[i] = vi_shr(b, 21);
        y[i] = vf_lookup(tanh_pieces[TERMS - 1], piece[i]);
    }
    UNROLL
    for (int k = TERMS - 2; k >= 0; k--)
        EACH_VF y[i] = vf_fma(y[i], r[i], vf_lookup(tanh_pieces[k], piece[i]));
    EACH_VF x[i] = vf_or(y[i], vf_and(x[i], vf_set(-0.0f)));
#else
    EACH_VF
    {
        vf a = vf_min(vf_set(10), vf_abs(x[i])), xx = vf_mul(x[i], x[i]);
        vf small = vf_fma(vf_mul(VF_POLY(tanh_p, xx), xx), x[i], x[i]);
        vf e = vf_exp_within(vf_add(a, a));
        vf large = vf_sub(vf_set(1), vf_div(vf_set(2), vf_add(e, vf_set(1))));
        x[i] = vf_select(vf_lt(a, vf_set(0.625f)), small, vf_copysign(large, x[i]));
    }
#endif
}
VINLINE vf vf_tanh(vf x)
{
    vf_tanh_each(&x, 1);
    return x;
}

/* 1 / (1 + e^-x), denormal results too: 2.5 ulp (3), or nearly 3 where it need not be `exact`. With 16 lanes as 2^-64 / (2^-64 + 2^-64 e^-x): from -104, where it rounds to 0, to
 * 18, where it rounds to 1, all three are normal numbers. e^-x is as in vf_exp_split, of -r; exact, with a better q0. */
VINLINE void vf_logistic_each(vf *x, bool exact, int n)
{
#if VW == 16
    const vf shift = vf_set(0x1.8p19f), one = vf_set(0x1p-64f);
    vf t[VF_EACH], whole[VF_EACH], r[VF_EACH], q[VF_EACH], power[VF_EACH];
    EACH_VF x[i] = vf_min(vf_set(18), vf_max(vf_set(-104), x[i]));
    EACH_VF t[i] = vf_fma(x[i], vf_set(-1.44269504088896340736f), shift);
    EACH_VF whole[i] = vf_sub(t[i], shift);
    EACH_VF r[i] = vf_fma(whole[i], vf_set(0.693359375f), x[i]);
    EACH_VF r[i] = vf_fma(whole[i], vf_set(-2.12194440054690583e-4f), r[i]);
    EACH_VF q[i] = vf_fma(r[i], vf_set(exp_q[3]), vf_set(-exp_q[2]));
    EACH_VF q[i] = vf_fma(q[i], r[i], vf_set(exp_q[1]));
    EACH_VF q[i] = vf_fnma(q[i], r[i], exact ? vf_lookup(exp_q0, vi_bits(t[i])) : vf_set(exp_q[0]));
    EACH_VF power[i] =
        vf_bits(vi_add(vi_shl(vi_bits(t[i]), 19), vi_lookup(exp_power_bits, vi_bits(t[i]))));
    EACH_VF x[i] = vf_div(one, vf_add(vf_fma(power[i], q[i], power[i]), one));
#else
    (void)exact;
    EACH_VF
    {
        vf e = vf_exp_below(vf_or(x[i], vf_set(-0.0f))), one = vf_set(1);
        x[i] = vf_div(vf_select(vf_lt(x[i], vf_zero()), e, one), vf_add(e, one));
    }
#endif
}
VINLINE void vf_sigmoid_each(vf *x, int n)
{
    vf_logistic_each(x, true, n);
}
VINLINE vf vf_sigmoid(vf x)
{
    vf_sigmoid_each(&x, 1);
    return x;
}

/* 2 ulp (2). */
VINLINE vf vf_erf(vf x)
{
    vf a = vf_min(vf_set(3.95f), vf_abs(x));
    vf small = vf_fma(VF_POLY(erf_p, vf_mul(x, x)), x, x);
    vf large = vf_sub(vf_set(1), vf_exp_within(vf_neg(VF_POLY(erf_q, a))));
    return vf_select(vf_lt(a, vf_set(0.92f)), small, vf_copysign(large, x));
}

/* x/2 (1 + erf(x / sqrt(2))) = max(x, 0) - |x|/2 erfc(|x| / sqrt(2)). 7 ulp (8) where x > -1;
 * below, 8 + x^2 (9 + x^2): the exponent is rounded. */
VINLINE vf vf_gelu(vf x)
{
    vf u = vf_min(vf_set(20), vf_abs(x));
    vf t = vf_div(vf_set(1), vf_fma(u, vf_set(0.3125f), vf_set(1)));
    vf e = vf_exp_below(vf_mul(vf_mul(u, u), vf_set(-0.5f)));
    vf tail = vf_mul(vf_mul(VF_POLY(gelu_p, t), t), vf_mul(u, e));
    return vf_sub(vf_max(vf_zero(), x), tail);
}

/* x/2 (1 + tanh(u)) = x sigmoid(2u), u = sqrt(2/pi) (x + 0.044715 x^3). 2 ulp (2) and 2^-24 |x|. */
VINLINE vf vf_gelu_tanh(vf x)
{
    vf cubic = vf_fma(vf_mul(x, x), vf_set(2 * 0.79788456080286535588f * 0.044715f),
                      vf_set(2 * 0.79788456080286535588f));
    return vf_mul(x, vf_sigmoid(vf_mul(x, cubic)));
}

/* 3.5 ulp (4); below -87, where the sigmoid is denormal, also 2^-149 |x|. */
VINLINE void vf_silu_each(vf *x, int n)
{
    vf y[VF_EACH];
    EACH_VF y[i] = x[i];
    vf_logistic_each(x, false, n);
    EACH_VF x[i] = vf_mul(x[i], y[i]);
}
VINLINE vf vf_silu(vf x)
{
    vf_silu_each(&x, 1);
    return x;
}

/* x tanh(ln(1 + e^x)) = x n / (n + 2), n = e^x (e^x + 2). 5 ulp (6), below
 * -87 as vf_silu. */
VINLINE vf vf_mish(vf x)
{
    vf e = vf_exp(vf_min(vf_set(20), x));
    vf n = vf_mul(e, vf_add(e, vf_set(2)));
    return vf_mul(x, vf_div(n, vf_add(n, vf_set(2))));
}

/* 2 ulp (3). */
VINLINE vf vf_softplus(vf x)
{
    vf tail = vf_log1p_unit(vf_exp_below(vf_or(x, vf_set(-0.0f))));
    return vf_add(vf_max(vf_zero(), x), tail);
}

#undef EACH_VF

VINLINE vf vf_softsign(vf x)
{
    return vf_div(x, vf_add(vf_abs(x), vf_set(1)));
}

/* The smaller and the larger of two, NaN if either is. */
VINLINE vf vf_min_nan(vf a, vf b)
{
    return vf_select(vf_ne(a, a), a, vf_min(a, b));
}
VINLINE vf vf_max_nan(vf a, vf b)
{
    return vf_select(vf_ne(a, a), a, vf_max(a, b));
}
/* x within bounds that are numbers; NaN stays. */
VINLINE vf vf_clip(vf x, vf low, vf high)
{
    return vf_min(high, vf_max(low, x));
}

VINLINE vf vf_hardswish(vf x)
{
    vf t = vf_fma(x, vf_set(1.0f / 6), vf_set(0.5f));
    return vf_mul(x, vf_clip(t, vf_zero(), vf_set(1)));
}

VINLINE vf vf_sign(vf x)
{
    vf one = vf_copysign(vf_set(1), x);
    return vf_select(vf_lt(vf_zero(), vf_abs(x)), one, x);
}

#endif
