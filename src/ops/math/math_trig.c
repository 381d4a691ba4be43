/* math_trig.c -- sin, cos, tan and their inverses.
 * SPDX-License-Identifier: Apache-2.0
 *
 * x = n pi/2 + r with |r| <= pi/4, r a pair with full relative precision whatever x is. */
#include "ops/math.h"

#include "ops/math/math_pair.h"
#include "ops/math/math_tables.h"

/* 64 bits of 2/pi from bit `at`; bit 64 is the first after the point. */
static uint64_t pi_bits(int at)
{
    int word = at / 64, shift = at % 64;
    uint64_t a = word ? two_over_pi[word - 1] : 0, b = two_over_pi[word];
    return shift ? a << shift | b >> (64 - shift) : a;
}

/* x >= 2^20, finite. x = m 2^e with an integer m < 2^53; bits of 2/pi that give multiples of 4 are
 * skipped, the next 192 make a window w, and x 2/pi = m w 2^-190 modulo 4. Cancellation eats at
 * most some 62 bits of those 190 and the cut-off tail 53: 75 are good. */
static int reduce_large(double x, pair *r)
{
    uint64_t u = bits_of(x), m = (u & 0xfffffffffffff) | 0x10000000000000;
    int e = (int)(u >> 52) - 1075, at = e - 2 + 64;
    unsigned __int128 p = (unsigned __int128)m * pi_bits(at + 128);
    uint64_t w2 = (uint64_t)p;
    p = (unsigned __int128)m * pi_bits(at + 64) + (uint64_t)(p >> 64);
    uint64_t w1 = (uint64_t)p, w0 = m * pi_bits(at) + (uint64_t)(p >> 64);
    int n = (int)(w0 >> 62), negative = (int)(w0 >> 61) & 1;
    w0 = w0 << 2 | w1 >> 62;
    w1 = w1 << 2 | w2 >> 62;
    w2 <<= 2;
    if (negative) { /* nearer to the next multiple */
        n++;
        w2 = ~w2 + 1;
        w1 = ~w1 + (w2 == 0);
        w0 = ~w0 + (w1 == 0 && w2 == 0);
    }
    int zeros = 0;
    while (w0 == 0 && zeros < 128) {
        w0 = w1;
        w1 = w2;
        w2 = 0;
        zeros += 64;
    }
    int s = w0 ? __builtin_clzll(w0) : 0;
    if (s) {
        w0 = w0 << s | w1 >> (64 - s);
        w1 = w1 << s | w2 >> (64 - s);
    }
    double unit = pow2(-64 - zeros - s) * (negative ? -1 : 1);
    double h = (double)(w0 & ~(uint64_t)0x7ff), l = (double)((w0 & 0x7ff) << 42 | w1 >> 22);
    pair f = quick_sum(h * unit, l * 0x1p-42 * unit);
    *r = pair_mul(f, (pair){PI_2_HIGH, PI_2_LOW});
    return n;
}

/* x = n pi/2 + r; n modulo 4. x is finite. */
static int reduce(double x, pair *r)
{
    double a = fabs(x);
    int n;
    if (a <= PI_2_HIGH / 2) {
        *r = (pair){x, 0};
        return 0;
    }
    if (a < 0x1p20) { /* n times a part of pi/2 is exact: 20 + 33 bits */
        double q = rint(a * INV_PI_2);
        pair s = sum(a - q * PI_2_PART1, -q * PI_2_PART2);
        s = pair_add(s, sum(-q * PI_2_PART3, -q * PI_2_PART4));
        *r = s;
        n = (int)q;
    } else {
        n = reduce_large(a, r);
    }
    if (x < 0) {
        *r = pair_neg(*r);
        n = -n;
    }
    return n & 3;
}

static pair sin_small(pair r)
{
    double z = r.h * r.h;
    return quick_sum(r.h, r.l * (1 - 0.5 * z) + r.h * z * horner(z, sin_poly, 7));
}

static pair cos_small(pair r)
{
    pair q = product(r.h, r.h), s = quick_sum(1, -0.5 * q.h);
    return quick_sum(s.h, s.l + (q.h * q.h * horner(q.h, cos_poly, 6) - (0.5 * q.l + r.h * r.l)));
}

double cm_sin(double x)
{
    pair r;
    if (fabs(x) < 0x1p-27)
        return x;
    if (!(fabs(x) < INFINITY))
        return NAN;
    int n = reduce(x, &r);
    double y = n & 1 ? cos_small(r).h : sin_small(r).h;
    return n & 2 ? -y : y;
}

