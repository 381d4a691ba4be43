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

/* The most that is alive at once, in places of 64 bytes. */
static size_t least(const cm_interval *v, int n)
{
    size_t most = 0;
    for (int i = 0; i < n; i++) {
        size_t live = 0;
        for (int k = 0; k < n; k++)
            if (v[k].first <= v[i].first && v[k].last >= v[i].first)
                live += (v[k].bytes + 63) / 64 * 64;
        most = live > most ? live : most;
    }
    return most;
}

typedef struct {
    cm_interval v[512];
    int n, now;
} lifetimes;

static void add(lifetimes *t, int first, int last, size_t bytes)
{
    t->v[t->n++] = (cm_interval){first, last, bytes, 0};
}

/* ResNet's bottlenecks: a narrow pair between wide ones, the input kept for the sum, workspaces besides; the
 * first of a stage has a projection, and the image shrinks. */
static void bottlenecks(lifetimes *t)
{
    static const int blocks[] = {3, 4, 6, 3};
    size_t wide = 3211264;
    add(t, 0, 0, 681216);
    add(t, 0, 1, wide);
    add(t, 1, 5, wide / 4);
    t->now = 2;
    for (int stage = 0; stage < 4; stage++, wide /= 2) {
        for (int k = 0; k < blocks[stage]; k++) {
            int p = t->now;
            add(t, p, p, 512);
            add(t, p, p + 1, wide / 4);
            add(t, p + 1, p + 1, 622592);
            add(t, p + 1, p + 2, wide / 4);
            if (k == 0)
                add(t, p + 2, p + 3, wide);
            add(t, p + 3, p + 3, 1280);
            add(t, p + 3, p + 6, wide);
            t->now += k == 0 ? 4 : 3;
        }
    }
}

/* The same with a workspace that is larger than what is kept: both want an end of the arena, and change places from block to block. */
static void large_workspaces(lifetimes *t)
{
    size_t wide = 3211264;
    add(t, 0, 3, wide);
    t->now = 1;
    for (int block = 0; block < 6; block++) {
        int p = t->now;
        add(t, p, p + 1, wide / 4);
        add(t, p + 1, p + 1, 3833856);
        add(t, p + 1, p + 2, wide / 4);
        add(t, p + 2, p + 5, wide);
        t->now += 3;
    }
}

/* A U-Net: what the way down makes is kept for the way up. */
static void skips(lifetimes *t)
{
    enum { LEVELS = 5 };
    size_t bytes = 16 << 20;
    for (int l = 0; l < LEVELS; l++, bytes /= 2) {
        add(t, t->now, t->now + 1, bytes);
        add(t, t->now + 1, 4 * LEVELS - 2 * l, bytes);
        t->now += 2;
    }
    for (int l = 0; l < LEVELS; l++, bytes *= 2) {
        add(t, t->now, t->now + 1, bytes * 2);
        add(t, t->now + 1, t->now + 2, bytes * 2);
        t->now += 2;
    }
}

/* A transformer: a residual through each layer, three projections at once, a hidden layer four times as wide. */
static void transformer(lifetimes *t)
{
    size_t x = 128 * 768 * 4;
    add(t, 0, 3, x);
    t->now = 1;
    for (int layer = 0; layer < 12; layer++) {
        int p = t->now;
        add(t, p, p + 1, 3 * x);
        add(t, p + 1, p + 1, 12345 * 8);
        add(t, p + 1, p + 2, x);
        add(t, p + 2, p + 5, x);
        add(t, p + 3, p + 4, 4 * x);
        add(t, p + 4, p + 4, 333333);
        add(t, p + 4, p + 5, x);
        add(t, p + 5, p + 8, x);
        t->now += 5;
    }
}

static void networks_need_little_more_than_what_is_alive_at_once(void **state)
{
    (void)state;
    void (*const networks[])(lifetimes *) = {bottlenecks, large_workspaces, skips, transformer};
    for (size_t i = 0; i < sizeof networks / sizeof *networks; i++) {
        static lifetimes t;
        memset(&t, 0, sizeof t);
        networks[i](&t);
        size_t total = plan(t.v, t.n), bound = least(t.v, t.n);
        assert_true(total >= bound);
        if (total > bound + bound / 10)
            fail_msg("network %zu: %zu bytes, %zu are alive at once", i, total, bound);
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
        cmocka_unit_test(networks_need_little_more_than_what_is_alive_at_once),
        cmocka_unit_test(a_sum_that_overflows_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
