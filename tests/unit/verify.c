/* verify.c -- tests of api/verify.h: a pass that changes an answer is found and named.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "api/verify.h"

typedef struct {
    cm_arena arena, scratch;
    cm_ctx cx;
    float data[3];
    cm_datum in;
} job;

static int set_up(void **state)
{
    static job j;
    memset(&j, 0, sizeof j);
    cm_arena_init(&j.arena, NULL);
    cm_arena_init(&j.scratch, NULL);
    j.cx.arena = &j.arena;
    j.cx.scratch = &j.scratch;
    for (int i = 0; i < 3; i++)
        j.data[i] = (float)i - 1;
    j.in.kind = CM_TENSOR;
    int64_t n = 3;
    if (!cm_tensor_shape(&j.in.tensor, CM_F32, 1, &n))
        return -1;
    j.in.tensor.data = j.data;
    *state = &j;
    return 0;
}

static int tear_down(void **state)
{
    job *j = *state;
    cm_arena_deinit(&j->scratch);
    cm_arena_deinit(&j->arena);
    return 0;
}

static cm_network *parse(job *j, const char *text)
{
    cm_network *g;
    assert_int_equal(cm_network_parse(&j->cx, &j->arena, text, strlen(text), &g), CM_OK);
    assert_int_equal(cm_network_infer(&j->cx, g), CM_OK);
    return g;
}

#define BEFORE "x: f32[3]\n@c = f32[] {2}\ny = Mul(x, @c)\nreturn y as \"result\"\n"

static cm_status between(job *j, const char *before, const char *text, double tolerance)
{
    cm_pass pass = {.name = "suspect", .tolerance = tolerance};
    cm_verifier v;
    assert_int_equal(cm_verifier_init(&j->cx, parse(j, before), &j->in, 1, &v), CM_OK);
    assert_int_equal(cm_verifier_measure(&j->cx, parse(j, before), &v), CM_OK);
    cm_status st = cm_verifier_after_pass(&v, &j->cx, parse(j, text), &pass, 7);
    cm_verifier_deinit(&v);
    return st;
}

static cm_status after(job *j, const char *text, double tolerance)
{
    return between(j, BEFORE, text, tolerance);
}

static void the_same_answers_are_fine(void **state)
{
    assert_int_equal(after(*state, "x: f32[3]\ny = Add(x, x)\nreturn y as \"result\"\n", 0), CM_OK);
}

static void a_changed_answer_names_pass_output_and_element(void **state)
{
    job *j = *state;
    const char *text = "x: f32[3]\n@c = f32[] {2.5}\ny = Mul(x, @c)\nreturn y as \"result\"\n";
    assert_int_equal(after(j, text, 0.1), CM_ERR_INTERNAL);
    assert_non_null(strstr(j->cx.message, "pass suspect (rewrites 1 to 7)"));
    assert_non_null(strstr(j->cx.message, "'result'"));
    assert_non_null(strstr(j->cx.message, "element 0 is -2.5, was -2"));
    assert_int_equal(after(j, text, 0.3), CM_OK); /* 0.5 of 2 */
}

static void a_changed_shape_is_found(void **state)
{
    job *j = *state;
    assert_int_equal(after(j,
                           "x: f32[3]\n@c = f32[1,1] {2}\ny = Mul(x, @c)\nreturn y as "
                           "\"result\"\n",
                           1),
                     CM_ERR_INTERNAL);
    assert_non_null(strstr(j->cx.message, "the type is f32[1,3], was f32[3]"));
}

static void a_network_that_fails_is_found(void **state)
{
    job *j = *state;
    const char *text = "x: f32[3]\n@i = i64[1] {9}\ny = Gather(x, @i)\nreturn y as \"result\"\n";
    assert_int_not_equal(after(j, text, 1), CM_OK);
    assert_non_null(strstr(j->cx.message, "after pass suspect"));
}

/* 192 numbers of all sizes in steps of a half, the first n rows of three then moved by `by`. */
static const char *quantised(char *text, size_t size, int n, double by)
{
    int at = snprintf(text, size, "x: f32[3]\n@c = f32[64,1] {0");
    for (int i = 1; i < 64; i++)
        at += snprintf(text + at, size - (size_t)at, ",%g", i * 0.017);
    at += snprintf(text + at, size - (size_t)at, "}\n@by = f32[64,1] {%g", n ? by : 0);
    for (int i = 1; i < 64; i++)
        at += snprintf(text + at, size - (size_t)at, ",%g", i < n ? by : 0);
    snprintf(text + at, size - (size_t)at,
             "}\n@s = f32[] {0.5}\na = Add(x, @c)\nq = QuantizeLinear(a, @s)\n"
             "d = DequantizeLinear(q, @s)\ny = Add(d, @by)\nreturn y as \"result\"\n");
    return text;
}

static void a_rounding_may_move_quantised_values_by_a_step(void **state)
{
    static char before[4096], text[4096];
    job *j = *state;
    quantised(before, sizeof before, 0, 0);
    assert_int_equal(between(j, before, quantised(text, sizeof text, 1, 0.5), 1e-6), CM_OK);
    /* never by two, never most of them, and never in a pass that does not round */
    assert_int_not_equal(between(j, before, quantised(text, sizeof text, 1, 1.0), 1e-6), CM_OK);
    assert_int_not_equal(between(j, before, quantised(text, sizeof text, 64, 0.5), 1e-6), CM_OK);
    assert_int_not_equal(between(j, before, quantised(text, sizeof text, 1, 0.5), 0), CM_OK);
}

/* The variance of 30 + x by the mean of squares: little is left of it. The pieces, and one operator. */
#define PIECES                                                                                     \
    "x: f32[3]\n@k = f32[] {30}\n@a = i64[1] {0}\n@e = f32[] {1e-5}\nb = Add(x, @k)\n"             \
    "m = ReduceMean(b, @a)\nq = Mul(b, b)\nr = ReduceMean(q, @a)\nn = Mul(m, m)\nv = Sub(r, n)\n"  \
    "w = Add(v, @e)\ns = Sqrt(w)\nd = Sub(b, m)\ny = Div(d, s)\nreturn y as \"result\"\n"
#define WHOLE                                                                                      \
    "x: f32[3]\n@k = f32[] {30}\n@c = f32[3] fill 1\nb = Add(x, @k)\n"                             \
    "y = LayerNormalization(b, @c)\nreturn y as \"result\"\n"
#define OTHER                                                                                      \
    "x: f32[3]\n@k = f32[] {30}\n@c = f32[3] fill 2\nb = Add(x, @k)\n"                             \
    "y = LayerNormalization(b, @c)\nreturn y as \"result\"\n"

static void what_a_network_makes_of_roundings_counts(void **state)
{
    job *j = *state;
    assert_int_equal(between(j, PIECES, WHOLE, 1e-6), CM_OK);
    assert_int_not_equal(between(j, PIECES, WHOLE, 0), CM_OK);
    assert_int_not_equal(between(j, PIECES, OTHER, 1e-6), CM_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_same_answers_are_fine, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_changed_answer_names_pass_output_and_element, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_changed_shape_is_found, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_rounding_may_move_quantised_values_by_a_step, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(what_a_network_makes_of_roundings_counts, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_network_that_fails_is_found, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
