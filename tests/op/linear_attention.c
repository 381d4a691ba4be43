/* linear_attention.c -- tactics of LinearAttention against the reference. CPUs have none.
 * SPDX-License-Identifier: Apache-2.0 */
#include "op/harness.h"

/* Float32 against double over a few dozen tokens; results of 16 bits are rounded once. */
static double tolerance(const char *type)
{
    return !strcmp(type, "f32") ? 1e-5 : !strcmp(type, "f16") ? 1e-3 : 8e-3;
}

typedef struct {
    int batch, len, q_heads, kv_heads, k_size, v_size;
} sizes;

static void check(const sizes *s, const char *rule, const char *type, const char *state, bool past,
                  int decay, int beta)
{
    char text[900], gate[200] = "", inputs[64], start[64] = "";
    bool gated = strstr(rule, "gated"), delta = strstr(rule, "delta");
    int at = 0;
    if (past)
        snprintf(start, sizeof start, "s: %s[%d,%d,%d,%d]\n", state, s->batch, s->kv_heads,
                 s->k_size, s->v_size);
    if (gated)
        at = snprintf(gate, sizeof gate, "g: %s[%d,%d,%d]\n", type, s->batch, s->len,
                      decay * s->kv_heads);
    if (delta)
        snprintf(gate + at, sizeof gate - (size_t)at, "e: %s[%d,%d,%d]\n", type, s->batch, s->len,
                 beta ? s->kv_heads : 1);
    snprintf(inputs, sizeof inputs, "q, k, v, %s, %s, %s", past ? "s" : "_", gated ? "g" : "_",
             delta ? "e" : "_");
    snprintf(text, sizeof text,
             "q: %s[%d,%d,%d]\nk: %s[%d,%d,%d]\nv: %s[%d,%d,%d]\n%s%s"
             "y, p = LinearAttention(%s) {q_num_heads=%d, kv_num_heads=%d, update_rule=\"%s\"}\n"
             "return y, p\n",
             type, s->batch, s->len, s->q_heads * s->k_size, type, s->batch, s->len,
             s->kv_heads * s->k_size, type, s->batch, s->len, s->kv_heads * s->v_size, start, gate,
             inputs, s->q_heads, s->kv_heads, rule);
    op_case c = op_case_of(text);
    c.tolerance = tolerance(type);
    c.low = -0.5;
    c.high = 0.5;
    op_check(&c);
    assert_true(c.is_problem);
}

static void every_rule(void **state)
{
    (void)state;
    static const sizes all[] = {{1, 1, 1, 1, 1, 1},   {2, 5, 2, 2, 8, 8},     {1, 33, 4, 2, 16, 24},
                                {2, 3, 4, 1, 32, 70}, {1, 9, 1, 1, 128, 130}, {3, 2, 8, 4, 40, 33}};
    static const char *const rules[] = {"linear", "gated", "delta", "gated_delta"};
    static const char *const types[] = {"f32", "f16", "bf16"};
    for (int i = 0; i < CM_COUNT(all); i++)
        for (int r = 0; r < CM_COUNT(rules); r++) {
            int turn = i + r;
            check(&all[i], rules[r], types[turn % 3], turn % 2 ? "f32" : types[turn % 3], turn % 2,
                  turn % 4 > 1 ? all[i].k_size : 1, turn % 3 > 0);
            check(&all[i], rules[r], "f32", "f32", !(turn % 2), 1, 1);
        }
}

/* com.microsoft's keeps some of the last states, and lets several states share a query. */
static void states_that_are_kept(void **state)
{
    (void)state;
    static const int windows[] = {1, 2, 5};
    for (int w = 0; w < CM_COUNT(windows); w++)
        for (int past = 0; past < 2; past++) {
            char text[600], start[64] = "";
            if (past)
                snprintf(start, sizeof start, "s: f16[%d,2,4,8,6]\n", windows[w]);
            snprintf(text, sizeof text,
                     "q: f32[2,3,16]\nk: f32[2,3,32]\nv: f32[2,3,24]\n%sg: f32[2,3,4]\n"
                     "y, p = com.microsoft.LinearAttention(q, k, v, %s, g) {q_num_heads=2, "
                     "kv_num_heads=4, update_rule=\"gated\", state_window=%d, scale=0.5}\n"
                     "return y, p\n",
                     start, past ? "s" : "_", windows[w]);
            op_case c = op_case_of(text);
            c.tolerance = past ? 1e-3 : 1e-5;
            op_check(&c);
            assert_true(c.is_problem);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_rule),
                                       cmocka_unit_test(states_that_are_kept)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
