/* math_special.c -- the error function and the cube root.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops/math.h"

#include "ops/math/math_pair.h"
#include "ops/math/math_tables.h"

#define TERMS(poly) ((int)(sizeof(poly) / sizeof *(poly)))

static double erf_small(double x) /* |x| <= 1 */
{
    return x + x * horner(x * x, erf_poly, TERMS(erf_poly));
}

/* erfc(x) for x in [0.75, 28]: exp(-x^2) times a function that varies slowly. */
static double erfc_large(double x)
{
    pair s = product(x, x);
    double f;
    int k;
    if (x < 1.5)
        f = horner(x - 1.125, erfcx_poly1, TERMS(erfcx_poly1));
    else if (x < 2.75)
        f = horner(x - 2.125, erfcx_poly2, TERMS(erfcx_poly2));
    else if (x < 5)
        f = horner(x - 3.875, erfcx_poly3, TERMS(erfcx_poly3));
    else
        f = horner(1 / s.h, erfcx_poly4, TERMS(erfcx_poly4)) / x;
    pair e = cm_math_exp(-s.h, -s.l, &k);
    pair p = product(e.h, f);
    return cm_math_scale(p.h, p.l + e.l * f, k);
}

double cm_erf(double x)
{
    double a = fabs(x);
    if (x != x)
        return x;
    if (a < 1)
        return erf_small(x);
    return copysign(a > 6 ? 1 : 1 - erfc_large(a), x);
}

double cm_erfc(double x)
{
    if (x != x)
        return x;
    if (x > 28)
        return 0;
    if (x >= 0.75)
        return erfc_large(x);
    if (x > -1)
        return 1 - erf_small(x);
    return x < -6 ? 2 : 2 - erfc_large(-x);
}

double cm_cbrt(double x)
{
    double a = fabs(x), scale = 1;
    if (a == 0 || !(a < INFINITY))
        return x;
    if (a < 0x1p-1022) {
        a *= 0x1p54;
        scale = 0x1p-18;
    }
    int e = (int)(bits_of(a) >> 52) - 1023;
    int third = (e + 1200) / 3 - 400; /* floor(e/3) */
    double m = a * pow2(-3 * third / 2) * pow2(-3 * third - (-3 * third / 2));
    double y = horner(m, cbrt_poly, 6); /* 2^-9, then Newton */
    for (int i = 0; i < 2; i++)
        y -= (y * y * y - m) / (3 * y * y);
    pair p = product(y, y), q = product(p.h, y);
    y += ((m - q.h) - (q.l + p.l * y)) / (3 * p.h);
    return copysign(y * scale * pow2(third), x);
}
