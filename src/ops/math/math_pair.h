/* math_pair.h -- numbers of twice the precision as the sum of two doubles, for math_*.c.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A pair h + l has |l| <= ulp(h)/2. The sums and products of two doubles are exact; operations on
 * pairs lose a few units of 2^-104. Arguments are moderate: nothing here guards overflow. */
#ifndef CM_OPS_MATH_PAIR_H
#define CM_OPS_MATH_PAIR_H

#include <math.h>
#include <stdint.h>
#include <string.h>

typedef struct {
    double h, l;
} pair;

static inline uint64_t bits_of(double x)
{
    uint64_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static inline double of_bits(uint64_t u)
{
    double x;
    memcpy(&x, &u, sizeof x);
    return x;
}

static inline double pow2(int k) /* k in [-1022, 1023] */
{
    return of_bits((uint64_t)(k + 1023) << 52);
}

static inline double horner(double x, const double *c, int n)
{
    double p = c[n - 1];
    for (int i = n - 2; i >= 0; i--)
        p = p * x + c[i];
    return p;
}

/* a + b; |a| >= |b| */
static inline pair quick_sum(double a, double b)
{
    double s = a + b;
    return (pair){s, b - (s - a)};
}

static inline pair sum(double a, double b)
{
    double s = a + b, t = s - a;
    return (pair){s, (a - (s - t)) + (b - t)};
}

/* The upper half of a's bits; the rest has 26 bits. */
static inline double upper(double a)
{
    double t = a * 134217729.0; /* 2^27 + 1 */
    return t - (t - a);
}

static inline pair product(double a, double b)
{
    double p = a * b, ah = upper(a), al = a - ah, bh = upper(b), bl = b - bh;
    return (pair){p, ((ah * bh - p) + ah * bl + al * bh) + al * bl};
}

static inline pair pair_add(pair a, pair b)
{
    pair s = sum(a.h, b.h), t = sum(a.l, b.l);
    s = quick_sum(s.h, s.l + t.h);
    return quick_sum(s.h, s.l + t.l);
}

static inline pair pair_neg(pair a)
{
    return (pair){-a.h, -a.l};
}

static inline pair pair_mul(pair a, pair b)
{
    pair p = product(a.h, b.h);
    return quick_sum(p.h, p.l + (a.h * b.l + a.l * b.h));
}

static inline pair pair_scale(pair a, double power_of_two)
{
    return (pair){a.h * power_of_two, a.l * power_of_two};
}

static inline pair pair_div(pair a, pair b)
{
    double q = a.h / b.h;
    pair p = product(q, b.h);
    return quick_sum(q, (((a.h - p.h) - p.l) + (a.l - q * b.l)) / b.h);
}

static inline pair pair_sqrt(pair a) /* a > 0 */
{
    double s = sqrt(a.h);
    pair p = product(s, s);
    return quick_sum(s, (((a.h - p.h) - p.l) + a.l) / (2 * s));
}

/* Shared between math_*.c: */
pair cm_math_exp(double x, double low, int *k);  /* exp(x + low) = 2^k (h + l), |x| < 760 */
double cm_math_scale(double h, double l, int k); /* 2^k (h + l), rounded once; h in [1/2, 4) */
pair cm_math_log(double x, double low);          /* log(x + low); x > 0, finite */

#endif
