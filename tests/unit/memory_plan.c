/* memory_plan.c -- offsets never clash, and little is wasted.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "runtime/memory_plan.h"

static uint32_t next(uint32_t *s)
{
    return *s = *s * 1664525u + 1013904223u;
}

static size_t plan(cm_interval *v, int n)
{
    cm_arena scratch;
    cm_arena_init(&scratch, NULL);
    cm_ctx cx = {.scratch = &scratch};
    size_t total;
    assert_int_equal(CM_OK, cm_memory_plan(&cx, &scratch, v, n, &total));
    cm_arena_deinit(&scratch);
    return total;
}

static void a_chain_needs_two_buffers(void **state)
{
    (void)state;
    cm_interval v[100];
    for (int i = 0; i < 100; i++)
        v[i] = (cm_interval){i, i + 1, 1000, 99};
    assert_int_equal(plan(v, 100), 2 * 1024);
}

static void those_alive_together_never_overlap(void **state)
{
    (void)state;
    enum { N = 400 };
    static cm_interval v[N];
    uint32_t seed = 1;
    for (int round = 0; round < 50; round++) {
        int now = 0;
        for (int i = 0; i < N; i++) {
            now += (int)(next(&seed) >> 30);
            v[i] = (cm_interval){now, now + (int)(next(&seed) >> 27), next(&seed) >> 16, 1};
            if (i % 17 == 0)
                v[i].bytes = 0;
        }
        size_t total = plan(v, N), live = 0;
        for (int i = 0; i < N; i++) {
            size_t at_once = 0;
            assert_int_equal(v[i].offset % CM_MEMORY_ALIGN, 0);
            assert_true(v[i].offset + v[i].bytes <= total);
            for (int k = 0; k < N; k++) {
                if (v[k].first <= v[i].first && v[k].last >= v[i].first)
                    at_once += (v[k].bytes + 63) / 64 * 64;
                if (k == i || !v[i].bytes || !v[k].bytes || v[i].last < v[k].first ||
                    v[k].last < v[i].first)
                    continue;
                assert_true(v[i].offset + v[i].bytes <= v[k].offset ||
                            v[k].offset + v[k].bytes <= v[i].offset);
            }
            live = at_once > live ? at_once : live;
        }
        assert_true(total >= live);
        assert_true(total < live + live / 4);
    }
}

static void a_sum_that_overflows_is_refused(void **state)
{
    (void)state;
    cm_arena scratch;
    cm_arena_init(&scratch, NULL);
    cm_ctx cx = {.scratch = &scratch};
    cm_interval v[5];
    for (int i = 0; i < 5; i++)
        v[i] = (cm_interval){i, 9, SIZE_MAX / 4, 0};
    size_t total;
    assert_int_equal(CM_ERR_MEMORY, cm_memory_plan(&cx, &scratch, v, 5, &total));
    v[0].bytes = SIZE_MAX;
    assert_int_equal(CM_ERR_MEMORY, cm_memory_plan(&cx, &scratch, v, 1, &total));
    cm_arena_deinit(&scratch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chain_needs_two_buffers),
        cmocka_unit_test(those_alive_together_never_overlap),
        cmocka_unit_test(a_sum_that_overflows_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
