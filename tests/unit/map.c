/* map.c -- names to pointers.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/map.h"

static void what_was_put_is_found_in_order(void **state)
{
    (void)state;
    enum { N = 5000 };
    cm_arena arena;
    cm_map m;
    char key[32];
    static int values[N];
    cm_arena_init(&arena, NULL);
    cm_map_init(&m, &arena);
    assert_null(cm_map_get(&m, "none"));
    for (int i = 0; i < N; i++) {
        snprintf(key, sizeof key, "key%d", i * 7 % N);
        assert_false(cm_map_has(&m, key));
        assert_true(cm_map_put(&m, key, &values[i]));
    }
    assert_int_equal(m.n, N);
    for (int i = 0; i < N; i++) {
        snprintf(key, sizeof key, "key%d", i * 7 % N);
        assert_ptr_equal(cm_map_get(&m, key), &values[i]);
        assert_string_equal(m.entries[i].key, key);
    }
    assert_false(cm_map_has(&m, "key"));
    assert_true(cm_map_put(&m, "key7", NULL)); /* replaced, and NULL is a value too */
    assert_true(cm_map_has(&m, "key7"));
    assert_null(cm_map_get(&m, "key7"));
    assert_int_equal(m.n, N);
    cm_arena_deinit(&arena);
}

static void a_failed_put_leaves_the_map_whole(void **state)
{
    (void)state;
    for (size_t fail = 1; fail < 60; fail++) {
        cm_arena arena;
        cm_map m;
        char key[32];
        int put = 0;
        cm_arena_init(&arena, NULL);
        cm_map_init(&m, &arena);
        arena.fail_after = fail;
        for (; put < 40; put++) {
            snprintf(key, sizeof key, "%d", put);
            if (!cm_map_put(&m, key, &m))
                break;
        }
        for (int i = 0; i < put; i++) {
            snprintf(key, sizeof key, "%d", i);
            assert_ptr_equal(cm_map_get(&m, key), &m);
        }
        assert_int_equal(m.n, put);
        arena.fail_after = 0;
        assert_true(cm_map_put(&m, "later", &m));
        cm_arena_deinit(&arena);
    }
}

static void hashes_are_the_same_everywhere(void **state)
{
    (void)state;
    assert_int_equal(cm_hash_bytes("", 0, 0), cm_hash_bytes(NULL, 0, 0));
    assert_int_not_equal(cm_hash_bytes("a", 1, 0), cm_hash_bytes("a", 1, 1));
    assert_int_not_equal(cm_hash_bytes("ab", 2, 0), cm_hash_bytes("ba", 2, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_put_is_found_in_order),
        cmocka_unit_test(a_failed_put_leaves_the_map_whole),
        cmocka_unit_test(hashes_are_the_same_everywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
