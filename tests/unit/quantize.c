/* quantize.c -- every quantised type, ties, ends of ranges, lengths that do not fit
 * SPDX-License-Identifier: Apache-2.0 */
#include "op_text.h"

static void test_shapes(void **state)
{
    (void)state;
    SAME(infer("QuantizeLinear", "axis=0 block_size=2", "f32[n,m]", "f32[k,m]", "i4[k,m]", NULL),
         "i4[n,m]");
    SAME(infer("QuantizeLinear", "output_dtype=21", "f32[*]", "f32[]", NULL), "u4[*]");
    SAME(infer("DequantizeLinear", "output_dtype=10", "i8[a,b]", "f8e8m0[]", NULL), "f16[a,b]");
    op_text_n_out = 3;
    SAME(infer("DynamicQuantizeLinear", "", "f32[a,b]", NULL), "u8[a,b]; f32[]; u8[]");
}

static void test_values(void **state)
{
    (void)state;
    SAME(eval("QuantizeLinear", "", "f32[7]{0.5,1.5,-0.5,300,-300,nan,inf}", "f32[]{1}", "u8[]{1}",
              NULL),
         "u8[7]{1,3,1,255,0,0,255}");
    SAME(eval("QuantizeLinear", "", "f32[3]{0.5,9,-9}", "f32[]{1}", "i4[]{0}", NULL),
         "i4[3]{0,7,-8}");
    SAME(eval("QuantizeLinear", "output_dtype=26", "f32[3]{0.6,9,-9}", "f32[]{1}", NULL),
         "i2[3]{1,1,-2}");
    SAME(eval("QuantizeLinear", "saturate=0 output_dtype=17", "f32[2]{1000,1}", "f32[]{1}", NULL),
         "f8e4m3fn[2]{nan,1}");
    SAME(eval("QuantizeLinear", "output_dtype=23", "f32[3]{0.3,5,100}", "f32[]{1}", NULL),
         "f4e2m1[3]{0.5,4,6}");
    SAME(eval("QuantizeLinear", "axis=1 block_size=2", "f32[1,3]{4,4,4}", "f32[1,2]{1,2}",
              "i8[1,2]{0,1}", NULL),
         "i8[1,3]{4,4,3}");
    SAME(eval("QuantizeLinear", "axis=0", "f16[2,1]{4,4}", "f16[2]{1,2}", NULL), "u8[2,1]{4,2}");
    SAME(eval("DequantizeLinear", "", "u16[2]{65535,0}", "f32[]{0.5}", "u16[]{1}", NULL),
         "f32[2]{32767,-0.5}");
    SAME(eval("DequantizeLinear", "axis=0", "i32[2,1]{-7,7}", "f32[2]{1,2}", NULL),
         "f32[2,1]{-7,14}");
    SAME(eval("com.microsoft.DequantizeLinear", "", "i16[2]{-5,5}", "f32[]{2}", "i16[]{1}", NULL),
         "f32[2]{-12,8}");
    op_text_n_out = 3;
    SAME(eval("DynamicQuantizeLinear", "", "f32[3]{0,127.5,255}", NULL),
         "u8[3]{0,128,255}; f32[]{1}; u8[]{0}");
    SAME(eval("DynamicQuantizeLinear", "", "f32[0]{}", NULL), "u8[0]{}; f32[]{1}; u8[]{0}");
}

static void test_refusals(void **state)
{
    (void)state;
    SAME(infer("QuantizeLinear", "", "f32[2,3]", "f32[3]", "u8[2]", NULL),
         "the zero point: found 2, wanted 3");
    SAME(infer("QuantizeLinear", "", "f32[2,3]", "f32[3]", "u8[]", NULL),
         "the scale has 3 elements and the zero point 1");
    SAME(infer("QuantizeLinear", "axis=2", "f32[2,3]", "f32[3]", NULL),
         "axis 2 is out of range for rank 2");
    SAME(infer("QuantizeLinear", "output_dtype=1", "f32[2,3]", "f32[]", NULL),
         "output_dtype is 1: no type to quantise to");
    SAME(infer("QuantizeLinear", "block_size=-1", "f32[2,3]", "f32[]", NULL),
         "block_size is -1, wanted 0 or more");
    SAME(infer("DequantizeLinear", "", "i8[2]", "f8e8m0[]", NULL),
         "the output's type would be f8e8m0, wanted f32, f16 or bf16");
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
