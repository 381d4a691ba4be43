/* math_log.c -- logarithms, powers, and the inverse hyperbolic functions.
 * SPDX-License-Identifier: Apache-2.0
 *
 * x = 2^k m with m near 1, and m = (1 + r)/inv with inv one of 128 short numbers, so that r is an
 * exact pair, |r| <= 2^-7, and log x = k ln2 - log(inv) + log(1 + r). */
#include "ops/math.h"

#include "ops/math/math_pair.h"
#include "ops/math/math_tables.h"

typedef struct {
    int k;
    double h, l; /* minus the logarithm of inv; k LN2_42 + h is exact */
    pair r;
} reduced;

static inline reduced reduce(double x, double low)
{
    reduced d;
    int k = 0;
    if (x < 0x1p-1022) {
        x *= 0x1p54;
        low *= 0x1p54;
        k = -54;
    }
    uint64_t u = bits_of(x);
    int e = (int)(u >> 52) - 1023, j = (int)(u >> 45) & 127;
    double m = of_bits((u & 0xfffffffffffff) | 0x3ff0000000000000);
    if (j >= LOG_SPLIT) {
        m *= 0.5;
        e++;
    }
    double ml = low != 0 && e < 900 ? low * pow2(-e) : 0;
    double inv = log_table[j].inv, m1 = of_bits(bits_of(m) & ~(uint64_t)0x7ffffff);
    d.r = sum(m1 * inv - 1, (m - m1) * inv + ml * inv);
    d.k = k + e;
    d.h = log_table[j].h;
    d.l = log_table[j].l;
    return d;
}

/* log(1 + r) - r + r^2/2 */
static inline double log_tail(double r)
{
    static const double c[] = {1.0 / 3, -1.0 / 4, 1.0 / 5, -1.0 / 6,
                               1.0 / 7, -1.0 / 8, 1.0 / 9, -1.0 / 10};
    return r * r * r * horner(r, c, 8);
}

/* log(1 + r), |r| <= 2^-7 */
static inline pair log1p_small(pair r)
{
    pair q = product(r.h, r.h), s = quick_sum(r.h, -0.5 * q.h);
    return quick_sum(s.h, s.l + (r.l - r.h * r.l - 0.5 * q.l + log_tail(r.h)));
}

pair cm_math_log(double x, double low)
{
    reduced d = reduce(x, low);
    pair p = log1p_small(d.r);
    pair s = sum(d.k * LN2_42 + d.h, p.h);
    return quick_sum(s.h, s.l + (p.l + (d.k * LN2_42_LOW + d.l)));
}

/* Answers for x that has no logarithm; true when *out is the answer. */
static inline int log_special(double x, double *out)
{
    if (x > 0 && x < INFINITY)
        return 0;
    *out = x == 0 ? -INFINITY : x < 0 ? NAN : x;
    return 1;
}

double cm_ln(double x)
{
    double y;
    if (log_special(x, &y))
        return y;
    reduced d = reduce(x, 0);
    pair s = sum(d.k * LN2_42 + d.h, d.r.h);
    return s.h +
           (s.l + ((d.r.l + (d.k * LN2_42_LOW + d.l)) + (log_tail(d.r.h) - 0.5 * d.r.h * d.r.h)));
}

double cm_log2(double x)
{
    double y;
    if (log_special(x, &y))
        return y;
    reduced d = reduce(x, 0);
    pair p = pair_add((pair){d.h, d.l}, log1p_small(d.r));
    p = pair_mul(p, (pair){INV_LN2_HIGH, INV_LN2_LOW});
    return pair_add((pair){d.k, 0}, p).h;
}

double cm_log10(double x)
{
    double y;
    if (log_special(x, &y))
        return y;
    return pair_mul(cm_math_log(x, 0), (pair){INV_LN10_HIGH, INV_LN10_LOW}).h;
}

/* log(1 + a); a > -1 */
static pair log1p_pair(pair a)
{
    if (fabs(a.h) < 0x1p-8)
        return log1p_small(a);
    pair u = pair_add((pair){1, 0}, a);
    return cm_math_log(u.h, u.l);
}

