/* vector_math.c -- errors of the vector functions (cpu/simd/math.h), at every ISA level.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Without arguments one float32 in 6151 is tried, which takes seconds; `vector_math all` tries all 2^32 (about
 * an hour); `vector_math N [name]` one in N, of one function, and prints the errors. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cpu.h"
#include "cpu/tile.h"
#include "ops/program_eval.h"

enum { N = 512, LEVELS = 3 };

/* The bounds that math.h states, in units in the last place of float32: with fused multiply-adds and
 * without. `slack` times |x| is allowed besides, for those that take a difference; gelu's error grows
 * with the square of x below -1. */
static const struct {
    cm_pointwise op;
    double fused, plain;
    double slack;
} rows[] = {
    {CM_PW_NEG, 0, 0, 0},
    {CM_PW_ABS, 0, 0, 0},
    {CM_PW_SIGN, 0, 0, 0},
    {CM_PW_FLOOR, 0, 0, 0},
    {CM_PW_CEIL, 0, 0, 0},
    {CM_PW_ROUND, 0, 0, 0},
    {CM_PW_SQRT, 0.501, 0.501, 0},
    {CM_PW_RSQRT, 1.5, 1.5, 0},
    {CM_PW_RECIP, 0.501, 0.501, 0},
    {CM_PW_EXP, 1, 2, 0},
    {CM_PW_LOG, 1, 2, 0},
    {CM_PW_SIN, 2, 2, 0},
    {CM_PW_COS, 2, 2, 0},
    {CM_PW_TANH, 2, 2, 0},
    {CM_PW_SIGMOID, 2.5, 3, 0},
    {CM_PW_ERF, 2, 2, 0},
    {CM_PW_RELU, 0, 0, 0},
    {CM_PW_GELU, 7, 8, 0},
    {CM_PW_GELU_TANH, 2, 2, 0x1p-24},
    {CM_PW_SILU, 3.5, 4, 0x1p-149},
    {CM_PW_MISH, 5, 6, 0x1p-149},
    {CM_PW_SOFTPLUS, 2, 3, 0},
    {CM_PW_SOFTSIGN, 2, 2, 0},
    {CM_PW_HARDSWISH, 2, 3, 0x1p-23},
    {CM_PW_NOT, 0, 0, 0},
    {CM_PW_IS_NAN, 0, 0, 0},
};

/* |got - want| in units in the last place of `want` as float32. */
static double error_of(float got, double want, double slack)
{
    float rounded = (float)want;
    if (isnan(rounded) || isnan(got))
        return isnan(rounded) && isnan(got) ? 0 : INFINITY;
    if (isinf(rounded) || isinf(got)) /* an ulp of the largest number, where they disagree */
        return rounded == got ? 0
                              : fabs(fmin(fmax(got, -0x1p128), 0x1p128) -
                                     fmin(fmax(want, -0x1p128), 0x1p128)) /
                                    0x1p104;
    int e;
    frexp(want, &e);
    double ulp = ldexp(1, (e < -125 ? -125 : e) - 24);
    double off = fabs(got - want) - slack;
    return off > 0 ? off / ulp : 0;
}

typedef struct {
    double worst;
    float at, got;
} worst;

static void try_block(const float *x, int n, int row, worst *w)
{
    const cm_tile_kernels *level[LEVELS] = {&cm_cpu_tile__generic, &cm_cpu_tile__avx2,
                                            &cm_cpu_tile__avx512};
    double want[N];
    float got[N];
    for (int i = 0; i < n; i++)
        want[i] = cm_pointwise_apply(rows[row].op, x[i], 0, 0);
    for (int l = 0; l < LEVELS && l <= (int)cm_cpu_info()->isa; l++) {
        level[l]->op[rows[row].op].each(got, x, NULL, NULL, n);
        for (int i = 0; i < n; i++) {
            double slack = isfinite(x[i]) ? rows[row].slack * fabs(x[i]) : 0;
            double error = error_of(got[i], want[i], slack);
            if (rows[row].op == CM_PW_GELU && x[i] < -1)
                error -= 1 + (double)x[i] * (double)x[i];
            if (error > w[l].worst)
                w[l] = (worst){error, x[i], got[i]};
        }
    }
}

