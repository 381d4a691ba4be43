/* ms_misc.c -- com.microsoft operators that stand alone
 * SPDX-License-Identifier: Apache-2.0 */
#include "op_text.h"

#define MS "com.microsoft."

static void test_values(void **state)
{
    (void)state;
    SAME(eval(MS "Inverse", "", "f64[2,2]{0,2,4,0}", NULL), "f64[2,2]{0,0.25,0.5,0}");
    SAME(eval(MS "ComplexMul", "", "f32[1,2]{1,2}", "f32[2]{3,4}", NULL), "f32[1,2]{-5,10}");
    SAME(eval(MS "ComplexMulConj", "", "f32[1,2]{1,2}", "f32[2]{3,4}", NULL), "f32[1,2]{11,2}");
    SAME(eval(MS "IsAllFinite", "", "f32[2]{1,inf}", "f16[1]{0}", NULL), "bool[]{0}");
    SAME(eval(MS "IsAllFinite", "isnan_only=1", "f32[2]{1,inf}", NULL), "bool[]{1}");
    SAME(infer(MS "UnfoldTensor", "size=3 step=2", "f32[a,b]", NULL),
         "f32[a,floor((b + 1)/2) - 1,3]");
    SAME(eval(MS "CropAndResize", "extrapolation_value=9", "f32[1,1,2,2]{1,2,3,4}",
              "f32[2,4]{0,0,1,1,2,2,3,3}", "i32[2]{0,0}", "i32[2]{1,1}", NULL),
         "f32[2,1,1,1]{2.5,9}");
    SAME(eval(MS "MurmurHash3", "", "str[2]{,hello}", NULL), "u32[2]{0,613153351}");
}

static void test_refusals(void **state)
{
    (void)state;
    SAME(eval(MS "Inverse", "", "f32[1,2,2]{1,2,2,4}", NULL), "matrix 0 has no inverse");
    SAME(infer(MS "Inverse", "", "f32[2,3]", NULL), "rows and columns: found 2, wanted 3");
    SAME(infer(MS "UnfoldTensor", "size=3 step=0", "f32[a,b]", NULL), "size is 3 and step 0");
    SAME(eval(MS "NGramRepeatBlock", "ngram_size=1", "i64[1,1]{5}", "f32[1,3]{0,0,0}", NULL),
         "token 5 of a vocabulary of 3");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEXT_TEST(test_values),
        OP_TEXT_TEST(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
