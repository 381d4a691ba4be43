/* fused_attention.c -- cameo.Attention: layouts, packed operands, masks that repeat, hostile sizes
 * SPDX-License-Identifier: Apache-2.0 */
#include "op_text.h"

#define ONE "q_num_heads=1 kv_num_heads=1 head_size=1 v_head_size=1 "
#define TWO "q_num_heads=2 kv_num_heads=2 head_size=1 v_head_size=1 "

static void test_shapes(void **state)
{
    (void)state;
    SAME(infer("cameo.Attention", "q_num_heads=4 kv_num_heads=2 head_size=8 v_head_size=6",
               "f32[b,s,32]", "f32[b,t,16]", "f32[b,t,12]", NULL),
         "f32[b,s,24]");
    SAME(infer(
             "cameo.Attention",
             "q_num_heads=4 kv_num_heads=4 head_size=8 v_head_size=8 offsets=0,32,64 q_layout=sbhd "
             "k_layout=sbhd v_layout=sbhd y_layout=bhsd",
             "f16[s,b,96]", "f16[s,b,96]", "f16[s,b,96]", NULL),
         "f16[b,4,s,8]");
    op_text_n_out = 3;
    SAME(infer("cameo.Attention",
               "q_num_heads=2 kv_num_heads=2 head_size=8 v_head_size=8 y_layout=sbhd",
               "f32[b,s,16]", "f32[b,s,16]", "f32[b,s,16]", "-", "-", "f32[b,2,p,8]",
               "f32[b,2,p,8]", NULL),
         "f32[s,b,16]; f32[b,2,p + s,8]; f32[b,2,p + s,8]");
}

static void test_values(void **state)
{
    (void)state;
    /* Packed: three columns a token. Both keys score 0. */
    SAME(eval("cameo.Attention", ONE "offsets=0,1,2", "f32[1,2,3]{0,1,2,0,1,4}",
              "f32[1,2,3]{0,1,2,0,1,4}", "f32[1,2,3]{0,1,2,0,1,4}", NULL),
         "f32[1,2,1]{3,3}");
    SAME(eval("cameo.Attention", ONE "is_causal=1", "f32[1,2,1]{0,0}", "f32[1,2,1]{1,1}",
              "f32[1,2,1]{2,4}", NULL),
         "f32[1,2,1]{2,3}");
    /* The last query sees everything, also when there are more keys than queries. */
    SAME(eval("cameo.Attention", ONE "is_causal=1", "f32[1,1,1]{0}", "f32[1,2,1]{1,1}",
              "f32[1,2,1]{2,4}", NULL),
         "f32[1,1,1]{3}");
    /* A row without keys is zero; with a mask_value it is the mean. */
    SAME(eval("cameo.Attention", ONE, "f32[1,1,1]{0}", "f32[1,2,1]{1,1}", "f32[1,2,1]{2,4}", "-",
              "bool[1,2]{0,0}", NULL),
         "f32[1,1,1]{0}");
    SAME(eval("cameo.Attention", ONE "mask_value=-1e4", "f32[1,1,1]{0}", "f32[1,2,1]{1,1}",
              "f32[1,2,1]{2,4}", "-", "bool[1,2]{0,0}", NULL),
         "f32[1,1,1]{3}");
    SAME(eval("cameo.Attention", ONE "mask_value=-5 bias_last=1", "f32[1,1,1]{0}",
              "f32[1,2,1]{1,1}", "f32[1,2,1]{2,4}", "f32[1,2]{5,-1e4}", "bool[1,2]{0,0}", NULL),
         "f32[1,1,1]{2}");
    /* Two heads, "h3d" packing; transposed keys; a bias of one batch for two. */
    SAME(eval("cameo.Attention", TWO "offsets=0,0,2 head_steps=3,1,3 k_layout=bhds",
              "f32[1,1,6]{0,1,2,0,4,5}", "f32[1,2,1,1]{1,1}", "f32[1,1,6]{0,1,2,3,4,5}", NULL),
         "f32[1,1,2]{2,5}");
    SAME(eval("cameo.Attention", ONE, "f32[2,1,1]{0,0}", "f32[2,2,1]{1,1,1,1}",
              "f32[2,2,1]{2,4,6,8}", "f32[1,1,1,2]{0,-inf}", NULL),
         "f32[2,1,1]{2,6}");
    op_text_n_out = 2;
    SAME(eval("cameo.Attention", ONE, "f32[1,1,1]{0}", "f32[1,1,1]{1}", "f32[1,1,1]{4}", "-", "-",
              "f32[1,1,1,1]{7}", "f32[1,1,1,1]{2}", NULL),
         "f32[1,1,1]{3}; f32[1,1,2,1]{7,1}");
}

static void test_refusals(void **state)
{
    (void)state;
    SAME(infer("cameo.Attention", ONE "offsets=0,1,2", "f32[b,s,3]", "f32[b,s,3]", "f32[b,s,2]",
               NULL),
         "v has 2 columns, wanted 3");
    SAME(infer("cameo.Attention", ONE "q_layout=bhds", "f32[b,1,1,s]", "f32[b,s,1]", "f32[b,s,1]",
               NULL),
         "the layout of input 0 is not known");
    SAME(infer("cameo.Attention", "q_num_heads=3 kv_num_heads=2 head_size=1 v_head_size=1",
               "f32[b,s,3]", "f32[b,s,2]", "f32[b,s,2]", NULL),
         "3 query heads are no multiple of 2 key heads");
    SAME(infer("cameo.Attention", ONE "head_steps=1,1,99999999999", "f32[b,s,3]", "f32[b,s,3]",
               "f32[b,s,3]", NULL),
         "input 2 has offset 0 and head step 99999999999");
    SAME(infer("cameo.Attention", ONE, "f32[4,s,1]", "f32[4,s,1]", "f32[4,s,1]", "f32[3,1,1,1]",
               NULL),
         "bias has 3 batches for 4");
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
