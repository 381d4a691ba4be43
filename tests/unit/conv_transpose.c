/* conv_transpose.c -- sizes, explicit output shapes, hostile attributes
 * SPDX-License-Identifier: Apache-2.0 */
#include "op_text.h"

static void test_shapes(void **state)
{
    (void)state;
    SAME(infer("ConvTranspose", "strides=2 output_padding=1", "f32[n,3,l]", "f32[3,4,3]", NULL),
         "f32[n,4,2*l + 2]");
    SAME(infer("ConvTranspose", "strides=2 auto_pad=SAME_LOWER group=3", "f32[n,3,l]", "f32[3,4,3]",
               NULL),
         "f32[n,12,2*l]");
    SAME(infer("ConvTranspose", "output_shape=9", "f32[n,3,l]", "f32[3,4,3]", NULL), "f32[n,4,9]");
}

static void test_values(void **state)
{
    (void)state;
    SAME(eval("ConvTranspose", "strides=2", "f32[1,1,2]{1,2}", "f32[1,1,3]{1,10,100}", NULL),
         "f32[1,1,5]{1,10,102,20,200}");
    SAME(eval("ConvTranspose", "strides=2 output_shape=4", "f32[1,1,2]{1,2}",
              "f32[1,1,3]{1,10,100}", NULL),
         "f32[1,1,4]{10,102,20,200}");
    SAME(eval("ConvTranspose", "strides=2 output_shape=7", "f32[1,1,2]{1,2}",
              "f32[1,1,3]{1,10,100}", "f32[1]{0.5}", NULL),
         "f32[1,1,7]{1.5,10.5,102.5,20.5,200.5,0.5,0.5}");
}

static void test_refusals(void **state)
{
    (void)state;
    SAME(infer("ConvTranspose", "pads=9,9", "f32[n,3,4]", "f32[3,4,3]", NULL),
         "pads leave -12 of spatial axis 0");
    SAME(infer("ConvTranspose", "output_padding=-1", "f32[n,3,4]", "f32[3,4,3]", NULL),
         "output_padding[0] is -1");
    SAME(infer("ConvTranspose", "group=2", "f32[n,3,4]", "f32[3,4,3]", NULL),
         "group=2 does not divide 3 input channels");
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
