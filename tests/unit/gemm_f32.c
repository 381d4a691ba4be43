/* gemm_f32.c -- the shared matrix product of the CPU backend against sums in double, at every level.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A sum of k products in float32, in any order, differs from the exact one by at most about k * 2^-24 times the
 * sum of magnitudes; errors of random signs make that sqrt(k) and less. 2^-20 of the sum of magnitudes
 * allows 16 roundings in a row the wrong way, and catches any wrong or missing element. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cpu.h"
#include "cpu/gemm.h"

static uint32_t seed = 1;
static uint32_t rnd(void)
{
    return seed = seed * 1664525u + 1013904223u, seed >> 8;
}
static int64_t upto(int64_t n) /* 1..n */
{
    return 1 + rnd() % (uint32_t)n;
}
static float value(void)
{
    return (float)((int32_t)(rnd() & 0xffff) - 0x8000) / 0x4000;
}
static float *values(int64_t n)
{
    float *p = malloc((size_t)(n > 0 ? n : 1) * sizeof *p);
    for (int64_t i = 0; i < n; i++)
        p[i] = value();
    return p;
}

static void *aligned(size_t bytes)
{
    return aligned_alloc(64, (bytes / 64 + 1) * 64);
}

typedef struct {
    cm_gemm_f32_args x;
    int64_t b_row, b_col;
    const float *b_plain, *before;
} wanted;

static void expect(const wanted *w, int64_t i, int64_t j)
{
    const cm_gemm_f32_args *x = &w->x;
    double sum = 0, size = 0;
    for (int64_t l = 0; l < x->k; l++) {
        double p =
            (double)x->a[i * x->a_row + l * x->a_col] * w->b_plain[l * w->b_row + j * w->b_col];
        sum += p, size += fabs(p);
    }
    sum *= x->alpha, size *= fabs(x->alpha);
    if (x->add)
        sum += w->before[i * x->ldc + j], size += fabs(w->before[i * x->ldc + j]);
    if (x->e) {
        double bias = x->e->bias ? x->e->bias[x->col + j] : 0;
        double more =
            x->e->residual ? x->e->residual[(x->row + i) * x->e->residual_ld + x->col + j] : 0;
        sum += bias + more, size += fabs(bias) + fabs(more);
        sum = fmin(x->e->hi, fmax(x->e->lo, sum));
    }
    double got = x->c[i * x->ldc + j];
    if (!(fabs(got - sum) <= size * 0x1p-20 + 1e-30))
        fail_msg("m %lld n %lld k %lld at %lld, %lld: %g, wanted %g", (long long)x->m,
                 (long long)x->n, (long long)x->k, (long long)i, (long long)j, got, sum);
}

/* One product of random form. Buffers are exactly as long as may be read, for sanitizers. */
static void product(const cm_gemm_f32_kernel *g, int64_t m, int64_t n, int64_t k, unsigned form)
{
    bool a_t = form & 1, b_t = form >> 1 & 1, add = form >> 2 & 1, scratch = a_t || (form >> 3 & 1);
    int64_t pad = form >> 4 & 1 ? upto(40) : 0, ldc = n + (form >> 5 & 1 ? upto(9) : 0);
    int64_t lda = (a_t ? m : k) + pad, ldb = (b_t ? k : n) + pad;
    float *a = values((a_t ? k : m) * lda), *b = values((b_t ? n : k) * ldb);
    float *c = values(m * ldc), *before = malloc((size_t)(m * ldc + 1) * sizeof *before);
    memcpy(before, c, (size_t)(m * ldc) * sizeof *c);
    int64_t row = rnd() % 3, col = rnd() % 5;
    float *bias = values(col + n), *residual = values((row + m) * (col + n));
    cm_simple_epilogue e = {form >> 6 & 1 ? bias : NULL, form >> 7 & 1 ? residual : NULL, col + n,
                            form >> 8 & 1 ? -1 : -INFINITY, form >> 9 & 1 ? 6 : INFINITY};
    float *packed = aligned((size_t)cm_gemm_f32_packed_b(g, k, n) * 4);
    wanted w = {{.m = m,
                 .n = n,
                 .k = k,
                 .a = a,
                 .a_row = a_t ? 1 : lda,
                 .a_col = a_t ? lda : 1,
                 .b = packed,
                 .b_panel = k * g->nr,
                 .ldb = g->nr,
                 .c = c,
                 .ldc = ldc,
                 .alpha = form >> 10 & 1 ? 0.5f : 1,
                 .add = add,
                 .e = form >> 11 & 1 ? &e : NULL,
                 .row = row,
                 .col = col},
                b_t ? 1 : ldb,
                b_t ? ldb : 1,
                b,
                before};
    g->pack_b(k, n, b, w.b_row, w.b_col, packed, k * g->nr);
    if (scratch)
        w.x.scratch = aligned(cm_gemm_f32_scratch(g, m, k));
    cm_gemm_f32(g, &w.x);
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < n; j++)
            expect(&w, i, j);
        for (int64_t j = n; j < ldc; j++) /* nothing beyond is touched */
            assert_memory_equal(c + i * ldc + j, before + i * ldc + j, sizeof *c);
    }
    void *all[] = {a, b, c, before, bias, residual, packed, w.x.scratch};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

