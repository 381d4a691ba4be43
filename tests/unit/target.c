/* target.c -- machine classes as text.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "plan/target.h"

static void names_are_read_and_written(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        cm_target want;
    } cases[] = {
        {"cpu:generic", {CM_DEVICE_CPU, CM_ISA_GENERIC, 0}},
        {"cpu:avx2", {CM_DEVICE_CPU, CM_ISA_AVX2, 0}},
        {"cpu:amx", {CM_DEVICE_CPU, CM_ISA_AMX, 0}},
        {"cuda", {CM_DEVICE_CUDA, 0, 0}},
        {"cuda:1", {CM_DEVICE_CUDA, 0, 1}},
        {"sm_90", {CM_DEVICE_CUDA, 900, 0}},
        {"sm_120", {CM_DEVICE_CUDA, 1200, 0}},
    };
    cm_ctx cx = {0};
    char text[32];
    for (int i = 0; i < CM_COUNT(cases); i++) {
        cm_target t;
        assert_int_equal(cm_target_parse(&cx, cases[i].text, &t), CM_OK);
        assert_int_equal(t.kind, cases[i].want.kind);
        assert_int_equal(t.level, cases[i].want.level);
        assert_int_equal(t.index, cases[i].want.index);
        assert_string_equal(cm_target_text(text, sizeof text, &t), cases[i].text);
    }
    cm_target t;
    assert_int_equal(cm_target_parse(&cx, "cpu", &t), CM_OK);
    assert_int_equal(t.level, cm_cpu_info()->isa);
}

static void others_are_refused_with_a_sentence(void **state)
{
    (void)state;
    static const char *const bad[] = {"",      "gpu",    "cpu:",    "cpu:sse",
                                      "cuda:", "cuda:x", "cuda:-1", "cuda:99999999999",
                                      "sm_",   "sm_9",   "sm_90a",  "CPU"};
    cm_ctx cx = {0};
    for (int i = 0; i < CM_COUNT(bad); i++) {
        cm_target t;
        assert_int_equal(cm_target_parse(&cx, bad[i], &t), CM_ERR_ARGUMENT);
        assert_non_null(strstr(cx.message, "wanted"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_read_and_written),
        cmocka_unit_test(others_are_refused_with_a_sentence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
