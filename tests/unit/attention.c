/* attention.c -- symbolic shapes, rows without keys, caches, hostile sizes
 * SPDX-License-Identifier: Apache-2.0 */
#include "op_text.h"

static void test_shapes(void **state)
{
    (void)state;
    SAME(infer("Attention", "q_num_heads=4 kv_num_heads=2", "f32[b,s,32]", "f32[b,t,16]",
               "f32[b,t,12]", NULL),
         "f32[b,s,24]");
    op_text_n_out = 3;
    SAME(infer("Attention", "", "f16[b,4,s,8]", "f16[b,2,s,8]", "f32[b,2,s,6]", "-", "f16[b,2,p,8]",
               "f32[b,2,p,6]", NULL),
         "f16[b,4,s,6]; f16[b,2,p + s,8]; f32[b,2,p + s,6]");
}

static void test_values(void **state)
{
    (void)state;
    SAME(eval("Attention", "scale=1", "f32[1,1,2,1]{0,0}", "f32[1,1,2,1]{1,1}", "f32[1,1,2,1]{2,4}",
              "bool[2,2]{1,1,0,0}", NULL),
         "f32[1,1,2,1]{3,0}");
    SAME(eval("Attention", "is_causal=1", "f32[1,1,2,1]{0,0}", "f32[1,1,2,1]{1,1}",
              "f32[1,1,2,1]{2,4}", NULL),
         "f32[1,1,2,1]{2,3}");
    SAME(eval("Attention", "left_window_size=0 right_window_size=0", "f32[1,1,2,1]{0,0}",
              "f32[1,1,2,1]{1,1}", "f32[1,1,2,1]{2,4}", NULL),
         "f32[1,1,2,1]{2,4}");
    SAME(eval("Attention", "", "f32[1,1,1,1]{0}", "f32[1,1,2,1]{1,1}", "f32[1,1,2,1]{2,4}", "-",
              "-", "-", "i64[1]{1}", NULL),
         "f32[1,1,1,1]{2}");
    SAME(eval("Attention", "", "f32[1,1,1,1]{0}", "f32[1,1,0,1]{}", "f32[1,1,0,1]{}", NULL),
         "f32[1,1,1,1]{0}");
}

static void test_refusals(void **state)
{
    (void)state;
    SAME(infer("Attention", "", "f32[b,s,32]", "f32[b,t,16]", "f32[b,t,16]", NULL),
         "q_num_heads is 0 and kv_num_heads 0: inputs of rank 3 need both");
    SAME(infer("Attention", "", "f32[b,3,s,8]", "f32[b,2,s,8]", "f32[b,2,s,8]", NULL),
         "3 query heads are no multiple of 2 key heads");
    SAME(infer("Attention", "", "f32[b,2,s,8]", "f32[b,0,s,8]", "f32[b,0,s,8]", NULL),
         "2 query heads are no multiple of 0 key heads");
    SAME(eval("Attention", "", "f32[1,1,1,1]{0}", "f32[1,1,2,1]{1,1}", "f32[1,1,2,1]{2,4}", "-",
              "-", "-", "i64[1]{3}", NULL),
         "nonpad_kv_seqlen[0] is 3, wanted 0 to 2");
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