double cm_log1p(double x)
{
    if (!(x > -1))
        return x == -1 ? -INFINITY : x < -1 ? NAN : x;
    if (fabs(x) < 0x1p-54 || x == INFINITY)
        return x;
    return log1p_pair((pair){x, 0}).h;
}

double cm_softplus(double x)
{
    if (x > 40 || x != x)
        return x;
    return x < -40 ? cm_exp(x) : cm_log1p(cm_exp(x));
}

double cm_asinh(double x)
{
    double a = fabs(x);
    pair s;
    if (!(a >= 0x1p-28) || a == INFINITY)
        return x;
    if (a > 0x1p28) {
        s = pair_add(cm_math_log(a, 0), (pair){LN2_HIGH, LN2_LOW});
    } else { /* sqrt(1 + a^2) - 1 = a^2/(1 + sqrt(1 + a^2)) */
        pair q = product(a, a), root = pair_sqrt(pair_add((pair){1, 0}, q));
        q = pair_div(q, pair_add((pair){1, 0}, root));
        s = log1p_pair(pair_add((pair){a, 0}, q));
    }
    return copysign(s.h, x);
}

double cm_acosh(double x)
{
    if (!(x > 1))
        return x == 1 ? 0 : x < 1 ? NAN : x;
    if (x == INFINITY)
        return x;
    if (x > 0x1p28)
        return pair_add(cm_math_log(x, 0), (pair){LN2_HIGH, LN2_LOW}).h;
    pair t = sum(x, -1);
    pair root = pair_sqrt(pair_mul(t, pair_add(t, (pair){2, 0})));
    return log1p_pair(pair_add(t, root)).h;
}

double cm_atanh(double x)
{
    double a = fabs(x);
    if (!(a >= 0x1p-28))
        return x;
    if (a >= 1)
        return a == 1 ? copysign(INFINITY, x) : NAN;
    pair q = pair_div((pair){2 * a, 0}, sum(1, -a));
    return copysign(0.5 * log1p_pair(q).h, x);
}

/* 0: not an integer, 1: odd, 2: even */
static int parity(double y)
{
    double a = fabs(y);
    if (a >= 0x1p53)
        return 2;
    if (a != floor(a))
        return 0;
    return (int64_t)a & 1 ? 1 : 2;
}

/* x or y is a zero, an infinity or NaN, or x is negative to a power that is not an integer. */
static int pow_special(double x, double y, double *out)
{
    double a = fabs(x);
    if (y == 0 || x == 1) {
        *out = 1;
    } else if (x != x || y != y) {
        *out = x + y;
    } else if (fabs(y) == INFINITY) {
        *out = a == 1 ? 1 : (a > 1) == (y > 0) ? INFINITY : 0;
    } else if (a == 0 || a == INFINITY) {
        *out = (a == 0) == (y > 0) ? 0 : INFINITY;
        if (parity(y) == 1)
            *out = copysign(*out, x);
    } else if (x < 0 && parity(y) == 0) {
        *out = NAN;
    } else {
        return 0;
    }
    return 1;
}

double cm_pow(double x, double y)
{
    double out, a = fabs(x);
    int k;
    if (pow_special(x, y, &out))
        return out;
    double sign = x < 0 && parity(y) == 1 ? -1 : 1;
    if (a == 1)
        return sign;
    if (fabs(y) > 0x1p65) /* |log a| >= 2^-53: far out of range */
        return sign * ((a > 1) == (y > 0) ? INFINITY : 0);
    if (fabs(y) < 0x1p-70)
        return sign;
    pair l = cm_math_log(a, 0), p = product(y, l.h);
    p = quick_sum(p.h, p.l + y * l.l);
    if (p.h > 710)
        return sign * INFINITY;
    if (p.h < -746)
        return sign * 0;
    pair e = cm_math_exp(p.h, p.l, &k);
    return sign * cm_math_scale(e.h, e.l, k);
}
