/* strassen.c -- products by Strassen's scheme against sums in double, and which rows may meet.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/cpu.h"
#include "cpu/strassen.h"

enum { M = 57, K = 1000, N = 192 };

static float a[M * K], w[K * N], packed[K * N], c[M * N];

static float normal(uint32_t *seed)
{
    double sum = 0;
    for (int i = 0; i < 12; i++) {
        *seed = *seed * 1664525u + 1013904223u;
        sum += (*seed >> 8) / 16777216.0;
    }
    return (float)(sum - 6);
}

static void keep(void *arg, float *x, int64_t ld, int64_t col, int64_t n)
{
    (void)arg;
    for (int i = 0; i < M; i++) {
        for (int64_t j = 0; j < n; j++)
            c[i * N + col + j] = x[i * ld + j];
    }
}

static float *floats(int64_t n)
{
    float *p = aligned_alloc(64, (size_t)(n + 15) / 16 * 64);
    assert_non_null(p);
    return p;
}

static bool mix_row(float *mixed, int i, const float *upper, const float *lower)
{
    float size[2] = {0, 0};
    cm_strassen_mix(mixed, M, K, i, 0, K / 2, (const float *const[]){upper, upper + K / 2},
                    (const float *const[]){lower, lower + K / 2}, size);
    return cm_strassen_alike(size);
}

/* docs/numerics.md: 1.1e-6 of the largest magnitude; held to twice that. */
static void test_error(void **state)
{
    (void)state;
    if (cm_cpu_info()->isa < CM_ISA_AVX512)
        skip();
    const cm_gemm_f32_kernel *g = cm_gemm_f32_kernel_of(CM_ISA_AVX512);
    float *mixed = floats(cm_strassen_mixed_floats(M, K));
    float *scratch = floats(cm_strassen_scratch_floats(g, M));
    uint32_t seed = 1;
    for (int i = 0; i < M * K; i++)
        a[i] = normal(&seed);
    for (int i = 0; i < K * N; i++)
        w[i] = normal(&seed);
    g->pack_b(K, N, w, N, 1, packed, (int64_t)K * g->nr);
    int64_t half = cm_strassen_half(M);
    for (int i = 0; i < half; i++)
        assert_true(mix_row(mixed, i, a + i * K, a + (i + half < M ? i + half : i) * K));
    cm_strassen s = {
        .g = g, .m = M, .k = K, .pairs = N / g->nr / 2, .mixed = mixed, .b = packed, .done = keep};
    cm_strassen_pairs(&s, 0, 1, scratch);
    cm_strassen_pairs(&s, 1, s.pairs, scratch);
    double worst = 0, most = 0;
    for (int i = 0; i < M; i++) {
        for (int j = 0; j < N; j++) {
            double sum = 0;
            for (int l = 0; l < K; l++)
                sum += (double)a[i * K + l] * w[l * N + j];
            worst = fmax(worst, fabs(sum - c[i * N + j]));
            most = fmax(most, fabs(sum));
        }
    }
    assert_true(worst < 2.2e-6 * most);
    free(mixed);
    free(scratch);
}

static void test_alike(void **state)
{
    (void)state;
    if (cm_cpu_info()->isa < CM_ISA_AVX512)
        skip();
    float *mixed = floats(cm_strassen_mixed_floats(M, K));
    static float one[K], other[K];
    static const struct {
        float size, odd;
        bool alike;
    } cases[] = {{1, 0, true},          {15, 0, true},         {17, 0, false},
                 {1.0f / 17, 0, false}, {0, 0, false},         {1, NAN, false},
                 {1, INFINITY, false},  {1, -INFINITY, false}, {3e38f, 0, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int l = 0; l < K; l++) {
            one[l] = l % 2 ? 1 : -1;
            other[l] = one[l] * cases[i].size;
        }
        other[K - 1] += cases[i].odd;
        assert_int_equal(mix_row(mixed, 3, one, other), cases[i].alike);
        assert_int_equal(mix_row(mixed, 3, other, one), cases[i].alike);
    }
    free(mixed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_error), cmocka_unit_test(test_alike)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
