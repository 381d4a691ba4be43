/* deform_conv.c -- shapes, and offsets that lead nowhere
 * SPDX-License-Identifier: Apache-2.0 */
#include "op_text.h"

static void test_shapes(void **state)
{
    (void)state;
    SAME(infer("DeformConv", "", "f32[n,2,h,w]", "f32[4,2,2,2]", "f32[n,8,p,q]", NULL),
         "f32[n,4,h - 1,w - 1]");
}

static void test_values(void **state)
{
    (void)state;
    SAME(eval("DeformConv", "", "f32[1,1,3]{1,2,3}", "f32[1,1,1]{1}", "f32[1,1,3]{0.5,nan,-9}",
              NULL),
         "f32[1,1,3]{1.5,0,0}");
}

static void test_refusals(void **state)
{
    (void)state;
    SAME(
        infer("DeformConv", "offset_group=3", "f32[n,2,h,w]", "f32[4,2,2,2]", "f32[n,8,p,q]", NULL),
        "offset_group=3 does not divide the channels");
    SAME(infer("DeformConv", "", "f32[n,2,5,5]", "f32[4,2,2,2]", "f32[n,7,4,4]", NULL),
         "channels of offset or mask: found 7, wanted 8");
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
