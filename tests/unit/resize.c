/* resize.c -- symbolic sizes, absent lists, every element type
 * SPDX-License-Identifier: Apache-2.0 */
#include "op_text.h"

static void test_shapes(void **state)
{
    (void)state;
    SAME(infer("Resize", "", "f32[n,c,h,w]", "-", "f32[4]{1,1,2,0.5}", NULL),
         "f32[n,c,2*h,floor(w/2)]");
    SAME(infer("Resize", "", "f32[n,c,h,w]", "-", "f32[4]{1,1,1.5,3}", NULL),
         "f32[n,c,t.resized_0,3*w]");
    SAME(infer("Resize", "axes=2,3", "f32[n,c,h,w]", "-", "f32[0]{}", "i64[2]{a,7}", NULL),
         "f32[n,c,a,7]");
    SAME(infer("Resize", "axes=2,3 keep_aspect_ratio_policy=not_larger", "f32[n,c,10,20]", "-", "-",
               "i64[2]{5,5}", NULL),
         "f32[n,c,3,5]");
    SAME(infer("Resize", "axes=2,3 keep_aspect_ratio_policy=not_larger", "f32[n,c,h,20]", "-", "-",
               "i64[2]{5,5}", NULL),
         "f32[n,c,t.resized_1,t.resized_2]");
    SAME(infer("Resize", "", "f32[n,c]", "-", "f32[k]", "i64[2]", NULL),
         "f32[t.resized_3,t.resized_4]");
}

static void test_values(void **state)
{
    (void)state;
    SAME(eval("Resize", "", "str[2]{a,b}", "-", "f32[1]{2}", NULL), "str[4]{a,a,b,b}");
    SAME(eval("Resize", "mode=linear", "u8[2]{0,255}", "-", "f32[1]{2}", NULL),
         "u8[4]{0,64,191,255}");
    SAME(eval("Resize", "mode=cubic", "i8[4]{-128,127,-128,127}", "-", "f32[1]{2}", NULL),
         "i8[8]{-128,-61,96,87,-88,-97,60,127}");
    SAME(eval("Resize",
              "coordinate_transformation_mode=tf_crop_and_resize mode=linear extrapolation_value=9",
              "f32[3]{1,2,3}", "f32[2]{0.5,1.5}", "-", "i64[1]{3}", NULL),
         "f32[3]{2,3,9}");
    SAME(eval("Resize", "coordinate_transformation_mode=tf_half_pixel_for_nn", "i32[4]{1,2,3,4}",
              "-", "-", "i64[1]{3}", NULL),
         "i32[3]{2,3,4}");
    SAME(eval("Resize", "mode=linear coordinate_transformation_mode=align_corners", "f64[3]{1,2,3}",
              "-", "-", "i64[1]{1}", NULL),
         "f64[1]{1}");
    SAME(eval("Resize", "", "f32[0,2]{}", "-", "f32[2]{2,2}", NULL), "f32[0,4]{}");
    SAME(eval("Resize", "", "f32[2]{1,2}", "-", "f32[1]{0.25}", NULL), "f32[0]{}");
    SAME(eval("Resize", "", "i4[2]{-3,2}", "-", "f32[1]{2}", NULL), "i4[4]{-3,-3,2,2}");
}

static void test_refusals(void **state)
{
    (void)state;
    SAME(infer("Resize", "", "f32[n,c]", "-", "f32[2]{1,1}", "i64[2]{1,1}", NULL),
         "both of scales and sizes given, wanted one");
    SAME(infer("Resize", "", "f32[n,c]", NULL), "neither of scales and sizes given, wanted one");
    SAME(infer("Resize", "", "f32[n,c]", "-", "f32[2]{1,-1}", NULL),
         "scales[1] is -1, wanted more than 0");
    SAME(infer("Resize", "", "f32[n,c]", "-", "f32[2]{1,nan}", NULL),
         "scales[1] is nan, wanted more than 0");
    SAME(infer("Resize", "", "f32[n,c]", "-", "f32[3]{1,1,1}", NULL),
         "elements of scales: found 3, wanted 2");
    SAME(infer("Resize", "mode=bilinear", "f32[n,c]", "-", "f32[2]{1,1}", NULL),
         "mode 'bilinear' is not known");
    SAME(infer("Resize", "mode=linear", "str[n,c]", "-", "f32[2]{1,1}", NULL),
         "elements of str cannot be interpolated");
    SAME(infer("Resize", "axes=0,0", "f32[n,c]", "-", "f32[2]{1,1}", NULL),
         "axis 0 is listed twice");
    SAME(infer("Resize", "", "f32[2,0]", "-", "-", "i64[2]{1,1}", NULL),
         "axis 1 is empty and cannot be resized");
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
