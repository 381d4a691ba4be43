/* str.c -- strings with a length, and suggestions.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/str.h"

static const char *const verbs[] = {"build", "run", "bench", "profile", "inspect", "explain"};

static void near_names_are_suggested(void **state)
{
    (void)state;
    static const struct {
        const char *word, *want;
    } cases[] = {
        {"biuld", "build"}, /* neighbours swapped */
        {"BUILD", "build"}, /* case is ignored */
        {"bulid", "build"},
        {"bild", "build"},
        {"benchh", "bench"},
        {"rnu", "run"},
        {"inspct", "inspect"},
        {"explian", "explain"},
        {"profiel", "profile"},
        {"zzz", NULL},
        {"x", NULL},
        {"", NULL},
        {"serve", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *got = cm_suggest(cases[i].word, verbs, 6);
        if (cases[i].want) {
            assert_non_null(got);
            assert_string_equal(got, cases[i].want);
        } else {
            assert_null(got);
        }
    }
    assert_null(cm_suggest("build", NULL, 0));
}

static void long_words_get_no_suggestion(void **state)
{
    (void)state;
    char word[200];
    const char *candidate = word;
    memset(word, 'a', sizeof word - 1);
    word[sizeof word - 1] = 0;
    assert_null(cm_suggest(word, &candidate, 1));
    assert_null(cm_suggest("aaaa", &candidate, 1));
    word[64] = 0; /* the longest that gets one */
    assert_ptr_equal(cm_suggest(word, &candidate, 1), word);
}

static void strings_compare_by_bytes_then_length(void **state)
{
    (void)state;
    cm_str a = {"a\0b", 3}, b = {"a\0c", 3}, shorter = {"a", 1}, empty = {NULL, 0};
    assert_true(cm_str_equal(a, a));
    assert_false(cm_str_equal(a, b));
    assert_true(cm_str_compare(a, b) < 0);
    assert_true(cm_str_compare(a, shorter) > 0);
    assert_true(cm_str_compare(empty, shorter) < 0);
    assert_true(cm_str_equal(empty, cm_str_of("")));
    assert_int_equal(cm_str_compare(empty, empty), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(near_names_are_suggested),
        cmocka_unit_test(long_words_get_no_suggestion),
        cmocka_unit_test(strings_compare_by_bytes_then_length),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
