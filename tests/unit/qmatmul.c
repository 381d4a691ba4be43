/* qmatmul.c -- zero points by row and column, float8, lengths that do not fit
 * SPDX-License-Identifier: Apache-2.0 */
#include "op_text.h"

static void test_values(void **state)
{
    (void)state;
    SAME(infer("MatMulInteger", "", "u8[b,m,k]", "i8[k,n]", NULL), "i32[b,m,n]");
    SAME(eval("MatMulInteger", "", "u8[2,2]{1,2,3,4}", "i8[2,2]{1,2,3,4}", "u8[2]{1,3}",
              "i8[2]{1,2}", NULL),
         "i32[2,2]{2,2,2,2}");
    SAME(eval("MatMulInteger", "", "u8[2]{1,2}", "i8[2]{3,4}", NULL), "i32[]{11}");
    SAME(eval("MatMulInteger", "", "u8[2,1,1]{5,6}", "u8[1,1]{2}", "u8[2,1,1]{1,2}", NULL),
         "i32[2,1,1]{8,8}");
    SAME(eval("QLinearMatMul", "", "u8[1,2]{3,5}", "f32[]{0.5}", "u8[]{1}", "i8[2,1]{2,-1}",
              "f32[]{1}", "i8[]{0}", "f32[]{0.5}", "u8[]{10}", NULL),
         "u8[1,1]{10}");
    SAME(eval("QLinearMatMul", "", "f8e4m3fn[1,1]{2}", "f16[]{1}", "f8e4m3fn[]{0}",
              "f8e4m3fn[1,1]{3}", "f16[]{1}", "f8e4m3fn[]{0}", "f16[]{2}", "f8e4m3fn[]{0}", NULL),
         "f8e4m3fn[1,1]{3}");
    SAME(eval("com.microsoft.MatMulInteger16", "", "i16[1,2]{-30000,30000}", "i16[2,1]{30000,1}",
              NULL),
         "i32[1,1]{-899970000}");
    SAME(eval("com.microsoft.DynamicQuantizeMatMul", "", "f32[1,2]{0,255}", "u8[2,1]{1,3}",
              "f32[]{0.5}", "u8[]{1}", "f32[1]{7}", NULL),
         "f32[1,1]{262}");
    /* a scale longer than one column repeats it */
    SAME(eval("com.microsoft.MatMulIntegerToFloat", "", "u8[2,2]{1,2,3,4}", "u8[2,1]{1,3}",
              "f32[]{1}", "f32[3]{0.5,1,2}", "u8[]{0}", "u8[1]{1}", "f32[3]{0,0,100}", NULL),
         "f32[2,3]{2,4,108,4,8,116}");
    SAME(infer("com.microsoft.DynamicQuantizeMatMul", "", "f32[m,k]", "u8[k,n]", "f32[n]", NULL),
         "f32[m,n]");
    SAME(eval("com.microsoft.QGemm", "transB=1", "u8[1,2]{1,2}", "f32[]{1}", "u8[]{0}",
              "i8[1,2]{3,4}", "f32[]{0.5}", "i8[]{0}", "i32[1]{1}", NULL),
         "f32[1,1]{6}");
}

static void test_refusals(void **state)
{
    (void)state;
    SAME(infer("MatMulInteger", "", "u8[2,3]", "i8[3,4]", "u8[3]", NULL),
         "a_zero_point: found 3, wanted 2");
    SAME(infer("MatMulInteger", "", "u8[2,3]", "i8[2,4]", NULL),
         "inner sizes of the product: found 3, wanted 2");
    SAME(infer("com.microsoft.DynamicQuantizeMatMul", "", "f32[2,3]", "u8[3,4]", "f32[3]", NULL),
         "shapes do not broadcast: 4 against 3 at axis 1 from the right");
    SAME(infer("MatMulInteger", "", "u8[]", "i8[2,4]", NULL), "a matrix product of a scalar");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEXT_TEST(test_values),
        OP_TEXT_TEST(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
