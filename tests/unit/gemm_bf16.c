/* gemm_bf16.c -- tiles of bfloat16 against sums in double, with each instruction set that this machine has.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Operands are small whole numbers, so that every sum is exact and any wrong element shows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/cpu.h"
#include "cpu/gemm_half.h"
#include "plan/dtype.h"

static uint32_t seed = 1;
static int small(void)
{
    seed = seed * 1664525u + 1013904223u;
    return (int)(seed >> 8) % 9 - 4;
}

static void one(const cm_gemm_bf16_kernel *g, int64_t m, int64_t k)
{
    int64_t lda = k + 3, ldc = CM_BF16_NR + 5;
    uint16_t *a = malloc((size_t)(m * lda) * 2), *b = malloc((size_t)(k * CM_BF16_NR) * 2);
    float *c = malloc((size_t)(m * ldc) * sizeof *c);
    for (int64_t i = 0; i < m * lda; i++)
        a[i] = cm_f64_to_bf16(small());
    for (int64_t i = 0; i < k * CM_BF16_NR; i++)
        b[i] = cm_f64_to_bf16(small());
    for (int64_t i = 0; i < m * ldc; i++)
        c[i] = 77;
    if (g->begin)
        g->begin();
    g->tile(&(cm_bf16_tile){.m = m, .k = k, .a = a, .lda = lda, .b = b, .c = c, .ldc = ldc});
    if (g->end)
        g->end();
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < CM_BF16_NR; j++) {
            double sum = 0;
            for (int64_t l = 0; l < k; l++)
                sum += cm_bf16_to_f32(a[i * lda + l]) * cm_bf16_to_f32(b[cm_bf16_panel_at(l, j)]);
            if (c[i * ldc + j] != sum)
                fail_msg("m %lld k %lld at %lld, %lld: %g, wanted %g", (long long)m, (long long)k,
                         (long long)i, (long long)j, c[i * ldc + j], sum);
        }
        for (int64_t j = CM_BF16_NR; j < ldc; j++)
            assert_true(c[i * ldc + j] == 77);
    }
    free(a), free(b), free(c);
}

static void all_sizes(const cm_gemm_bf16_kernel *g)
{
    for (int64_t m = 1; m <= g->mr; m++)
        for (int64_t k = CM_BF16_K; k <= 5 * CM_BF16_K; k += CM_BF16_K)
            one(g, m, k);
}

static void test_avx512(void **state)
{
    (void)state;
    if (!cm_cpu_info()->bf16)
        skip();
    all_sizes(&cm_gemm_bf16__avx512);
}

static void test_amx(void **state)
{
    (void)state;
    if (cm_cpu_info()->isa < CM_ISA_AMX)
        skip();
    all_sizes(&cm_gemm_bf16__amx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_avx512), cmocka_unit_test(test_amx)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
