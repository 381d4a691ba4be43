/* pairs.c -- products by pairs against sums in double: tiles of all sizes, rows and columns of all magnitudes.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cpu.h"
#include "cpu/pairs.h"

enum { M = CM_PAIRS_MR, N = CM_PAIRS_NR, K = 768 };

static _Alignas(64) float a[M * K], w[K * N], packed[(K + 3) * N], c[M * N], room[M * (K + 32)];

static float normal(uint32_t *seed)
{
    double sum = 0;
    for (int i = 0; i < 12; i++) {
        *seed = *seed * 1664525u + 1013904223u;
        sum += (*seed >> 8) / 16777216.0;
    }
    return (float)(sum - 6);
}

static void fill(void)
{
    uint32_t seed = 1;
    for (int i = 0; i < M * K; i++)
        a[i] = normal(&seed);
    for (int i = 0; i < K * N; i++)
        w[i] = 0.05f * normal(&seed);
}

static const cm_simple_epilogue nothing = {.lo = -INFINITY, .hi = INFINITY};

/* c = m rows of a times w, sums of k. */
static cm_pairs_rows multiply(int m, int64_t k, bool copy)
{
    cm_pairs_rows rows;
    memcpy(packed, w, (size_t)(k * N) * sizeof *w);
    cm_pairs_pack(k, CM_PAIRS_SIZE, packed);
    cm_pairs_rows_of(&rows, m, k, a, K, CM_PAIRS_SIZE, copy, room);
    cm_pairs_tile t = {.rows = &rows,
                       .k = k,
                       .b = packed,
                       .start = cm_pairs_packed_start(k, packed),
                       .factor = cm_pairs_packed_factor(k, packed),
                       .c = c,
                       .ldc = N,
                       .e = &nothing};
    cm_pairs_f32__avx512.tile[m](&t);
    return rows;
}

/* The largest error of row i, or of all (-1), relative to the largest magnitude there. */
static double error(int row, int m, int64_t k)
{
    double worst = 0, most = 0;
    for (int i = row < 0 ? 0 : row; i < (row < 0 ? m : row + 1); i++) {
        for (int j = 0; j < N; j++) {
            double sum = 0;
            for (int64_t l = 0; l < k; l++)
                sum += (double)a[i * K + l] * w[l * N + j];
            worst = fmax(worst, fabs(sum - c[i * N + j]));
            most = fmax(most, fabs(sum));
        }
    }
    return worst / most;
}

static bool missing(void)
{
    fill();
    return cm_cpu_info()->isa < CM_ISA_AVX512;
}

static void test_sizes(void **state)
{
    (void)state;
    if (missing())
        skip();
    for (int m = 1; m <= M; m++) {
        for (int64_t k = 1; k < 40; k++) {
            assert_false(multiply(m, k, m % 2).usual);
            assert_true(error(-1, m, k) < 1e-6);
        }
    }
}

/* docs/numerics.md: 1.5e-6 and 7e-7 of the largest magnitude; held to twice that. */
static void test_error(void **state)
{
    (void)state;
    if (missing())
        skip();
    multiply(M, K, false);
    assert_true(error(-1, M, K) < 3e-6);
    for (int i = 0; i < M * K; i++)
        a[i] = fmaxf(a[i], 0);
    multiply(M, K, false);
    assert_true(error(-1, M, K) < 1.4e-6);
}

/* Rows and columns of any size are as exact as others. */
static void test_scales(void **state)
{
    (void)state;
    if (missing())
        skip();
    for (int i = 0; i < M; i++) {
        for (int l = 0; l < K; l++)
            a[i * K + l] = ldexpf(a[i * K + l], 5 * i - 30);
    }
    for (int l = 0; l < K; l++)
        w[l * N + 3] = ldexpf(w[l * N + 3], -40);
    cm_pairs_rows rows = multiply(M, K, false);
    assert_true(rows.scaled && !rows.usual);
    for (int i = 0; i < M; i++)
        assert_true(error(i, M, K) < 3e-6);
    double worst = 0, most = 0;
    for (int i = 0; i < M; i++) {
        double sum = 0;
        for (int l = 0; l < K; l++)
            sum += (double)a[i * K + l] * w[l * N + 3];
        worst = fmax(worst, fabs(sum - c[i * N + 3]) / ldexp(1, 5 * i - 30));
        most = fmax(most, fabs(sum) / ldexp(1, 5 * i - 30));
    }
    assert_true(worst < 4e-6 * most);
}

/* Weights as they are: rows take their size; columns of another are told. */
static void test_plain_weights(void **state)
{
    (void)state;
    if (missing())
        skip();
    float start[N], size = cm_pairs_size(K, w);
    assert_true(size == 1.0f / 32 || size == 1.0f / 16);
    assert_true(cm_pairs_start(K, w, size, start));
    cm_pairs_rows rows;
    cm_pairs_rows_of(&rows, M, K, a, K, size, false, room);
    assert_true(rows.scaled && !rows.usual);
    cm_pairs_tile t = {
        .rows = &rows, .k = K, .b = w, .start = start, .c = c, .ldc = N, .e = &nothing};
    cm_pairs_f32__avx512.tile[M](&t);
    assert_true(error(-1, M, K) < 3e-6);
    for (int l = 0; l < K; l++)
        w[l * N + 9] *= 16;
    assert_false(cm_pairs_start(K, w, size, start));
    w[2 * N + 9] = NAN;
    assert_false(cm_pairs_start(K, w, size, start));
    assert_true(cm_pairs_size(K, w) == 0);
}

/* Rows that pairs would spoil: results are those of plain sums. */
static void test_unfit(void **state)
{
    (void)state;
    if (missing())
        skip();
    static const float odd[] = {0, NAN, INFINITY, -INFINITY, 1e30f, 1e-30f};
    for (size_t q = 0; q < sizeof odd / sizeof *odd; q++) {
        fill();
        for (int l = 0; l < K; l++)
            a[5 * K + l] = odd[q];
        assert_true(multiply(M, K, false).usual);
        for (int j = 0; j < N; j++) {
            double sum = 0;
            for (int l = 0; l < K; l++)
                sum += (double)odd[q] * w[l * N + j];
            float found = c[5 * N + j];
            assert_true(isnan(sum) ? isnan(found)
                                   : fabs(found - sum) <= 1e-4 * fabs(sum) || found == sum);
        }
        for (int i = 0; i < M; i++)
            assert_true(i == 5 || error(i, M, K) < 2e-6);
    }
    fill();
    w[7 * N + 4] = INFINITY; /* the other columns are as ever */
    multiply(M, K, false);
    for (int i = 0; i < M; i++) {
        assert_true(isinf(c[i * N + 4]) && (c[i * N + 4] > 0) == (a[i * K + 7] > 0));
        assert_true(isfinite(c[i * N + 3]) && isfinite(c[i * N + 5]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),  cmocka_unit_test(test_error),
        cmocka_unit_test(test_scales), cmocka_unit_test(test_plain_weights),
        cmocka_unit_test(test_unfit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
