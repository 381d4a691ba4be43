/* conv.c -- symbolic sizes, hostile attributes, odd ranks and types
 * SPDX-License-Identifier: Apache-2.0 */
#include "op_text.h"

static void test_shapes(void **state)
{
    (void)state;
    SAME(infer("Conv", "pads=1,1,1,1 strides=2,2", "f32[n,3,h,w]", "f32[8,3,3,3]", NULL),
         "f32[n,8,floor((h + 1)/2),floor((w + 1)/2)]");
    SAME(infer("Conv", "auto_pad=SAME_UPPER strides=2", "f32[n,3,l]", "f32[8,3,5]", NULL),
         "f32[n,8,floor((l + 1)/2)]");
    SAME(infer("Conv", "", "f32[*]", "f32[8,3,5]", NULL), "f32[*]");
}

static void test_values(void **state)
{
    (void)state;
    SAME(eval("Conv", "", "f32[0,1,3]{}", "f32[1,1,2]{1,1}", NULL), "f32[0,1,2]{}");
    SAME(eval("Conv", "dilations=2 pads=1,0", "f64[1,1,4]{1,2,3,4}", "f64[1,1,2]{1,10}",
              "f64[1]{0.5}", NULL),
         "f64[1,1,3]{20.5,31.5,42.5}");
    SAME(eval("Conv", "group=2", "f16[1,2,2]{1,2,3,4}", "f16[2,1,1]{10,100}", NULL),
         "f16[1,2,2]{10,20,300,400}");
    SAME(eval("Conv", "", "f32[1,1,2,1,1,2]{1,2,3,4}", "f32[1,1,2,1,1,1]{1,10}", NULL),
         "f32[1,1,1,1,1,2]{31,42}");
}

static void test_refusals(void **state)
{
    (void)state;
    SAME(infer("Conv", "group=2", "f32[n,3,l]", "f32[8,3,5]", NULL),
         "group=2 does not divide 3 input channels");
    SAME(infer("Conv", "group=0", "f32[n,3,l]", "f32[8,3,5]", NULL),
         "group is 0, wanted at least 1");
    SAME(infer("Conv", "", "f32[n,4,l]", "f32[8,3,5]", NULL), "input channels: found 4, wanted 3");
    SAME(infer("Conv", "strides=0", "f32[n,3,l]", "f32[8,3,5]", NULL),
         "strides[0] is 0, wanted 1 to 2147483647");
    SAME(infer("Conv", "dilations=-1", "f32[n,3,l]", "f32[8,3,5]", NULL),
         "dilations[0] is -1, wanted 1 to 2147483647");
    SAME(infer("Conv", "pads=1", "f32[n,3,l]", "f32[8,3,5]", NULL), "pads has 1 entries, wanted 2");
    SAME(infer("Conv", "pads=-1,0", "f32[n,3,l]", "f32[8,3,5]", NULL),
         "pads[0] is -1, wanted 0 to 2147483647");
    SAME(infer("Conv", "kernel_shape=4", "f32[n,3,l]", "f32[8,3,5]", NULL),
         "kernel_shape and the weights: found 4, wanted 5");
    SAME(infer("Conv", "kernel_shape=4,4", "f32[n,3,l]", "f32[8,3,5]", NULL),
         "kernel_shape has 2 entries, wanted 1");
    SAME(infer("Conv", "", "f32[n,3,4]", "f32[8,3,5]", NULL),
         "window of 5 does not fit spatial axis 0 of 4 with padding 0");
    SAME(infer("Conv", "", "f32[n,3,4]", "f32[8,3,0]", NULL),
         "kernel size 0 on spatial axis 0 is not in 1 to 2147483647");
    SAME(infer("Conv", "auto_pad=SAME", "f32[n,3,4]", "f32[8,3,1]", NULL),
         "auto_pad is 'SAME', wanted NOTSET, VALID, SAME_UPPER or SAME_LOWER");
    SAME(infer("Conv", "", "f32[n,3]", "f32[8,3]", NULL),
         "input of rank 2 and weights of rank 2, wanted the same, at least 3");
    SAME(infer("Conv", "", "f32[n,3,9]", "f32[8,3,5]", "f32[7]", NULL),
         "bias elements: found 7, wanted 8");
    SAME(infer("Conv", "strides=2000000000 dilations=2000000000", "f32[1,1,9]",
               "f32[1,1,2000000000]", NULL),
         "window of 3999999998000000001 does not fit spatial axis 0 of 9 with padding 0");
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
