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

static void lists_have_the_cpu_first(void **state)
{
    (void)state;
    cm_ctx cx = {0};
    cm_target t[CM_MAX_TARGETS];
    int n;
    assert_int_equal(cm_targets_parse(&cx, "sm_80,sm_90,cpu:avx2,cuda", t, &n), CM_OK);
    assert_int_equal(n, 4);
    assert_int_equal(t[0].kind, CM_DEVICE_CPU);
    assert_int_equal(t[1].level, 900);
    assert_int_equal(t[2].level, 800);
    assert_int_equal(t[3].level, 0);
    assert_int_equal(cm_targets_parse(&cx, "sm_75", t, &n), CM_OK);
    assert_int_equal(n, 1);
}

static void bad_lists_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        ",",
        "cpu,",
        ",cpu",
        "sm_80,,sm_90",
        "cpu,cpu:avx2",
        "sm_80,sm_80",
        "cuda,tpu",
        "sm_10,sm_11,sm_12,sm_13,sm_14,sm_15,sm_16,sm_17,sm_18,sm_19,sm_20,sm_21,sm_22,sm_23,sm_24,"
        "sm_25,sm_26",
        "sm_0000000000000000000000000000000000090"};
    cm_ctx cx = {0};
    for (int i = 0; i < CM_COUNT(bad); i++) {
        cm_target t[CM_MAX_TARGETS];
        int n;
        assert_int_equal(cm_targets_parse(&cx, bad[i], t, &n), CM_ERR_ARGUMENT);
        assert_non_null(cx.message[0] ? cx.message : NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_read_and_written),
        cmocka_unit_test(lists_have_the_cpu_first),
        cmocka_unit_test(bad_lists_are_refused),
        cmocka_unit_test(others_are_refused_with_a_sentence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
