/* cuda_program_text.c -- pointwise programs as CUDA C.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cuda/program_text.h"

static cm_program parse(const char *text)
{
    cm_ctx cx = {0};
    cm_program p;
    if (cm_program_parse(&cx, text, strlen(text), &p) != CM_OK)
        fail_msg("%s: %s", text, cx.message);
    return p;
}

/* The program has these lines, between its braces. */
static void check(const char *text, cm_text_number n, const char *type, const char *lines)
{
    cm_program p = parse(text);
    cm_buf out, want;
    cm_buf_init(&out, NULL);
    cm_buf_init(&want, NULL);
    cm_cuda_program_text(&out, &p, "f", n);
    cm_buf_printf(&want,
                  "#include \"program.cuh\"\n"
                  "static __device__ __forceinline__ void f(%s x, const %s *o, %s *r)\n"
                  "{\n    typedef %s T;\n%s}\n",
                  type, type, type, type, lines);
    assert_string_equal(cm_buf_text(&out), cm_buf_text(&want));
    cm_buf_deinit(&out);
    cm_buf_deinit(&want);
}

static void floats(void **state)
{
    (void)state;
    check("add x $0; relu %0", CM_TEXT_FLOAT, "float",
          "    T v0 = (T)(x + o[0]);\n"
          "    T v1 = (T)(v0 <= 0 ? 0 : v0);\n"
          "    r[0] = v1;\n");
    check("mul $1 0.5; select %0 $0 -2 -> %1 %0", CM_TEXT_DOUBLE, "double",
          "    T v0 = (T)(o[1] * __longlong_as_double(0x3fe0000000000000ll));\n"
          "    T v1 = (T)(v0 != 0 ? o[0] : __longlong_as_double(0xc000000000000000ll));\n"
          "    r[0] = v1;\n"
          "    r[1] = v0;\n");
}

/* Shorter forms where there are such. */
static void floats_for_short_results(void **state)
{
    (void)state;
    check("mul x 0.5; gelu %0; sqrt %1", CM_TEXT_SHORT, "float",
          "    T v0 = (T)(x * __int_as_float(0x3f000000));\n"
          "    T v1 = (T)(short_gelu(v0));\n"
          "    T v2 = (T)(sqrt(v1));\n"
          "    r[0] = v2;\n");
    check("gelu x; gelu %0", CM_TEXT_HALF, "float",
          "    T v0 = (T)(short_gelu(x));\n"
          "    T v1 = (T)(half_gelu(v0));\n"
          "    r[0] = v1;\n");
}

static void whole_numbers(void **state)
{
    (void)state;
    check("clip $0 -3 inf", CM_TEXT_I64, "long long",
          "    T v0 = (T)(pw_at_most(pw_at_least(o[0], (T)-3ll), 0x7fffffffffffffffll));\n"
          "    r[0] = v0;\n");
    cm_program add = parse("add $0 3"), half = parse("add $0 0.5"), root = parse("sqrt $0");
    assert_true(cm_program_is_whole(&add));
    assert_false(cm_program_is_whole(&half));
    assert_false(cm_program_is_whole(&root));
}

static void powers(void **state)
{
    (void)state;
    check("pow $0 2", CM_TEXT_FLOAT, "float", "    T v0 = (T)(o[0] * o[0]);\n    r[0] = v0;\n");
    check("pow $0 $1", CM_TEXT_FLOAT, "float",
          "    T v0 = (T)(pow(o[0], o[1]));\n    r[0] = v0;\n");
}

/* Every instruction has a form in floats. */
static void all_instructions(void **state)
{
    (void)state;
    for (int op = 0; op < CM_PW_COUNT; op++) {
        cm_program p = {0};
        cm_buf out;
        cm_program_add(&p, (cm_pointwise)op, cm_arg_operand(0), cm_arg_operand(1),
                       cm_arg_operand(2));
        p.n_outputs = 1;
        cm_buf_init(&out, NULL);
        cm_cuda_program_text(&out, &p, "f", CM_TEXT_FLOAT);
        assert_non_null(strstr(cm_buf_text(&out), "o[0]"));
        cm_buf_deinit(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(floats),           cmocka_unit_test(floats_for_short_results),
        cmocka_unit_test(whole_numbers),    cmocka_unit_test(powers),
        cmocka_unit_test(all_instructions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
