/* max_unpool.c -- explicit shapes, indices out of range
 * SPDX-License-Identifier: Apache-2.0 */
#include "op_text.h"

static void test_shapes(void **state)
{
    (void)state;
    SAME(infer("MaxUnpool", "kernel_shape=2 strides=2", "f32[n,c,l]", "i64[n,c,l]", NULL),
         "f32[n,c,2*l]");
    SAME(infer("MaxUnpool", "kernel_shape=2 strides=2", "f32[n,c,l]", "i64[n,c,l]", "i64[3]{n,c,9}",
               NULL),
         "f32[n,c,9]");
}

static void test_values(void **state)
{
    (void)state;
    SAME(eval("MaxUnpool", "kernel_shape=2 strides=2", "f32[1,1,2]{5,6}", "i64[1,1,2]{1,2}",
              "i64[3]{1,1,3}", NULL),
         "f32[1,1,3]{0,5,6}");
}

static void test_refusals(void **state)
{
    (void)state;
    SAME(infer("MaxUnpool", "kernel_shape=2 strides=2", "f32[n,c,2]", "i64[n,c,3]", NULL),
         "shape of the indices: found 3, wanted 2");
    SAME(infer("MaxUnpool", "kernel_shape=2 strides=2", "f32[n,c,2]", "i64[n,c,2]", "i64[2]{1,2}",
               NULL),
         "output_shape has not 3 elements");
    SAME(eval("MaxUnpool", "kernel_shape=2 strides=2", "f32[1,1,2]{5,6}", "i64[1,1,2]{1,4}", NULL),
         "index 4 is not in [0, 4)");
    SAME(eval("MaxUnpool", "kernel_shape=2 strides=2", "f32[1,1,2]{5,6}", "i64[1,1,2]{1,-1}", NULL),
         "index -1 is not in [0, 4)");
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