static void walk(int row, uint64_t step, worst *w)
{
    static const float special[] = {
        0.0f,         -0.0f,     INFINITY,         -INFINITY,         NAN, -NAN, 0x1p-149f,
        -0x1p-149f,   0x1p-126f, 3.4028234664e38f, -3.4028234664e38f, 1,   -1,   0x1.fffffep-1f,
        0x1.000002p0f};
    float x[N];
    int n = 0;
    try_block(special, CM_COUNT(special), row, w);
    for (uint64_t b = 0; b < UINT64_C(1) << 32; b += step) {
        uint32_t bits = (uint32_t)b;
        memcpy(&x[n++], &bits, sizeof bits);
        if (n == N) {
            try_block(x, n, row, w);
            n = 0;
        }
    }
    try_block(x, n, row, w);
}

static uint64_t step_arg = 6151;
static const char *only_arg;
static bool print_arg;

static void within_their_bounds(void **state)
{
    (void)state;
    int wrong = 0;
    for (int row = 0; row < CM_COUNT(rows); row++) {
        worst w[LEVELS] = {{0}};
        const char *name = cm_pointwise_name(rows[row].op);
        if (only_arg && strcmp(name, only_arg) != 0)
            continue;
        walk(row, step_arg, w);
        for (int l = 0; l < LEVELS; l++) {
            bool bad = w[l].worst > (l == 0 ? rows[row].plain : rows[row].fused);
            wrong += bad;
            if (bad || print_arg)
                print_message("%s %-9s %.3f ulp at %a (%.9g), gave %.9g%s\n",
                              cm_isa_name((cm_isa)l), name, w[l].worst, (double)w[l].at,
                              (double)w[l].at, (double)w[l].got, bad ? ": too much" : "");
        }
    }
    assert_int_equal(wrong, 0);
}

/* Every pair of numbers that hurt, then random bits and moderate numbers. */
static float pow_argument(int i, int which)
{
    static const float special[] = {0.0f,       -0.0f,      INFINITY,  -INFINITY,  NAN,   1,
                                    -1,         2,          -2,        3,          -3,    0.5f,
                                    -0.5f,      1.5f,       0x1p-149f, -0x1p-130f, 1e38f, -1e38f,
                                    16777215.f, 16777216.f, 0x1p100f,  1.0000001f};
    enum { SPECIALS = sizeof special / sizeof *special };
    static uint32_t seed = 7;
    if (i < SPECIALS * SPECIALS)
        return special[which ? i / SPECIALS : i % SPECIALS];
    seed = seed * 1664525u + 1013904223u;
    uint32_t bits = seed ^ seed >> 15;
    float x;
    memcpy(&x, &bits, sizeof x);
    if (i % 3 == 0)
        return x;
    float moderate = (float)(seed >> 8) * 0x1p-24f;
    return which ? (i % 3 == 1 ? (float)(int)(moderate * 9) - 4 : moderate * 30 - 15)
                 : (i % 2 ? moderate * 10 : -moderate * 3);
}

static void powers_within_one_ulp(void **state)
{
    (void)state;
    const cm_tile_kernels *level[LEVELS] = {&cm_cpu_tile__generic, &cm_cpu_tile__avx2,
                                            &cm_cpu_tile__avx512};
    for (int block = 0; block < 2000; block++) {
        float x[N], y[N], got[N];
        for (int i = 0; i < N; i++) {
            x[i] = pow_argument(block * N + i, 0);
            y[i] = pow_argument(block * N + i, 1);
        }
        for (int l = 0; l < LEVELS && l <= (int)cm_cpu_info()->isa; l++) {
            level[l]->op[CM_PW_POW].each(got, x, y, NULL, N);
            for (int i = 0; i < N; i++) {
                double want = cm_pointwise_apply(CM_PW_POW, x[i], y[i], 0);
                if (error_of(got[i], want, 0) > 1)
                    fail_msg("%s: pow(%a, %a) is %a, wanted %a", cm_isa_name((cm_isa)l),
                             (double)x[i], (double)y[i], (double)got[i], want);
            }
        }
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(powers_within_one_ulp),
                                       cmocka_unit_test(within_their_bounds)};
    if (argc > 1) {
        step_arg = strcmp(argv[1], "all") ? strtoull(argv[1], NULL, 0) : 1;
        print_arg = true;
        only_arg = argc > 2 ? argv[2] : NULL;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
