/* nms.c -- ties, NaN, thresholds met, nothing to select
 * SPDX-License-Identifier: Apache-2.0 */
#include "op_text.h"

static void test_shapes(void **state)
{
    (void)state;
    SAME(infer("NonMaxSuppression", "", "f32[b,n,4]", "f32[b,c,n]", NULL), "i64[t.selected_0,3]");
}

static void test_values(void **state)
{
    (void)state;
    SAME(eval("NonMaxSuppression", "", "f32[1,1,4]{0,0,1,1}", "f32[1,1,1]{1}", NULL), "i64[0,3]{}");
    SAME(eval("NonMaxSuppression", "", "f32[1,3,4]{0,0,1,1,0,0,1,1,5,5,6,6}",
              "f32[1,1,3]{0.5,nan,0.5}", "i64[1]{9223372036854775807}", NULL),
         "i64[2,3]{0,0,0,0,0,2}");
    SAME(eval("NonMaxSuppression", "", "f32[1,2,4]{0,0,1,1,5,5,6,6}", "f32[1,1,2]{0.6,0.5}",
              "i64[]{5}", "f32[]{0.5}", "f32[]{0.5}", NULL),
         "i64[1,3]{0,0,0}");
    SAME(eval("NonMaxSuppression", "", "f32[1,0,4]{}", "f32[1,1,0]{}", "i64[]{5}", NULL),
         "i64[0,3]{}");
}

static void test_refusals(void **state)
{
    (void)state;
    SAME(infer("NonMaxSuppression", "", "f32[b,n,5]", "f32[b,c,n]", NULL),
         "numbers of a box: found 5, wanted 4");
    SAME(infer("NonMaxSuppression", "", "f32[b,8,4]", "f32[b,c,9]", NULL),
         "scores for the boxes: found 9, wanted 8");
    SAME(infer("NonMaxSuppression", "center_point_box=2", "f32[b,8,4]", "f32[b,c,8]", NULL),
         "center_point_box is 2, wanted 0 or 1");
    SAME(eval("NonMaxSuppression", "", "f32[1,1,4]{0,0,1,1}", "f32[1,1,1]{1}", "i64[2]{1,2}", NULL),
         "input 2 has 2 elements, wanted 1");
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
