/* qconv.c -- padding is the zero point, channels last, parameters that do not fit
 * SPDX-License-Identifier: Apache-2.0 */
#include "op_text.h"

static void test_values(void **state)
{
    (void)state;
    SAME(infer("QLinearConv", "pads=1,1,1,1", "u8[n,3,h,w]", "f32[]", "u8[]", "i8[8,3,3,3]",
               "f32[8]", "i8[8]", "f32[]", "i8[]", "i32[8]", NULL),
         "i8[n,8,h,w]");
    SAME(eval("ConvInteger", "pads=1,1", "u8[1,1,2]{5,6}", "u8[1,1,3]{1,1,1}", "u8[]{4}", NULL),
         "i32[1,1,2]{3,3}");
    SAME(eval("QLinearConv", "", "u8[1,1,2]{5,6}", "f32[]{0.5}", "u8[]{4}", "i8[2,1,1]{1,2}",
              "f32[2]{1,2}", "i8[2]{0,1}", "f32[]{0.5}", "u8[]{1}", "i32[2]{1,0}", NULL),
         "u8[1,2,2]{3,4,3,5}");
    SAME(eval("com.microsoft.QLinearConv", "channels_last=1", "u8[1,2,1]{5,6}", "f32[]{0.5}",
              "u8[]{4}", "i8[2,1,1]{1,2}", "f32[2]{1,2}", "i8[2]{0,1}", "f32[]{0.5}", "u8[]{1}",
              "i32[2]{1,0}", NULL),
         "u8[1,2,2]{3,3,4,5}");
    SAME(eval("com.microsoft.FusedConv", "activation=Relu", "f32[1,1,2]{5,6}", "f32[1,1,1]{-1}",
              "f32[1]{1}", "f32[1,1,2]{5,3}", NULL),
         "f32[1,1,2]{1,0}");
}

static void test_refusals(void **state)
{
    (void)state;
    SAME(infer("QLinearConv", "", "u8[n,3,h,w]", "f32[]", "u8[]", "i8[8,3,3,3]", "f32[3]", "i8[8]",
               "f32[]", "i8[]", NULL),
         "w_scale: found 3, wanted 8");
    SAME(infer("ConvInteger", "group=2", "u8[n,3,h,w]", "u8[8,3,3,3]", NULL),
         "input channels: found 3, wanted 6");
    SAME(infer("ConvInteger", "group=0", "u8[n,3,h,w]", "u8[8,3,3,3]", NULL),
         "group is 0, wanted 1 or more");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEXT_TEST(test_values),
        OP_TEXT_TEST(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