static void each_level(void (*test)(const cm_gemm_f32_kernel *g))
{
    for (int level = 0; level <= (int)cm_cpu_info()->isa; level++)
        test(cm_gemm_f32_kernel_of(level));
}

static void small_products(const cm_gemm_f32_kernel *g)
{
    for (int i = 0; i < 1500; i++)
        product(g, upto(40), upto(70), rnd() % 30, rnd());
}
static void middle_products(const cm_gemm_f32_kernel *g)
{
    for (int i = 0; i < 60; i++)
        product(g, upto(150), upto(150), upto(300), rnd());
}
/* Few rows by several panels at once, the last of them of any width. */
static void flat_products(const cm_gemm_f32_kernel *g)
{
    for (int i = 0; i < 600; i++)
        product(g, upto(7), upto(6 * g->nr), upto(40), rnd() & ~3u);
}
/* Several blocks of k and of rows; rows that meet in one set of the cache. */
static void large_products(const cm_gemm_f32_kernel *g)
{
    product(g, 37, 33, 2500, 0x30);
    product(g, 300, 600, 1100, 0x8);
    product(g, 1030, 70, 512, 0xfe8);
    product(g, 29, 70, 1024, 0xfc4);
    product(g, 20, 530, 1030, 0xfcf);
}
static void test_small(void **state)
{
    (void)state;
    each_level(small_products);
}
static void test_middle(void **state)
{
    (void)state;
    each_level(middle_products);
}
static void test_flat(void **state)
{
    (void)state;
    each_level(flat_products);
}
static void test_large(void **state)
{
    (void)state;
    each_level(large_products);
}

/* Runs by row pointers, B as it lies: what an indirect convolution and a product of activations ask. */
static void runs(const cm_gemm_f32_kernel *g)
{
    enum { RUNS = 5 };
    for (int m = 1; m <= g->mr; m++) {
        int64_t k = rnd() % 20, n = upto(g->nr), ldb = g->nr + upto(5);
        float *a = values(RUNS * m * (k + 1)), *b = values(RUNS * k * ldb + g->nr);
        float *c = values(m * g->nr);
        const float *rows[RUNS][CM_GEMM_MAX_MR];
        for (int r = 0; r < RUNS; r++) {
            for (int i = 0; i < m; i++) /* the third run repeats the first */
                rows[r][i] = a + ((r == 2 ? 0 : r) * m + i) * (k + 1);
        }
        cm_gemm_tile t = {.runs = RUNS,
                          .k = k,
                          .rows = rows[0],
                          .rows_step = CM_GEMM_MAX_MR,
                          .b = b,
                          .ldb = ldb,
                          .c = c,
                          .ldc = g->nr,
                          .n = (int)n,
                          .alpha = 1};
        g->rows[m](&t);
        for (int i = 0; i < m; i++) {
            for (int j = 0; j < n; j++) {
                double sum = 0, size = 0;
                for (int64_t r = 0; r < RUNS; r++) {
                    for (int64_t l = 0; l < k; l++) {
                        double p = (double)rows[r][i][l] * b[(r * k + l) * ldb + j];
                        sum += p, size += fabs(p);
                    }
                }
                assert_true(fabs(c[i * g->nr + j] - sum) <= size * 0x1p-20);
            }
        }
        free(a), free(b), free(c);
    }
}
static void test_runs(void **state)
{
    (void)state;
    each_level(runs);
}

/* NaN and infinity come out where they went in, and a clip keeps NaN. */
static void specials(const cm_gemm_f32_kernel *g)
{
    enum { M = 15, N = 37, K = 9 };
    float *a = values(M * K), *b = values(K * N), c[M * N];
    float *packed = aligned((size_t)cm_gemm_f32_packed_b(g, K, N) * 4);
    a[3 * K + 2] = NAN;
    b[4 * N + 36] = INFINITY;
    for (int i = 0; i < M; i++)
        a[i * K + 4] = 1;
    g->pack_b(K, N, b, N, 1, packed, K * g->nr);
    cm_simple_epilogue e = {.lo = 0, .hi = 6};
    cm_gemm_f32_args x = {.m = M,
                          .n = N,
                          .k = K,
                          .a = a,
                          .a_row = K,
                          .a_col = 1,
                          .b = packed,
                          .b_panel = K * g->nr,
                          .ldb = g->nr,
                          .c = c,
                          .ldc = N,
                          .alpha = 1,
                          .e = &e};
    cm_gemm_f32(g, &x);
    for (int i = 0; i < M; i++) {
        for (int j = 0; j < N; j++) {
            assert_int_equal(isnan(c[i * N + j]) != 0, i == 3);
            if (i != 3 && j == 36)
                assert_true(c[i * N + j] == 6);
        }
    }
    free(a), free(b), free(packed);
}
static void test_specials(void **state)
{
    (void)state;
    each_level(specials);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small), cmocka_unit_test(test_middle),
        cmocka_unit_test(test_flat),  cmocka_unit_test(test_large),
        cmocka_unit_test(test_runs),  cmocka_unit_test(test_specials),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
