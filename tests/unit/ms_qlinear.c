/* ms_qlinear.c -- com.microsoft operators on quantised tensors
 * SPDX-License-Identifier: Apache-2.0 */
#include "op_text.h"

#define MS "com.microsoft."

static void test_values(void **state)
{
    (void)state;
    SAME(infer(MS "QLinearAdd", "", "u8[a,b]", "f32[]", "-", "u8[b]", "f32[]", "-", "f32[]", NULL),
         "u8[a,b]");
    SAME(eval(MS "QLinearAdd", "", "u8[2]{1,250}", "f32[]{1}", "-", "u8[1]{4}", "f32[]{2}",
              "u8[]{1}", "f32[]{1}", "u8[]{2}", NULL),
         "u8[2]{9,255}");
    SAME(eval(MS "QLinearMul", "", "i8[1]{3}", "f32[]{1}", "i8[]{1}", "i8[1]{4}", "f32[]{1}",
              "i8[]{0}", "f32[]{2}", NULL),
         "i8[1]{4}");
    SAME(eval(MS "QLinearConcat", "axis=0", "f32[]{2}", "u8[]{1}", "u8[1]{4}", "f32[]{1}",
              "u8[]{0}", "u8[1]{3}", "f32[]{4}", "u8[]{1}", NULL),
         "u8[2]{3,5}");
    SAME(eval(MS "QLinearGlobalAveragePool", "channels_last=1", "u8[1,2,2]{1,10,3,20}", "f32[]{1}",
              "u8[]{0}", "f32[]{1}", "u8[]{0}", NULL),
         "u8[1,1,2]{2,15}");
    SAME(eval(MS "QLinearAveragePool", "channels_last=1 kernel_shape=2", "u8[1,2,2]{1,10,3,20}",
              "f32[]{1}", "-", "f32[]{1}", NULL),
         "u8[1,1,2]{2,15}");
    SAME(eval(MS "QLinearReduceMean", "axes=1 keepdims=0", "u8[2,2]{1,3,10,20}", "f32[]{1}",
              "u8[]{1}", "f32[]{0.5}", "u8[]{1}", NULL),
         "u8[2]{3,29}");
    SAME(eval(MS "QLinearWhere", "", "bool[2]{1,0}", "u8[2]{3,3}", "f32[]{2}", "u8[]{1}",
              "u8[1]{7}", "f32[]{1}", "u8[]{0}", "f32[]{1}", "u8[]{0}", NULL),
         "u8[2]{4,7}");
}

static void test_refusals(void **state)
{
    (void)state;
    SAME(infer(MS "QLinearAdd", "", "u8[a,b]", "f32[3]", "-", "u8[b]", "f32[]", "-", "f32[]", NULL),
         "an input's scale: found 3, wanted 1");
    SAME(infer(MS "QLinearAdd", "", "u8[a,b]", "f32[]", "-", "u8[b]", "f32[]", "-", NULL),
         "input 6 is required but absent");
    SAME(infer(MS "QLinearConcat", "axis=0", "f32[]", "u8[]", "u8[2]", "f32[]", NULL),
         "4 inputs, wanted 2 and 3 for each tensor");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEXT_TEST(test_values),
        OP_TEXT_TEST(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