double cm_cos(double x)
{
    pair r;
    if (!(fabs(x) < INFINITY))
        return NAN;
    int n = reduce(x, &r);
    double y = n & 1 ? sin_small(r).h : cos_small(r).h;
    return n == 1 || n == 2 ? -y : y;
}

double cm_tan(double x)
{
    pair r;
    if (fabs(x) < 0x1p-27)
        return x;
    if (!(fabs(x) < INFINITY))
        return NAN;
    int n = reduce(x, &r);
    pair s = sin_small(r), c = cos_small(r);
    return n & 1 ? -pair_div(c, s).h : pair_div(s, c).h;
}

/* atan(y/x) for 0 <= y <= x: the nearest j/16 by table, the rest by polynomial. */
static pair atan_ratio(pair y, pair x)
{
    int j = (int)rint(16 * y.h / x.h);
    pair t;
    if (j == 0) {
        t = pair_div(y, x);
    } else {
        pair c = {j / 16.0, 0};
        t = pair_div(pair_add(y, pair_neg(pair_mul(c, x))), pair_add(x, pair_mul(c, y)));
    }
    double z = t.h * t.h;
    t = quick_sum(t.h, t.l + t.h * z * horner(z, atan_poly, 5));
    return pair_add((pair){atan_table[j].h, atan_table[j].l}, t);
}

/* The angle of the point (x, y) in the first quadrant. */
static pair angle(pair y, pair x)
{
    if (y.h <= x.h)
        return atan_ratio(y, x);
    return pair_add((pair){PI_2_HIGH, PI_2_LOW}, pair_neg(atan_ratio(x, y)));
}

double cm_atan(double x)
{
    double a = fabs(x);
    if (!(a >= 0x1p-27))
        return x;
    if (a > 0x1p60)
        return copysign(PI_2_HIGH, x);
    return copysign(angle((pair){a, 0}, (pair){1, 0}).h, x);
}

static pair cofunction(double a) /* sqrt(1 - a^2), 0 <= a < 1 */
{
    return pair_sqrt(pair_mul(sum(1, -a), sum(1, a)));
}

double cm_asin(double x)
{
    double a = fabs(x);
    if (!(a >= 0x1p-27))
        return x;
    if (a >= 1)
        return a == 1 ? copysign(PI_2_HIGH, x) : NAN;
    return copysign(angle((pair){a, 0}, cofunction(a)).h, x);
}

double cm_acos(double x)
{
    double a = fabs(x);
    if (!(a < 1))
        return x == 1 ? 0 : x == -1 ? PI_HIGH : NAN;
    pair t = a < 0x1p-60 ? (pair){PI_2_HIGH, PI_2_LOW} : angle(cofunction(a), (pair){a, 0});
    return x < 0 ? pair_add((pair){PI_HIGH, PI_LOW}, pair_neg(t)).h : t.h;
}

static int exponent(double x) /* of x > 0 */
{
    int e = (int)(bits_of(x) >> 52);
    return e ? e - 1023 : (int)(bits_of(x * 0x1p54) >> 52) - 1023 - 54;
}

/* x 2^-e without a detour through a rounded number; the result is near 1. */
static double unscale(double x, int e)
{
    int half = -e / 2;
    return x * pow2(half) * pow2(-e - half);
}

double cm_atan2(double y, double x)
{
    double a = fabs(y), b = fabs(x), t;
    if (x != x || y != y)
        return x + y;
    if (a == 0 || (b == INFINITY && a < INFINITY))
        return copysign(signbit(x) ? PI_HIGH : 0, y);
    if (b == 0 || (a == INFINITY && b < INFINITY))
        return copysign(PI_2_HIGH, y);
    if (a == INFINITY)
        return copysign(x > 0 ? PI_2_HIGH / 2 : 3 * (PI_2_HIGH / 2), y);
    int ea = exponent(a), eb = exponent(b);
    if (ea - eb > 60)
        return copysign(PI_2_HIGH, y);
    if (eb - ea > 60)
        return copysign(x > 0 ? a / b : PI_HIGH, y);
    pair p = angle((pair){unscale(a, eb), 0}, (pair){unscale(b, eb), 0});
    t = x > 0 ? p.h : pair_add((pair){PI_HIGH, PI_LOW}, pair_neg(p)).h;
    return copysign(t, y);
}
