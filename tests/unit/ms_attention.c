/* ms_attention.c -- com.microsoft attention: symbolic shapes, forms of inputs, caches, refusals
 * SPDX-License-Identifier: Apache-2.0 */
#include "op_text.h"

#define MS "com.microsoft."

static void test_shapes(void **state)
{
    (void)state;
    op_text_n_out = 2;
    SAME(infer(MS "Attention", "num_heads=2", "f32[b,s,8]", "f32[8,24]", "f32[24]", "i32[b]",
               "f32[2,b,2,p,4]", NULL),
         "f32[b,s,8]; f32[2,b,2,p + s,4]");
    op_text_n_out = 3;
    SAME(infer(MS "MultiHeadAttention", "num_heads=2", "f16[b,s,8]", "f16[b,2,t,4]", "f16[b,2,t,4]",
               NULL),
         "f16[b,s,8]; f16[b,2,t,4]; f16[b,2,t,4]");
    SAME(infer(MS "GroupQueryAttention", "num_heads=4 kv_num_heads=2", "f32[b,s,32]", "f32[b,s,16]",
               "f32[b,s,16]", "f32[b,2,p,8]", "f32[b,2,p,8]", "i32[b]", "i32[1]{total}", NULL),
         "f32[b,s,32]; f32[b,2,max(p, total),8]; f32[b,2,max(p, total),8]");
    op_text_n_out = 1;
    SAME(infer(MS "GroupQueryAttention", "num_heads=4 kv_num_heads=2", "f32[b,s,64]", "-", "-", "-",
               "-", "i32[b]", "i32[1]", NULL),
         "f32[b,s,32]");
    SAME(infer(MS "PackedMultiHeadAttention", "num_heads=2", "f32[t,2,3,4]", "-", "-", "-",
               "i32[b,s]", "i32[c]", NULL),
         "f32[t,8]");
}

static void test_values(void **state)
{
    (void)state;
    /* queries of 0: the mean of the values that count */
    SAME(eval(MS "MultiHeadAttention", "num_heads=1", "f32[1,1,1,3,1]{0,1,7}", NULL),
         "f32[1,1,1]{7}");
    SAME(eval(MS "MultiHeadAttention", "num_heads=1", "f32[1,1,1]{0}", "f32[1,2,1,2,1]{1,2,1,4}",
              NULL),
         "f32[1,1,1]{3}");
    SAME(eval(MS "Attention", "num_heads=1", "f32[1,2,1]{2,4}", "f32[1,3]{0,0,1}", "-", "i32[1]{1}",
              NULL),
         "f32[1,2,1]{2,2}");
    SAME(eval(MS "PackedMultiHeadAttention", "num_heads=1", "f32[3,1]{0,0,0}", "f32[3,1]{1,1,1}",
              "f32[3,1]{2,4,9}", "-", "i32[2,2]{0,1,2,3}", "i32[3]{0,2,3}", NULL),
         "f32[3,1]{3,3,9}");
    op_text_n_out = 3;
    SAME(eval(MS "GroupQueryAttention", "num_heads=1 kv_num_heads=1", "f32[1,1,1]{0}",
              "f32[1,1,1]{5}", "f32[1,1,1]{6}", "f32[1,1,3,1]{1,2,3}", "f32[1,1,3,1]{2,4,8}",
              "i32[1]{1}", "i32[1]{2}", NULL),
         "f32[1,1,1]{4}; f32[1,1,3,1]{1,5,0}; f32[1,1,3,1]{2,6,0}");
    SAME(eval(MS "GroupQueryAttention",
              "num_heads=1 kv_num_heads=1 k_quant_type=PER_TENSOR v_quant_type=PER_TENSOR",
              "f32[1,1,1]{0}", "f32[1,1,1]{5}", "f32[1,1,1]{6}", "i8[1,1,1,1]{1}", "i8[1,1,1,1]{2}",
              "i32[1]{1}", "i32[1]{2}", "-", "-", "-", "-", "-", "f32[1]{0.5}", "f32[1]{2}", NULL),
         "f32[1,1,1]{5}; i8[1,1,2,1]{1,10}; i8[1,1,2,1]{2,3}");
    op_text_n_out = 4;
    SAME(eval(MS "RemovePadding", "", "f32[2,2,1]{1,2,3,4}", "i32[2]{1,2}", NULL),
         "f32[3,1]{1,3,4}; i32[2,2]{0,2,3,1}; i32[3]{0,1,3}; i32[1]{2}");
    op_text_n_out = 1;
    SAME(eval(MS "RestorePadding", "", "f32[3,1]{1,3,4}", "i32[2,2]{0,2,3,1}", NULL),
         "f32[2,2,1]{1,0,3,4}");
}

static void test_refusals(void **state)
{
    (void)state;
    SAME(infer(MS "Attention", "num_heads=3", "f32[b,s,8]", "f32[8,24]", NULL),
         "hidden size of 8 is no multiple of 3");
    SAME(infer(MS "GroupQueryAttention", "num_heads=4 kv_num_heads=3", "f32[b,s,64]", "-", "-", "-",
               "-", "i32[b]", "i32[1]", NULL),
         "num_heads 4 is no multiple of kv_num_heads 3");
    SAME(infer(MS "GroupQueryAttention", "num_heads=4 kv_num_heads=2", "f32[b,s,64]", NULL),
         "input 5 is required but absent");
    SAME(eval(MS "GroupQueryAttention", "num_heads=1 kv_num_heads=1", "f32[1,1,1]{0}",
              "f32[1,1,1]{5}", "f32[1,1,1]{6}", "f32[1,1,1,1]{1}", "f32[1,1,1,1]{2}", "i32[1]{7}",
              "i32[1]{3}", NULL),
         "seqlens_k[0] is 7: total_sequence_length is 3, past keys 1");
    SAME(eval(MS "PackedMultiHeadAttention", "num_heads=1", "f32[1,1]{0}", "f32[1,1]{1}",
              "f32[1,1]{2}", "-", "i32[1,1]{0}", "i32[2]{0,2}", NULL),
         "sequence 0 is tokens 0 to 2 of 1");
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
