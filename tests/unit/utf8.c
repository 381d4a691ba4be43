/* utf8.c -- code points to bytes and back.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/utf8.h"

static void every_code_point_comes_back(void **state)
{
    (void)state;
    for (uint32_t c = 0; c <= 0x10FFFF; c++) {
        char bytes[CM_UTF8_MAX];
        uint32_t again = ~c;
        size_t n = cm_utf8_put(c, bytes);
        size_t wanted = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
        bool surrogate = c >= 0xD800 && c < 0xE000;
        assert_int_equal(n, wanted);
        assert_int_equal(cm_utf8_get(bytes, n, &again), surrogate ? 0 : n);
        if (!surrogate)
            assert_int_equal(again, c);
        if (n > 1)
            assert_int_equal(cm_utf8_get(bytes, n - 1, &again), 0);
    }
}

static void known_characters_have_known_bytes(void **state)
{
    (void)state;
    char bytes[CM_UTF8_MAX];
    assert_int_equal(cm_utf8_put(0x20AC, bytes), 3);
    assert_memory_equal(bytes, "\xE2\x82\xAC", 3);
    assert_int_equal(cm_utf8_put(0x1F600, bytes), 4);
    assert_memory_equal(bytes, "\xF0\x9F\x98\x80", 4);
}

static void what_is_no_character_is_told(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "\x80",         "\xC0\x80", "\xC1\xBF",         "\xE0\x80\x80",     "\xE0\x9F\xBF",
        "\xED\xA0\x80", "\xC3(",    "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5",
        "\xFF"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        uint32_t c;
        assert_int_equal(cm_utf8_get(bad[i], strlen(bad[i]), &c), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_point_comes_back),
        cmocka_unit_test(known_characters_have_known_bytes),
        cmocka_unit_test(what_is_no_character_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
