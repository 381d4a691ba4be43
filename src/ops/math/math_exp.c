/* math_exp.c -- exp, exp2, expm1, sinh, cosh, tanh and the logistic function.
 * SPDX-License-Identifier: Apache-2.0
 *
 * x = n ln2/128 + r with |r| <= ln2/256, so exp(x) = 2^(n/128) exp(r): a table of 128 pairs, and a
 * Taylor polynomial whose first omitted term is below 2^-72. */
#include "ops/math.h"

#include "ops/math/math_pair.h"
#include "ops/math/math_tables.h"

/* exp(r) - 1 - r */
static inline double exp_tail(double r)
{
    return r * r * (0.5 + r * (1.0 / 6 + r * (1.0 / 24 + r * (1.0 / 120 + r * (1.0 / 720)))));
}

/* x + low = n ln2/128 + r. n * LN2_128 is exact (18 + 32 bits) and so is the difference. */
static inline pair reduce(double x, double low, double *n)
{
    *n = rint(x * INV_LN2_128);
    return sum(x - *n * LN2_128, low - *n * LN2_128_LOW);
}

/* 2^(n/128) exp(r) = 2^k (h + l) */
static inline pair power(double n, pair r, int *k)
{
    int i = (int)n, j = i & 127;
    double th = exp_table[j].h, tl = exp_table[j].l;
    double p = r.l + exp_tail(r.h);
    pair a = product(th, r.h), s = quick_sum(th, a.h);
    *k = (i - j) / 128;
    return quick_sum(s.h, s.l + (a.l + (tl + tl * r.h) + th * p));
}

pair cm_math_exp(double x, double low, int *k)
{
    double n;
    pair r = reduce(x, low, &n);
    return power(n, r, k);
}

double cm_math_scale(double h, double l, int k)
{
    if (k <= 1022 && (k > -1022 || (k == -1022 && h >= 1)))
        return (h + l) * pow2(k);
    if (k > 1022)
        return k > 1030 ? h * INFINITY : (h + l) * pow2(1023) * pow2(k - 1023);
    if (k < -1100)
        return h * 0.0;
    /* Subnormal: next to t, h + l is rounded where the result will be. */
    double t = pow2(-1022 - k);
    pair s = quick_sum(t, h);
    return ((s.h + (s.l + l)) - t) * pow2(-500) * pow2(k + 500);
}

double cm_exp(double x)
{
    double n;
    if (x != x)
        return x;
    if (x > 709.8)
        return INFINITY;
    if (x < -745.2)
        return 0;
    pair r = reduce(x, 0, &n);
    int i = (int)n, j = i & 127;
    double th = exp_table[j].h;
    return cm_math_scale(th, exp_table[j].l + th * (r.h + (r.l + exp_tail(r.h))), (i - j) / 128);
}

double cm_exp2(double x)
{
    int k;
    if (x != x)
        return x;
    if (x >= 1024)
        return INFINITY;
    if (x < -1075)
        return 0;
    double n = rint(x * 128), f = x - n / 128; /* exact */
    pair r = product(f, LN2_HIGH);
    r = quick_sum(r.h, r.l + f * LN2_LOW);
    pair e = power(n, r, &k);
    return cm_math_scale(e.h, e.l, k);
}

/* exp(x) - 1 with the precision of a pair's better half; |x| <= 80. */
static pair expm1_pair(double x)
{
    double n;
    int k;
    pair r = reduce(x, 0, &n);
    if (n == 0)
        return quick_sum(x, exp_tail(x));
    pair e = power(n, r, &k);
    e = pair_scale(e, pow2(k));
    pair s = sum(e.h, -1.0);
    return quick_sum(s.h, s.l + e.l);
}

double cm_expm1(double x)
{
    if (fabs(x) < 0x1p-54 || x != x)
        return x;
    if (x > 60)
        return cm_exp(x);
    if (x < -60)
        return -1;
    return expm1_pair(x).h;
}

double cm_sinh(double x)
{
    double a = fabs(x), s;
    int k;
    if (!(a >= 0x1p-28))
        return x;
    if (a > 711) {
        s = INFINITY;
    } else if (a > 40) { /* the other exponential is below half an ulp */
        pair e = cm_math_exp(a, 0, &k);
        s = cm_math_scale(e.h, e.l, k - 1);
    } else {
        pair e = expm1_pair(a);
        s = 0.5 * pair_add(e, pair_div(e, pair_add(e, (pair){1, 0}))).h;
    }
    return copysign(s, x);
}

double cm_cosh(double x)
{
    double a = fabs(x);
    int k;
    if (x != x)
        return x;
    if (a > 711)
        return INFINITY;
    pair e = cm_math_exp(a, 0, &k);
    if (a > 40)
        return cm_math_scale(e.h, e.l, k - 1);
    e = pair_scale(e, pow2(k));
    return 0.5 * pair_add(e, pair_div((pair){1, 0}, e)).h;
}

double cm_tanh(double x)
{
    double a = fabs(x);
    if (!(a >= 0x1p-28))
        return x;
    if (a > 20)
        return copysign(1, x);
    pair e = expm1_pair(2 * a);
    return copysign(pair_div(e, pair_add(e, (pair){2, 0})).h, x);
}

double cm_sigmoid(double x)
{
    int k;
    if (x != x)
        return x;
    if (x > 40)
        return 1;
    if (x < -700) /* the exponential alone, which may be subnormal */
        return cm_exp(x);
    pair e = cm_math_exp(-x, 0, &k);
    e = pair_scale(e, pow2(k));
    return 1 / pair_add(e, (pair){1, 0}).h;
}
