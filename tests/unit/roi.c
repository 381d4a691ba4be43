/* roi.c -- regions far outside, hostile numbers
 * SPDX-License-Identifier: Apache-2.0 */
#include "op_text.h"

static void test_shapes(void **state)
{
    (void)state;
    SAME(infer("RoiAlign", "output_height=2 output_width=3", "f32[n,c,h,w]", "f32[r,4]", "i64[r]",
               NULL),
         "f32[r,c,2,3]");
}

static void test_values(void **state)
{
    (void)state;
    SAME(eval("RoiAlign", "", "f32[1,1,1,1]{3}", "f32[2,4]{-1e8,-1e8,1e8,1e8,5,5,1,1}",
              "i64[2]{0,0}", NULL),
         "f32[2,1,1,1]{6.75e-16,0}");
    SAME(eval("RoiAlign", "mode=max", "f32[1,1,1,1]{-3}", "f32[1,4]{0,0,5,5}", "i64[1]{0}", NULL),
         "f32[1,1,1,1]{0}");
    SAME(eval("RoiAlign", "sampling_ratio=2", "f32[1,1,1,2]{3,3}", "f32[1,4]{8,0,0,1}", "i64[1]{0}",
              NULL),
         "f32[1,1,1,1]{1.5}");
    SAME(eval("MaxRoiPool", "pooled_shape=1,2", "f32[1,1,2,2]{1,2,3,4}",
              "f32[2,5]{0,0,0,1,1,0,9,9,9,9}", NULL),
         "f32[2,1,1,2]{3,4,0,0}");
}

static void test_refusals(void **state)
{
    (void)state;
    SAME(infer("RoiAlign", "mode=min", "f32[n,c,h,w]", "f32[r,4]", "i64[r]", NULL),
         "mode is 'min', wanted avg or max");
    SAME(infer("RoiAlign", "output_height=0", "f32[n,c,h,w]", "f32[r,4]", "i64[r]", NULL),
         "output of 0 by 1, wanted at least 1 by 1");
    SAME(infer("RoiAlign", "", "f32[n,c,h,w]", "f32[r,5]", "i64[r]", NULL),
         "numbers of a region: found 5, wanted 4");
    SAME(eval("RoiAlign", "", "f32[1,1,1,1]{3}", "f32[1,4]{0,0,1,1}", "i64[1]{1}", NULL),
         "region 0 is of image 1 of 1");
    SAME(eval("RoiAlign", "", "f32[1,1,1,1]{3}", "f32[1,4]{0,0,nan,1}", "i64[1]{0}", NULL),
         "region 0 has the coordinate nan");
    SAME(infer("MaxRoiPool", "pooled_shape=2", "f32[n,c,h,w]", "f32[r,5]", NULL),
         "pooled_shape has 1 entries, wanted 2");
    SAME(eval("MaxRoiPool", "pooled_shape=1,2", "f32[1,1,2,2]{1,2,3,4}", "f32[1,5]{7,0,0,1,1}",
              NULL),
         "region 0 is of image 7 of 1");
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
