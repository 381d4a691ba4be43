/* gemm.c -- sizes around the blocks, strides, and the same bits from any number of threads
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "ops/linear/gemm.h"

static cm_arena arena;
static cm_ctx cx = {.arena = &arena, .scratch = &arena};

static int setup(void **state)
{
    (void)state;
    cm_arena_init(&arena, NULL);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    cm_arena_deinit(&arena);
    return 0;
}

static float *noise(int64_t n)
{
    float *v = cm_new_n(&arena, n, float);
    uint32_t seed = 1;
    assert_non_null(v);
    for (int64_t i = 0; i < n; i++) {
        seed = seed * 1664525 + 1013904223;
        v[i] = (float)(seed >> 8) / 16777216 - 0.5f;
    }
    return v;
}

/* c = a * b in the plainest way: ascending k from zero. */
static void check(int64_t m, int64_t n, int64_t k, bool transposed, cm_threads *t)
{
    float *a = noise(m * k), *b = noise(k * n);
    double *c = cm_new_n(&arena, m * n + 1, double);
    cm_matrix ma = {CM_F32, a, 0, k, 1, NULL}, mb = {CM_F32, b, 0, n, 1, NULL};
    cm_matrix mc = {CM_F64, c, 0, n, 1, NULL};
    if (transposed) {
        ma.row = 1, ma.col = m;
        mb.row = 1, mb.col = k;
    }
    assert_int_equal(cm_matrix_multiply(&cx, t, 1, m, n, k, &ma, &mb, &mc), CM_OK);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            double sum = 0;
            for (int64_t p = 0; p < k; p++)
                sum += (double)a[i * ma.row + p * ma.col] * (double)b[p * mb.row + j * mb.col];
            assert_true(sum == c[i * n + j]);
        }
}

static void test_sizes(void **state)
{
    (void)state;
    static const int64_t sizes[] = {1, 3, 4, 63, 65};
    for (int i = 0; i < 5; i++)
        for (int j = 0; j < 5; j++) {
            check(sizes[i], sizes[j], 7, false, NULL);
            check(sizes[j], sizes[i], 300, true, NULL);
        }
    check(0, 5, 3, false, NULL);
    check(5, 0, 3, false, NULL);
    check(5, 6, 0, false, NULL);
}

static void test_threads(void **state)
{
    (void)state;
    cm_threads *t;
    assert_int_equal(cm_threads_create(&cx, 3, &t), CM_OK);
    check(200, 130, 513, false, t);
    check(1, 700, 64, true, t);
    cm_threads_destroy(t);
}

static void test_integers(void **state)
{
    (void)state;
    int64_t a[2] = {INT64_MAX, 2}, b[2] = {2, 3}, offsets[2] = {1, 0};
    uint8_t c[2] = {0};
    cm_matrix ma = {CM_I64, a, 1, 1, 1, NULL}, mb = {CM_I64, b, 0, 1, 1, offsets};
    cm_matrix mc = {CM_U8, c, 1, 1, 1, NULL};
    assert_int_equal(cm_matrix_multiply(&cx, NULL, 2, 1, 1, 1, &ma, &mb, &mc), CM_OK);
    assert_int_equal(c[0], 253); /* -3 modulo 256 */
    assert_int_equal(c[1], 4);
}

static void test_no_memory(void **state)
{
    (void)state;
    float x = 1;
    double y;
    cm_matrix m = {CM_F32, &x, 0, 1, 1, NULL}, c = {CM_F64, &y, 0, 1, 1, NULL};
    arena.fail_after = 1;
    assert_int_equal(cm_matrix_multiply(&cx, NULL, 1, 1, 1, 1, &m, &m, &c), CM_ERR_MEMORY);
    arena.fail_after = 0;
}

static void test_cancel(void **state)
{
    (void)state;
    atomic_bool stop = true;
    float x = 1;
    double y;
    cm_matrix m = {CM_F32, &x, 0, 1, 1, NULL}, c = {CM_F64, &y, 0, 1, 1, NULL};
    cx.cancel = &stop;
    assert_int_equal(cm_matrix_multiply(&cx, NULL, 1, 1, 1, 1, &m, &m, &c), CM_ERR_CANCELLED);
    cx.cancel = NULL;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_sizes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_threads, setup, teardown),
        cmocka_unit_test_setup_teardown(test_integers, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_memory, setup, teardown),
        cmocka_unit_test_setup_teardown(test_cancel, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
