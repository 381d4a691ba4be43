/* beam.c -- cameo.BeamBegin, BeamStep, BeamEnd, GreedyStep
 * SPDX-License-Identifier: Apache-2.0 */
#include "op_text.h"

static void test_types(void **state)
{
    (void)state;
    op_text_n_out = 7;
    SAME(infer("cameo.BeamBegin", "", "i32[b,s]", "i64[1]{3}", "i64[1]{9}", NULL),
         "i64[3*b]; i64[3*b,1]; f32[3*b]; i64[b,3,9]; f32[b,3]; bool[b]; i32[b,1]");
    SAME(infer("cameo.BeamBegin", "", "f32[b,8,s]", "i64[1]{3}", "i64[1]{9}", "i32[b,t]", NULL),
         "i64[3*b]; i64[3*b,t]; f32[3*b]; i64[b,3,9]; f32[b,3]; bool[b]; i32[b,t]");
    op_text_n_out = 8;
    SAME(infer("cameo.BeamStep", "", "f32[r,v]", "i64[r,l]", "f32[r]", "i64[b,n,m]", "f32[b,n]",
               "bool[b]", "f32[1]", NULL),
         "i64[r,l + 1]; f32[r]; i64[b,n,m]; f32[b,n]; bool[b]; i64[r]; bool[]; i32[r,1]");
    op_text_n_out = 2;
    SAME(infer("cameo.BeamEnd", "", "i64[r,l]", "f32[r]", "i64[b,n,m]", "f32[b,n]", "bool[b]",
               "f32[1]", "i64[1]{2}", NULL),
         "i32[b,2,m]; f32[b,2]");
    op_text_n_out = 3;
    SAME(infer("cameo.GreedyStep", "", "f32[b,v]", "i64[b,l]", "bool[b]", "i64[1]", NULL),
         "i64[b,l + 1]; bool[b]; bool[]");
}

static void test_begin(void **state)
{
    (void)state;
    op_text_n_out = 7;
    SAME(eval("cameo.BeamBegin", "pad=7 start=4", "i32[2,1]{0,0}", "i64[1]{2}", "i64[1]{1}", NULL),
         "i64[4]{0,0,1,1}; i64[4,1]{4,4,4,4}; f32[4]{0,-1e+09,0,-1e+09}; i64[2,2,1]{7,7,7,7}; "
         "f32[2,2]{-inf,-inf,-inf,-inf}; bool[2]{0,0}; i32[2,1]{4,4}");
    SAME(eval("cameo.BeamBegin", "pad=7", "i32[2,1]{0,0}", "i64[1]{1}", "i64[1]{3}",
              "i64[2,2]{1,2,3,4}", NULL),
         "i64[2]{0,1}; i64[2,2]{1,2,3,4}; f32[2]{0,0}; i64[2,1,3]{7,7,7,7,7,7}; "
         "f32[2,1]{-inf,-inf}; "
         "bool[2]{0,0}; i32[2,2]{1,2,3,4}");
}

/* Two beams of one sequence, three tokens, 2 is the end. */
static void test_step(void **state)
{
    (void)state;
    op_text_n_out = 8;
    /* The end of beam 1 (-0.25) is the best; the next beams are those behind it, the first of equals first. */
    SAME(
        eval("cameo.BeamStep", "eos=2 pad=9", "f32[2,3]{-1,-2,-8,-1,-3,-0.25}", "i64[2,2]{5,6,7,8}",
             "f32[2]{0,0}", "i64[1,2,4]{9,9,9,9,9,9,9,9}", "f32[1,2]{-inf,-inf}", "bool[1]{0}",
             "f32[1]{1}", NULL),
        "i64[2,3]{5,6,0,7,8,0}; f32[2]{-1,-1}; i64[1,2,4]{7,8,9,9,9,9,9,9}; f32[1,2]{-0.125,-inf}; "
        "bool[1]{0}; i64[2]{0,1}; bool[]{1}; i32[2,1]{0,0}");
    /* One row for all beams; a sequence that is done goes on with padding. */
    SAME(eval("cameo.BeamStep", "eos=2 pad=9", "f32[1,3]{-1,-2,-4}", "i64[2,1]{5,6}",
              "f32[2]{0,-8}", "i64[1,2,2]{1,9,3,9}", "f32[1,2]{-1,-2}", "bool[1]{1}", "f32[1]{1}",
              NULL),
         "i64[2,2]{5,9,5,9}; f32[2]{0,0}; i64[1,2,2]{1,9,3,9}; f32[1,2]{-1,-2}; bool[1]{1}; "
         "i64[2]{0,0}; bool[]{0}; i32[2,1]{9,9}");
    /* Full, and nothing beats the worst; early stopping asks for no more than that it is full. */
    SAME(eval("cameo.BeamStep", "eos=2", "f32[1,3]{-4,-6,-8}", "i64[1,1]{5}", "f32[1]{0}",
              "i64[1,1,3]{1,1,1}", "f32[1,1]{-1}", "bool[1]{0}", "f32[1]{1}", NULL),
         "i64[1,2]{5,0}; f32[1]{-4}; i64[1,1,3]{1,1,1}; f32[1,1]{-1}; bool[1]{1}; i64[1]{0}; "
         "bool[]{0}; "
         "i32[1,1]{0}");
    SAME(eval("cameo.BeamStep", "eos=2 early=1", "f32[1,3]{-0.5,-6,-8}", "i64[1,1]{5}", "f32[1]{0}",
              "i64[1,1,3]{1,1,1}", "f32[1,1]{-1}", "bool[1]{0}", "f32[1]{1}", NULL),
         "i64[1,2]{5,0}; f32[1]{-0.5}; i64[1,1,3]{1,1,1}; f32[1,1]{-1}; bool[1]{1}; i64[1]{0}; "
         "bool[]{0}; i32[1,1]{0}");
}

