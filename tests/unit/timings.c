/* timings.c -- tables of measurements and their text.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/timings.h"

static const cm_target cpu = {CM_DEVICE_CPU, CM_ISA_AVX2, 0};

static void what_is_added_is_found_and_survives_as_text(void **state)
{
    (void)state;
    cm_ctx cx = {0};
    cm_timings t, u;
    cm_timings_init(&t, NULL, &cpu);
    cm_timings_init(&u, NULL, &cpu);
    for (int i = 0; i < 500; i++) {
        cm_knobs k = {{i % 3, -i}};
        uint64_t problem = (uint64_t)(i * 7919 % 97) << 40;
        assert_int_equal(cm_timings_add(&cx, &t, problem, i & 1 ? "a" : "b", &k, i), CM_OK);
    }
    assert_int_equal(t.n, 500);
    assert_true(cm_timings_find(&t, 0, "b", &(cm_knobs){{0}}) == 0);
    assert_true(isnan(cm_timings_find(&t, 0, "c", &(cm_knobs){{0}})));
    assert_int_equal(cm_timings_add(&cx, &t, 0, "b", &(cm_knobs){{0}}, 12), CM_OK);
    assert_true(cm_timings_find(&t, 0, "b", &(cm_knobs){{0}}) == 12);
    assert_int_equal(t.n, 500);
    int n;
    cm_timings_of(&t, 0, &n);
    assert_int_equal(n, 6);
    cm_buf text, again;
    cm_buf_init(&text, NULL);
    cm_buf_init(&again, NULL);
    cm_timings_print(&t, &text);
    assert_int_equal(cm_timings_parse(&cx, &u, cm_buf_text(&text), text.n), CM_OK);
    cm_timings_print(&u, &again);
    assert_string_equal(cm_buf_text(&text), cm_buf_text(&again));
    cm_buf_deinit(&text);
    cm_buf_deinit(&again);
    cm_timings_deinit(&t);
    cm_timings_deinit(&u);
}

static void other_machines_lines_are_kept_and_not_used(void **state)
{
    (void)state;
    cm_ctx cx = {0};
    cm_timings t;
    cm_timings_init(&t, NULL, &cpu);
    const char *text =
        "cameo-timings 1\nmachine cpu:avx2 another\n00000000000000ff x 0,0,0,0,0,0,0,0 5\n";
    assert_int_equal(cm_timings_parse(&cx, &t, text, strlen(text)), CM_OK);
    assert_int_equal(t.n, 0);
    cm_buf out;
    cm_buf_init(&out, NULL);
    cm_timings_print(&t, &out);
    assert_non_null(strstr(cm_buf_text(&out), "another\n00000000000000ff x"));
    cm_buf_deinit(&out);
    cm_timings_deinit(&t);
}

static void lines_that_name_a_level_are_read(void **state)
{
    (void)state;
    cm_ctx cx = {0};
    cm_timings t;
    cm_buf text;
    cm_timings_init(&t, NULL, &cpu);
    cm_buf_init(&text, NULL);
    cm_buf_printf(&text, "cameo-timings 1\nmachine cpu:generic %s\n01 x 0,0,0,0,0,0,0,0 5\n",
                  cm_cpu_info()->name);
    assert_int_equal(cm_timings_parse(&cx, &t, cm_buf_text(&text), text.n), CM_OK);
    assert_int_equal(t.n, 1);
    cm_buf_deinit(&text);
    cm_timings_deinit(&t);
}

static void rubbish_is_refused(void **state)
{
    (void)state;
    const char *bad[] = {"",
                         "hello",
                         "cameo-timings 1\nzz a 0,0,0,0,0,0,0,0 5",
                         "cameo-timings 1\n01 a 0,0,0,0,0,0,0 5",
                         "cameo-timings 1\n01 a 0,0,0,0,0,0,0,0 nan",
                         "cameo-timings 1\n01 a 0,0,0,0,0,0,0,99999999999 5",
                         "cameo-timings 1\n01 a 0,0,0,0,0,0,0,0 5 6"};
    for (int i = 1; i < CM_COUNT(bad); i++) {
        cm_ctx cx = {0};
        cm_timings t;
        cm_timings_init(&t, NULL, &cpu);
        assert_int_equal(cm_timings_parse(&cx, &t, bad[i], strlen(bad[i])), CM_ERR_DATA);
        assert_true(cx.message[0]);
        cm_timings_deinit(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_added_is_found_and_survives_as_text),
        cmocka_unit_test(other_machines_lines_are_kept_and_not_used),
        cmocka_unit_test(lines_that_name_a_level_are_read),
        cmocka_unit_test(rubbish_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
