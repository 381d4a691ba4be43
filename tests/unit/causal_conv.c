/* causal_conv.c -- the state, shapes
 * SPDX-License-Identifier: Apache-2.0 */
#include "op_text.h"

static void test_shapes(void **state)
{
    (void)state;
    op_text_n_out = 2;
    SAME(infer("CausalConvWithState", "", "f32[b,c,l]", "f32[c,1,4]", NULL),
         "f32[b,c,l]; f32[b,c,3]");
}

static void test_values(void **state)
{
    (void)state;
    op_text_n_out = 2;
    SAME(eval("CausalConvWithState", "", "f32[1,1,1]{3}", "f32[1,1,3]{1,10,100}", "f32[1]{0.5}",
              "f32[1,1,2]{1,2}", NULL),
         "f32[1,1,1]{321.5}; f32[1,1,2]{2,3}");
}

static void test_refusals(void **state)
{
    (void)state;
    op_text_n_out = 2;
    SAME(infer("CausalConvWithState", "activation=relu", "f32[b,c,l]", "f32[c,1,4]", NULL),
         "activation is 'relu', wanted none, silu or swish");
    SAME(infer("CausalConvWithState", "", "f32[b,c,l]", "f32[c,1,4]", "-", "f32[b,c,4]", NULL),
         "shape of past_state: found 4, wanted 3");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEXT_TEST(test_shapes),
        OP_TEXT_TEST(test_values),
        OP_TEXT_TEST(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
