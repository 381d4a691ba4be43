/* math.c -- elementary functions against the C library's in long double, and their special values.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops/math.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static uint64_t state = 1;

static uint64_t next(void)
{
    uint64_t z = state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

static double any(void) /* every exponent alike */
{
    double x;
    do {
        uint64_t u = next();
        memcpy(&x, &u, 8);
    } while (!isfinite(x));
    return x;
}

static double between(double lo, double hi)
{
    return lo + (hi - lo) * (double)(next() >> 11) * 0x1p-53;
}

/* Distance of `y` from the truth in units of the last place of the truth as a double. */
static double ulps(double y, long double truth)
{
    double t = (double)truth;
    if (isnan(t) || isnan(y))
        return isnan(t) && isnan(y) ? 0 : INFINITY;
    if (isinf(t) || isinf(y))
        return t == y ? 0 : INFINITY;
    int e;
    frexp(t, &e);
    double ulp = e < -1020 ? 0x1p-1074 : ldexp(1, e - 53);
    return (double)(fabsl((long double)y - truth) / ulp);
}

typedef struct {
    const char *name;
    double (*ours)(double);
    long double (*truth)(long double);
    double lo, hi, limit;
} row;

static const row rows[] = {
    {"exp", cm_exp, expl, -746, 710, 0.52},     {"exp2", cm_exp2, exp2l, -1075, 1024, 0.52},
    {"expm1", cm_expm1, expm1l, -10, 50, 0.52}, {"expm1", cm_expm1, expm1l, -1, 1, 0.52},
    {"log", cm_ln, logl, 0, 3, 0.52},           {"log", cm_ln, logl, 0.99, 1.01, 0.52},
    {"log2", cm_log2, log2l, 0, 5, 0.52},       {"log10", cm_log10, log10l, 0, 2000, 0.52},
    {"log1p", cm_log1p, log1pl, -1, 3, 0.52},   {"cbrt", cm_cbrt, cbrtl, -100, 100, 0.52},
    {"sin", cm_sin, sinl, -10, 10, 0.8},        {"cos", cm_cos, cosl, -10, 10, 0.8},
    {"sin", cm_sin, sinl, -2e6, 2e6, 0.8},      {"cos", cm_cos, cosl, -2e6, 2e6, 0.8},
    {"tan", cm_tan, tanl, -10, 10, 1},          {"tan", cm_tan, tanl, -2e6, 2e6, 1},
    {"asin", cm_asin, asinl, -1, 1, 0.52},      {"acos", cm_acos, acosl, -1, 1, 0.52},
    {"atan", cm_atan, atanl, -4, 4, 0.52},      {"sinh", cm_sinh, sinhl, -711, 711, 0.52},
    {"sinh", cm_sinh, sinhl, -2, 2, 0.52},      {"cosh", cm_cosh, coshl, -711, 711, 0.52},
    {"cosh", cm_cosh, coshl, -2, 2, 0.52},      {"tanh", cm_tanh, tanhl, -3, 3, 0.52},
    {"asinh", cm_asinh, asinhl, -5, 5, 0.52},   {"acosh", cm_acosh, acoshl, 1, 5, 0.52},
    {"atanh", cm_atanh, atanhl, -1, 1, 0.52},   {"erf", cm_erf, erfl, -6, 6, 1.2},
    {"erfc", cm_erfc, erfcl, -2, 27, 3},
};

static void within_limits(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const row *r = &rows[i];
        double worst = 0, at = 0;
        for (int n = 0; n < 40000; n++) {
            double x = n & 1 ? between(r->lo, r->hi) : any();
            double u = ulps(r->ours(x), r->truth((long double)x));
            if (u > worst) {
                worst = u;
                at = x;
            }
        }
        if (worst > r->limit)
            fail_msg("%s(%a) is %g ulp off", r->name, at, worst);
    }
}

static void of_two(void **unused)
{
    (void)unused;
    for (int n = 0; n < 200000; n++) {
        double x = n & 1 ? between(0, 40) : fabs(any()), y = between(-50, 50);
        if (n % 3 == 0)
            y = rint(y);
        if (n % 5 == 0) {
            x = between(0.999, 1.001);
            y = between(-7e5, 7e5);
        }
        double u = ulps(cm_pow(x, y), powl(x, y));
        if (u > 0.55)
            fail_msg("pow(%a, %a) is %g ulp off", x, y, u);
        x = n & 1 ? between(-9, 9) : any();
        y = n & 2 ? between(-9, 9) : any();
        u = ulps(cm_atan2(y, x), atan2l(y, x));
        if (u > 0.55)
            fail_msg("atan2(%a, %a) is %g ulp off", y, x, u);
    }
}

static void same(const char *what, double x, double y, double found, double wanted)
{
    if (isnan(wanted) ? !isnan(found) : found != wanted || signbit(found) != signbit(wanted))
        fail_msg("%s(%a, %a) is %a, wanted %a", what, x, y, found, wanted);
}

static bool whole(double t) /* a number that leaves no doubt about rounding */
{
    return t == rint(t) && fabs(t) < 0x1p53;
}

static void special_values(void **unused)
{
    (void)unused;
    static double (*const theirs[])(double) = {exp,  exp2,  expm1, log,   log2, log10, log1p, cbrt,
                                               sin,  cos,   tan,   asin,  acos, atan,  sinh,  cosh,
                                               tanh, asinh, acosh, atanh, erf,  erfc};
    static double (*const ours[])(double) = {
        cm_exp,  cm_exp2,  cm_expm1, cm_ln,    cm_log2, cm_log10, cm_log1p, cm_cbrt,
        cm_sin,  cm_cos,   cm_tan,   cm_asin,  cm_acos, cm_atan,  cm_sinh,  cm_cosh,
        cm_tanh, cm_asinh, cm_acosh, cm_atanh, cm_erf,  cm_erfc};
    static const double v[] = {0,        1,   2,      0.5,   3,  8,   0x1p-1074, 0x1p-1022, DBL_MAX,
                               INFINITY, NAN, 1e-300, 1e300, 10, 100, 1000,      5,         7.25};
    enum { N = sizeof v / sizeof *v };
    for (int i = 0; i < 2 * N; i++) {
        double x = i < N ? v[i] : -v[i - N];
        for (size_t f = 0; f < sizeof ours / sizeof *ours; f++) {
            double t = theirs[f](x);
            if (!isfinite(t) || whole(t))
                same("function", (double)f, x, ours[f](x), t);
        }
        for (int j = 0; j < 2 * N; j++) {
            double y = j < N ? v[j] : -v[j - N];
            double t = pow(x, y);
            if (!isfinite(t) || whole(t))
                same("pow", x, y, cm_pow(x, y), t);
            assert_true(ulps(cm_atan2(x, y), atan2l(x, y)) < 0.52);
            if (atan2(x, y) == 0)
                same("atan2", x, y, cm_atan2(x, y), atan2(x, y));
        }
    }
    for (int n = -1074; n < 1024; n++) {
        same("exp2", n, 0, cm_exp2(n), ldexp(1, n));
        same("log2", n, 0, cm_log2(ldexp(1, n)), n);
        same("pow", 2, n, cm_pow(2, n), ldexp(1, n));
    }
    for (int n = 0; n < 23; n++)
        same("log10", n, 0, cm_log10(pow(10, n)), n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(within_limits),
        cmocka_unit_test(of_two),
        cmocka_unit_test(special_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
