/* pool.c -- indices, padding and what counts, hostile attributes
 * SPDX-License-Identifier: Apache-2.0 */
#include "op_text.h"

static void test_shapes(void **state)
{
    (void)state;
    SAME(infer("MaxPool", "kernel_shape=3,3 strides=2,2 pads=1,1,1,1", "f32[n,c,h,w]", NULL),
         "f32[n,c,floor((h + 1)/2),floor((w + 1)/2)]");
    SAME(infer("MaxPool", "kernel_shape=3 strides=2 ceil_mode=1", "f32[n,c,l]", NULL),
         "f32[n,c,floor(l/2)]");
}

static void test_values(void **state)
{
    (void)state;
    op_text_n_out = 2;
    SAME(eval("MaxPool", "kernel_shape=2,2 storage_order=1", "i8[1,1,2,3]{-1,-2,-3,-4,-5,5}", NULL),
         "i8[1,1,1,2]{-1,5}; i64[1,1,1,2]{0,5}");
    SAME(eval("MaxPool", "kernel_shape=2 strides=2 pads=2,0", "u8[1,1,2]{7,8}", NULL),
         "u8[1,1,2]{0,8}; i64[1,1,2]{-1,1}");
    SAME(eval("MaxPool", "kernel_shape=2", "f32[1,2,3]{1,nan,2,-inf,-inf,-inf}", NULL),
         "f32[1,2,2]{nan,nan,-inf,-inf}; i64[1,2,2]{1,1,3,4}");
    SAME(eval("MaxPool", "kernel_shape=2", "f32[0,2,3]{}", NULL), "f32[0,2,2]{}; i64[0,2,2]{}");
    op_text_n_out = 1; /* an empty result costs nothing, however large its other dims are */
    SAME(eval("AveragePool", "kernel_shape=1", "f32[1099511627776,1,0]{}", NULL),
         "f32[1099511627776,1,0]{}");
    SAME(eval("AveragePool", "kernel_shape=2 strides=2 ceil_mode=1 count_include_pad=1",
              "f32[1,1,3]{1,2,3}", NULL),
         "f32[1,1,2]{1.5,3}");
    SAME(eval("AveragePool",
              "kernel_shape=2 strides=2 ceil_mode=1 count_include_pad=1 count_overhang=1",
              "f32[1,1,3]{1,2,3}", NULL),
         "f32[1,1,2]{1.5,1.5}");
    SAME(eval("AveragePool", "kernel_shape=2 pads=1,1", "f32[1,1,2]{2,4}", NULL),
         "f32[1,1,3]{2,3,4}");
    SAME(
        eval("AveragePool", "kernel_shape=2 pads=1,1 count_include_pad=1", "f32[1,1,2]{2,4}", NULL),
        "f32[1,1,3]{1,3,2}");
    SAME(eval("AveragePool", "kernel_shape=2 auto_pad=SAME_LOWER", "f16[1,1,2]{2,4}", NULL),
         "f16[1,1,2]{2,3}");
    SAME(eval("LpPool", "kernel_shape=2 p=3", "f64[1,1,2]{-1,2}", NULL), "f64[1,1,1]{2.08008}");
}

static void test_refusals(void **state)
{
    (void)state;
    SAME(infer("MaxPool", "", "f32[n,c,l]", NULL), "kernel_shape is empty, wanted 1 entries");
    SAME(infer("MaxPool", "kernel_shape=3,3", "f32[n,c,l]", NULL),
         "kernel_shape has 2 entries, wanted 1");
    SAME(infer("MaxPool", "kernel_shape=3", "f32[n,c]", NULL),
         "input of rank 2, wanted at least 3");
    SAME(infer("LpPool", "kernel_shape=3 p=0", "f32[n,c,9]", NULL), "p is 0, wanted at least 1");
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
