/* col2im.c -- shapes, wrapping integers, complex numbers
 * SPDX-License-Identifier: Apache-2.0 */
#include "op_text.h"

static void test_shapes(void **state)
{
    (void)state;
    SAME(infer("Col2Im", "", "f32[n,c,l]", "i64[2]{5,5}", "i64[2]{1,5}", NULL),
         "f32[n,floor(c/5),5,5]");
    SAME(infer("Col2Im", "", "f32[n,c,l]", "i64[2]", "i64[2]{1,5}", NULL),
         "f32[n,floor(c/5),t.image_0,t.image_1]");
}

static void test_values(void **state)
{
    (void)state;
    SAME(eval("Col2Im", "", "c64[1,2,2]{1:1,2:0,3:0,4:2}", "i64[1]{3}", "i64[1]{2}", NULL),
         "c64[1,1,3]{1:1,5:0,4:2}");
    SAME(eval("Col2Im", "", "i8[1,2,2]{100,100,100,100}", "i64[1]{3}", "i64[1]{2}", NULL),
         "i8[1,1,3]{100,-56,100}");
}

static void test_refusals(void **state)
{
    (void)state;
    SAME(infer("Col2Im", "", "f32[n,10,4]", "i64[2]{5,5}", "i64[2]{1,5}", NULL),
         "number of blocks: found 4, wanted 5");
    SAME(infer("Col2Im", "", "f32[n,9,5]", "i64[2]{5,5}", "i64[2]{1,5}", NULL),
         "axis 1 against the block's volume: found 9, wanted 5");
    SAME(infer("Col2Im", "", "f32[n,9,5]", "i64[2]{5,5}", "i64[1]{1}", NULL),
         "image_shape has 2 elements, block_shape 1");
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