static void test_end(void **state)
{
    (void)state;
    op_text_n_out = 2;
    SAME(eval("cameo.BeamEnd", "pad=9", "i64[2,2]{1,2,3,4}", "f32[2]{-2,-6}",
              "i64[1,2,3]{5,9,9,9,9,9}", "f32[1,2]{-2,-inf}", "bool[1]{0}", "f32[1]{1}",
              "i64[1]{2}", NULL),
         "i32[1,2,3]{1,2,9,5,9,9}; f32[1,2]{-1,-2}");
    SAME(eval("cameo.BeamEnd", "pad=9", "i64[2,2]{1,2,3,4}", "f32[2]{-2,-6}",
              "i64[1,2,3]{5,9,9,6,9,9}", "f32[1,2]{-2,-3}", "bool[1]{1}", "f32[1]{1}", "i64[1]{1}",
              NULL),
         "i32[1,1,3]{5,9,9}; f32[1,1]{-2}");
    SAME(eval("cameo.BeamEnd", "pad=9", "i64[1,2]{1,2}", "f32[1]{-2}", "i64[1,1,3]{5,9,9}",
              "f32[1,1]{-2}", "bool[1]{1}", "f32[1]{1}", "i64[1]{2}", NULL),
         "2 sequences wanted of 1 beams");
}

/* The rules on the scores, seen through the likeliest token. */
static void test_greedy(void **state)
{
    (void)state;
    op_text_n_out = 3;
    SAME(eval("cameo.GreedyStep", "eos=2 pad=9", "f32[2,3]{1,5,2,1,2,5}", "i64[2,1]{0,0}",
              "bool[2]{0,0}", "i64[1]{3}", NULL),
         "i64[2,2]{0,1,0,9}; bool[2]{0,1}; bool[]{1}");
    SAME(eval("cameo.GreedyStep", "eos=2 pad=9", "f32[1,3]{1,2,5}", "i64[1,1]{0}", "bool[1]{0}",
              "i64[1]{2}", "i64[1]{2}", NULL),
         "i64[1,2]{0,1}; bool[1]{0}; bool[]{0}");
    SAME(eval("cameo.GreedyStep", "eos=9", "f32[1,3]{4,3,1}", "i64[1,1]{0}", "bool[1]{0}",
              "i64[1]{8}", "i64[1]{0}", "f32[1]{2}", NULL),
         "i64[1,2]{0,1}; bool[1]{0}; bool[]{1}");
    SAME(eval("cameo.GreedyStep", "eos=9 ngram=2", "f32[1,3]{4,3,1}", "i64[1,3]{1,0,1}",
              "bool[1]{0}", "i64[1]{8}", NULL),
         "i64[1,4]{1,0,1,1}; bool[1]{0}; bool[]{1}");
    SAME(eval("cameo.GreedyStep", "eos=9", "f32[1,3]{4,3,1}", "i64[1,1]{0}", "bool[1]{0}",
              "i64[1]{8}", "i64[1]{0}", "f32[1]{1}", "i32[3]{0,1,1}", "i32[1,3]{1,0,1}", NULL),
         "i64[1,2]{0,2}; bool[1]{0}; bool[]{1}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEXT_TEST(test_types), OP_TEXT_TEST(test_begin),  OP_TEXT_TEST(test_step),
        OP_TEXT_TEST(test_end),   OP_TEXT_TEST(test_greedy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
