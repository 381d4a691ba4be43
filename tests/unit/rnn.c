/* rnn.c -- symbolic shapes, lengths, odd activations, refusals
 * SPDX-License-Identifier: Apache-2.0 */
#include "op_text.h"

static void test_shapes(void **state)
{
    (void)state;
    op_text_n_out = 3;
    SAME(infer("LSTM", "direction=bidirectional", "f16[s,b,i]", "f16[2,4*h,i]", "f16[2,4*h,h]",
               NULL),
         "f16[s,2,b,h]; f16[2,b,h]; f16[2,b,h]");
    SAME(infer("LSTM", "layout=1 hidden_size=5", "f32[b,s,3]", "f32[1,20,3]", "f32[1,20,5]", NULL),
         "f32[b,s,1,5]; f32[b,1,5]; f32[b,1,5]");
    op_text_n_out = 1;
    SAME(infer("GRU", "", "f32[*]", "f32[*]", "f32[*]", NULL), "f32[*]");
    op_text_n_out = 0;
    SAME(infer("RNN", "", "f32[s,b,3]", "f32[1,5,3]", "f32[1,5,5]", NULL), "");
}

static void test_values(void **state)
{
    (void)state;
    op_text_n_out = 2;
    SAME(eval("RNN", "activations=Affine activation_alpha=2 activation_beta=1", "f64[2,1,1]{1,3}",
              "f64[1,1,1]{1}", "f64[1,1,1]{0.5}", NULL),
         "f64[2,1,1,1]{3,10}; f64[1,1,1]{10}");
    SAME(eval("RNN", "direction=reverse activations=relu", "f32[3,2,1]{1,10,2,20,4,40}",
              "f32[1,1,1]{1}", "f32[1,1,1]{1}", "-", "i32[2]{2,3}", NULL),
         "f32[3,1,2,1]{3,70,2,60,0,40}; f32[1,2,1]{3,70}");
    SAME(eval("RNN", "clip=2 activations=Affine", "f32[1,1,1]{7}", "f32[1,1,1]{1}", "f32[1,1,1]{1}",
              NULL),
         "f32[1,1,1,1]{2}; f32[1,1,1]{2}");
    SAME(eval("RNN", "", "f32[0,1,1]{}", "f32[1,1,1]{1}", "f32[1,1,1]{1}", "-", "-",
              "f32[1,1,1]{5}", NULL),
         "f32[0,1,1,1]{}; f32[1,1,1]{5}");
}

static void test_refusals(void **state)
{
    (void)state;
    SAME(infer("RNN", "direction=up", "f32[s,b,3]", "f32[1,5,3]", "f32[1,5,5]", NULL),
         "direction is 'up', wanted forward, reverse or bidirectional");
    SAME(infer("RNN", "activations=Cosine", "f32[s,b,3]", "f32[1,5,3]", "f32[1,5,5]", NULL),
         "unknown activation function 'Cosine'");
    SAME(infer("LSTM", "", "f32[s,b,3]", "f32[1,5,3]", "f32[1,5,5]", NULL),
         "W: found 5, wanted 20");
    SAME(eval("RNN", "", "f32[1,1,1]{1}", "f32[1,1,1]{1}", "f32[1,1,1]{1}", "-", "i32[1]{2}", NULL),
         "sequence_lens[0] is 2, wanted 0 to 1");
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
