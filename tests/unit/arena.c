/* arena.c -- memory by lifetime.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"

/* An allocator that counts what it has handed out. */
static void *count_alloc(void *user, size_t bytes, size_t align)
{
    ++*(int *)user;
    return cm_alloc(NULL, bytes, align);
}

static void count_release(void *user, void *p, size_t bytes)
{
    --*(int *)user;
    cm_release(NULL, p, bytes);
}

static void memory_is_zeroed_aligned_and_apart(void **state)
{
    (void)state;
    cm_arena a;
    cm_arena_init(&a, NULL);
    unsigned char *last = NULL;
    for (size_t n = 0; n < 3000; n++) {
        unsigned char *p = cm_arena_alloc(&a, n);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % 16, 0);
        for (size_t i = 0; i < n; i++)
            assert_int_equal(p[i], 0);
        memset(p, 0xff, n);
        assert_ptr_not_equal(p, last);
        last = p;
    }
    assert_int_equal((uintptr_t)cm_arena_alloc_n(&a, 3, 5, 64, 0) % 64, 0);
    cm_arena_deinit(&a);
}

static void a_refilled_arena_asks_for_nothing(void **state)
{
    (void)state;
    int live = 0, once = 0;
    cm_allocator counting = {count_alloc, count_release, &live};
    cm_arena a;
    cm_arena_init(&a, &counting);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 100; i++)
            assert_non_null(cm_arena_alloc(&a, 1000));
        if (round == 0)
            once = live;
        assert_int_equal(live, once);
        cm_arena_reset(&a);
    }
    cm_arena_deinit(&a);
    assert_int_equal(live, 0);
}

static void a_mark_gives_back_what_came_after_it(void **state)
{
    (void)state;
    cm_arena a;
    cm_arena_init(&a, NULL);
    cm_arena_mark empty = cm_arena_save(&a);
    char *kept = cm_arena_strdup(&a, "kept");
    cm_arena_mark mark = cm_arena_save(&a);
    void *p = cm_arena_alloc(&a, 100);
    assert_non_null(cm_arena_alloc(&a, 1 << 20)); /* another chunk */
    cm_arena_restore(&a, mark);
    assert_ptr_equal(cm_arena_alloc(&a, 100), p);
    assert_string_equal(kept, "kept");
    cm_arena_restore(&a, empty);
    assert_ptr_equal(cm_arena_strdup(&a, "again"), kept);
    cm_arena_deinit(&a);
}

static void the_nth_allocation_fails_once(void **state)
{
    (void)state;
    cm_arena a;
    cm_arena_init(&a, NULL);
    a.fail_after = 3;
    assert_non_null(cm_arena_alloc(&a, 8));
    assert_non_null(cm_arena_printf(&a, "%d", 12));
    assert_null(cm_arena_strdup(&a, "third"));
    assert_int_equal(a.fail_after, 0);
    assert_non_null(cm_arena_alloc(&a, 8));
    cm_arena_deinit(&a);
}

static void absurd_sizes_and_limits_fail(void **state)
{
    (void)state;
    cm_arena a;
    cm_arena_init(&a, NULL);
    assert_null(cm_arena_alloc(&a, SIZE_MAX));
    assert_null(cm_arena_alloc_n(&a, SIZE_MAX / 2, 3, 16, 1));
    assert_null(cm_arena_strndup(&a, "", SIZE_MAX));
    a.limit = 100000;
    assert_null(cm_arena_alloc(&a, 200000));
    assert_non_null(cm_arena_alloc(&a, 50000));
    assert_null(cm_arena_alloc(&a, 90000));
    cm_arena_deinit(&a);
}

static void text_is_copied(void **state)
{
    (void)state;
    cm_arena a;
    cm_arena_init(&a, NULL);
    assert_string_equal(cm_arena_strndup(&a, "abcdef", 3), "abc");
    assert_string_equal(cm_arena_printf(&a, "%s-%d", "x", 7), "x-7");
    assert_memory_equal(cm_arena_memdup(&a, "\0a", 2), "\0a", 2);
    cm_arena_deinit(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_zeroed_aligned_and_apart),
        cmocka_unit_test(a_refilled_arena_asks_for_nothing),
        cmocka_unit_test(a_mark_gives_back_what_came_after_it),
        cmocka_unit_test(the_nth_allocation_fails_once),
        cmocka_unit_test(absurd_sizes_and_limits_fail),
        cmocka_unit_test(text_is_copied),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
