/* grid.c -- coordinates that are not finite, shapes
 * SPDX-License-Identifier: Apache-2.0 */
#include "op_text.h"

static void test_shapes(void **state)
{
    (void)state;
    SAME(infer("AffineGrid", "", "f32[n,2,3]", "i64[4]{n,c,h,w}", NULL), "f32[n,h,w,2]");
    SAME(infer("AffineGrid", "", "f32[n,3,4]", "i64[5]", NULL),
         "f32[n,t.size_0,t.size_1,t.size_2,3]");
    SAME(infer("GridSample", "", "f32[n,c,h,w]", "f32[n,p,q,2]", NULL), "f32[n,c,p,q]");
}

static void test_values(void **state)
{
    (void)state;
    SAME(eval("AffineGrid", "align_corners=1", "f32[1,2,3]{1,0,0,0,1,0}", "i64[4]{1,1,1,2}", NULL),
         "f32[1,1,2,2]{-1,-1,1,-1}");
    SAME(eval("GridSample", "align_corners=1", "f32[1,1,3]{1,2,3}", "f32[1,4,1]{-1,0.5,nan,inf}",
              NULL),
         "f32[1,1,4]{1,2.5,0,0}");
    SAME(eval("GridSample", "align_corners=1 padding_mode=reflection", "f32[1,1,3]{1,2,3}",
              "f32[1,4,1]{-2,5,nan,inf}", NULL),
         "f32[1,1,4]{2,3,1,1}");
    SAME(eval("GridSample", "mode=nearest padding_mode=border", "i32[1,1,1]{7}",
              "f32[1,3,1]{-9,0,1e30}", NULL),
         "i32[1,1,3]{7,7,7}");
    SAME(eval("GridSample", "mode=cubic padding_mode=reflection align_corners=1", "f32[1,1,1]{7}",
              "f32[1,3,1]{-9,0,1e30}", NULL),
         "f32[1,1,3]{7,7,7}");
}

static void test_refusals(void **state)
{
    (void)state;
    SAME(infer("AffineGrid", "", "f32[n,2,3]", "i64[5]", NULL), "rows of theta: found 2, wanted 3");
    SAME(infer("AffineGrid", "", "f32[n,3,4]", "i64[3]{1,2,3}", NULL),
         "size has 3 elements, wanted 4 or 5");
    SAME(infer("GridSample", "", "f32[n,c,h,w]", "f32[n,p,q,3]", NULL),
         "coordinates in the grid: found 3, wanted 2");
    SAME(infer("GridSample", "mode=cube", "f32[n,c,h,w]", "f32[n,p,q,2]", NULL),
         "mode 'cube' or padding_mode 'zeros' is not known");
    SAME(infer("GridSample", "", "f32[n,c,0,2]", "f32[n,p,q,2]", NULL),
         "spatial axis 0 of the input is empty");
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
