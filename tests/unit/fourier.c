/* fourier.c -- transforms and windows: shapes with symbols, lengths, refusals.
 * SPDX-License-Identifier: Apache-2.0 */
#include "op_text.h"

static void test_shapes(void **state)
{
    (void)state;
    SAME(infer("DFT", "", "f32[b,n,1]", NULL), "f32[b,n,2]");
    SAME(infer("DFT", "onesided=1", "f32[b,n,1]", NULL), "f32[b,floor(n/2) + 1,2]");
    SAME(infer("DFT", "onesided=1 inverse=1", "f32[b,n,2]", NULL), "f32[b,2*n - 2,1]");
    SAME(infer("DFT", "", "f32[b,n,1]", "i64[]{s}", "i64[]{0}", NULL), "f32[s,n,2]");
    SAME(infer("DFT", "", "f32[b,n,1]", "-", "i64[]", NULL), "f32[t.dft_0,t.dft_1,2]");
    SAME(infer("DFT", "", "f32[*]", NULL), "f32[*]");
    SAME(infer("STFT", "", "f32[b,n,1]", "i64[]{4}", "f32[8]", NULL), "f32[b,floor(n/4) - 1,5,2]");
    SAME(infer("HannWindow", "output_datatype=11", "i64[]{n}", NULL), "f64[n]");
    SAME(infer("MelWeightMatrix", "", "i64[]{8}", "i64[]{n}", "i64[]", "f32[]", "f32[]", NULL),
         "f32[floor(n/2) + 1,8]");
}

static void test_refusals(void **state)
{
    (void)state;
    SAME(infer("DFT", "", "f32[4,3]", NULL),
         "last dim of input 0 is 3, wanted 1 (real) or 2 (complex)");
    SAME(infer("DFT", "onesided=1", "f32[4,2]", NULL), "a one-sided transform wants real input");
    SAME(infer("DFT", "", "f32[4,2]", "i64[]{0}", NULL),
         "dft_length is 0, wanted a positive number");
    SAME(infer("DFT", "", "f32[4,2]", "-", "i64[]{-1}", NULL),
         "axis -1 is the one of real and imaginary parts");
    SAME(infer("STFT", "", "f32[1,4,1]", "i64[]{0}", NULL),
         "frame_step is 0, wanted a positive number");
    SAME(infer("STFT", "", "f32[1,4,1]", "i64[]{1}", "f32[8]", NULL),
         "frame of 8 in a signal of 4");
    SAME(infer("HannWindow", "output_datatype=8", "i64[]{4}", NULL),
         "output_datatype 8 is not numeric");
    eval("HannWindow", "", "i64[]{-1}", NULL);
    assert_int_equal(op_text_status, CM_ERR_MODEL);
    eval("DFT", "", "f32[1,1]{1}", "i64[]{4611686018427387904}", NULL);
    assert_int_not_equal(op_text_status, CM_OK);
}

static void test_values(void **state)
{
    (void)state;
    SAME(eval("DFT", "", "f32[2,1]{1,3}", NULL), "f32[2,2]{4,0,-2,0}");
    SAME(eval("DFT", "inverse=1 onesided=1", "f64[2,2]{4,9,0,9}", "i64[]{2}", NULL),
         "f64[2,1]{2,2}");
    SAME(eval("DFT", "", "f32[2,1]{1,2}", "i64[]{1}", NULL), "f32[1,2]{1,0}");
    SAME(eval("HannWindow", "output_datatype=10", "i64[]{4}", NULL), "f16[4]{0,0.5,1,0.5}");
    SAME(eval("HannWindow", "", "i32[]{0}", NULL), "f32[0]{}");
    SAME(eval("MelWeightMatrix", "", "i64[]{2}", "i64[]{4}", "i64[]{0}", "f32[]{0}", "f32[]{9}",
              NULL),
         "sample_rate is 0, wanted a positive number");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEXT_TEST(test_shapes),
        OP_TEXT_TEST(test_refusals),
        OP_TEXT_TEST(test_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
