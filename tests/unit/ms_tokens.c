/* ms_tokens.c -- com.microsoft token, gate, position and transform operators
 * SPDX-License-Identifier: Apache-2.0 */
#include "op_text.h"

#define MS "com.microsoft."

static void test_values(void **state)
{
    (void)state;
    op_text_n_out = 3;
    SAME(eval(MS "Unique", "", "f32[6]{2,1,1,-0,4,0}", NULL),
         "f32[4]{2,1,-0,4}; i64[6]{0,1,1,2,3,2}; i64[4]{1,2,2,1}");
    SAME(eval(MS "Unique", "", "str[3]{b,a,b}", NULL), "str[2]{b,a}; i64[3]{0,1,0}; i64[2]{2,1}");
    SAME(eval(MS "Unique", "", "i32[0]{}", NULL), "i32[0]{}; i64[0]{}; i64[0]{}");
    op_text_n_out = 2;
    SAME(eval(MS "BifurcationDetector", "", "i64[4]{1,5,3,4}", "i64[1]{0}", "i64[1]{0}",
              "i64[5]{1,5,3,7,9}", NULL),
         "i64[5]{0,1,5,3,7}; i64[1]{-1}");
    SAME(eval(MS "LinearAttentionGate", "", "f32[1,1,1]{0}", "f32[1]{100}", "f32[1]{-1}",
              "f32[1,1,1]{0}", NULL),
         "f32[1,1,1]{-100}; f32[1,1,1]{0.5}");
    op_text_n_out = 1;
    SAME(eval(MS "DynamicTimeWarping", "", "f32[2,3]{0,9,9,9,0,0}", NULL), "i32[2,3]{0,1,1,0,1,2}");
    SAME(eval(MS "GatedAdd", "", "f32[1,2]{1,2}", "f32[1,2]{3,4}", "f32[1,1]{10}", NULL),
         "f32[1,2]{31,42}");
    SAME(eval(MS "GatedRMSNorm", "epsilon=0 activation=sigmoid", "f32[2]{3,-5}", "f32[1]{2}",
              "f32[2]{0,0}", NULL),
         "f32[2]{1,-1}");
    SAME(eval(MS "ScaledSiLU", "alpha=2", "f32[1]{50}", NULL), "f32[1]{100}");
    SAME(eval(MS "MulInteger", "", "u8[2]{1,2}", "u8[]{1}", "u8[2,1]{3,5}", NULL),
         "i32[2,2]{0,3,0,5}");
    SAME(eval(MS "ReduceSumInteger", "axes=1 keepdims=0", "i8[2,2]{100,100,-1,-2}", NULL),
         "i32[2]{200,-3}");
    SAME(eval(MS "Rfft", "", "f64[2]{3,1}", NULL), "f64[2,2]{4,0,2,0}");
    SAME(eval(MS "Irfft", "", "f64[2,2]{4,0,2,0}", NULL), "f64[2]{3,1}");
    SAME(infer(MS "Rfft", "", "f32[b,n]", NULL), "f32[b,floor(n/2) + 1,2]");
    SAME(eval(MS "RelativePositionBias", "max_distance=8", "f32[4,1]{10,11,12,13}", "i64[1]{3}",
              "i64[1]{3}", NULL),
         "f32[1,1,3,3]{10,10,10,11,10,10,12,11,10}");
    SAME(eval(MS "GatedRelativePositionBias", "num_heads=1", "f32[1,1,1]{0}", "f32[1]{0}",
              "f32[1,1,1,1]{8}", "f32[1,2]{1,1}", "f32[2]{0,0}", "f32[1,1,1,1]{1}", NULL),
         "f32[1,1,1,1]{14}");
}

static void test_refusals(void **state)
{
    (void)state;
    SAME(infer(MS "RelativePositionBias", "max_distance=8", "f32[4,1]", "i64[1]{-3}", "i64[1]{3}",
               NULL),
         "a length is -3");
    SAME(infer(MS "GatedRMSNorm", "", "f32[5]", "f32[2]", "f32[5]", NULL),
         "the last axis of 5 is no multiple of 2, scale's length");
    SAME(infer(MS "Rfft", "signal_ndim=2", "f32[5,5]", NULL),
         "a transform that is normalised, two-sided or of 2 axes");
    op_text_n_out = 2;
    SAME(eval(MS "BifurcationDetector", "", "i64[1]{1}", "i64[1]{0}", "i64[1]{9}", "i64[1]{1}",
              NULL),
         "1 predicted tokens, wanted -7 from 9 on");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEXT_TEST(test_values),
        OP_TEXT_TEST(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
