/* linear_attention.c -- update rules by hand, windows of states, refusals
 * SPDX-License-Identifier: Apache-2.0 */
#include "op_text.h"

static void test_values(void **state)
{
    (void)state;
    op_text_n_out = 2;
    SAME(infer("LinearAttention", "q_num_heads=4 kv_num_heads=2 update_rule=linear", "f16[b,t,32]",
               "f16[b,t,16]", "f16[b,t,12]", "f32[b,2,8,6]", NULL),
         "f16[b,t,24]; f32[b,2,8,6]");
    SAME(eval("LinearAttention", "q_num_heads=1 kv_num_heads=1 update_rule=linear",
              "f32[1,2,1]{1,1}", "f32[1,2,1]{2,3}", "f32[1,2,1]{5,7}", NULL),
         "f32[1,2,1]{10,31}; f32[1,1,1,1]{31}");
    SAME(eval("LinearAttention", "q_num_heads=1 kv_num_heads=1 update_rule=delta",
              "f32[1,2,1]{1,1}", "f32[1,2,1]{1,1}", "f32[1,2,1]{8,4}", "-", "-",
              "f32[1,2,1]{0.5,0.5}", NULL),
         "f32[1,2,1]{4,4}; f32[1,1,1,1]{4}");
    SAME(eval("com.microsoft.LinearAttention",
              "q_num_heads=1 kv_num_heads=1 update_rule=linear state_window=3", "f32[1,2,1]{1,1}",
              "f32[1,2,1]{2,3}", "f32[1,2,1]{5,7}", NULL),
         "f32[1,2,1]{10,31}; f32[3,1,1,1,1]{0,10,31}");
}

static void test_refusals(void **state)
{
    (void)state;
    op_text_n_out = 2;
    SAME(infer("LinearAttention", "q_num_heads=1 kv_num_heads=1", "f32[1,2,1]", "f32[1,2,1]",
               "f32[1,2,1]", NULL),
         "update_rule 'gated_delta' wants a decay input");
    SAME(infer("LinearAttention", "q_num_heads=3 kv_num_heads=2", "f32[1,2,1]", "f32[1,2,1]",
               "f32[1,2,1]", NULL),
         "q_num_heads 3 is no multiple of kv_num_heads 2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEXT_TEST(test_values),
        OP_TEXT_TEST(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
