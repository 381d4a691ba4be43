/* program.c -- pointwise programs: text in, text out, mistakes refused; epilogues against the unfused.
 * SPDX-License-Identifier: Apache-2.0 */
#include "plan/program.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void reads_what_it_prints(void **state)
{
    static const char *const texts[] = {
        "add x $0; relu %0",
        "sigmoid x; mul x %0",
        "mul $0 0.5; add %0 $1 -> %0 %1",
        "clip x -1 6; select %0 $3 1e-05",
        "hardsigmoid x 0.2 0.5",
    };
    (void)state;
    for (int i = 0; i < CM_COUNT(texts); i++) {
        cm_ctx cx = {0};
        cm_program p;
        cm_buf b;
        cm_buf_init(&b, NULL);
        assert_int_equal(cm_program_parse(&cx, texts[i], strlen(texts[i]), &p), CM_OK);
        cm_program_print(&p, &b);
        assert_string_equal(cm_buf_text(&b), texts[i]);
        cm_buf_deinit(&b);
    }
}

static void counts_operands_and_results(void **state)
{
    (void)state;
    cm_ctx cx = {0};
    cm_program p;
    const char *text = "add x $2; mul %0 $0 -> %1 %0";
    assert_int_equal(cm_program_parse(&cx, text, strlen(text), &p), CM_OK);
    assert_int_equal(p.n_operands, 3);
    assert_int_equal(p.n_outputs, 2);
    assert_true(p.uses_x);
}

static void refuses_what_is_not_defined(void **state)
{
    static const char *const texts[] = {
        "",          "relu %0",           "add x",
        "frob x",    "relu x -> x",       "relu x -> %1",
        "add x $64", "relu x; add %0 %1", "relu x; ; ;  mul %0",
        "add x $-1",
    };
    (void)state;
    for (int i = 0; i < CM_COUNT(texts); i++) {
        cm_ctx cx = {0};
        cm_program p;
        assert_int_equal(cm_program_parse(&cx, texts[i], strlen(texts[i]), &p), CM_ERR_MODEL);
        assert_true(cx.message[0] != 0);
    }
}

static void refuses_a_program_that_is_too_long(void **state)
{
    (void)state;
    cm_ctx cx = {0};
    cm_program p;
    cm_buf b;
    cm_buf_init(&b, NULL);
    for (int i = 0; i <= CM_PROGRAM_MAX; i++)
        cm_buf_str(&b, "relu x; ");
    assert_int_equal(cm_program_parse(&cx, cm_buf_text(&b), b.n, &p), CM_ERR_MODEL);
    cm_buf_deinit(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_what_it_prints),
        cmocka_unit_test(counts_operands_and_results),
        cmocka_unit_test(refuses_what_is_not_defined),
        cmocka_unit_test(refuses_a_program_that_is_too_long),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
