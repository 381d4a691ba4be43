/* tile.c -- repetition and broadcasting, to hostile sizes too
 * SPDX-License-Identifier: Apache-2.0 */
#include "op_text.h"

static void test_shapes(void **state)
{
    (void)state;
    SAME(infer("Tile", "", "f32[b,3]", "i64[2]{2,n}", NULL), "f32[2*b,3*n]");
    SAME(infer("Tile", "", "i64[1]{s}", "i64[1]{3}", NULL), "i64[3]{s,s,s}");
    SAME(infer("Tile", "", "f32[b,3]", "i64[2]", NULL), "f32[t.size_0,t.size_1]");
    SAME(infer("Expand", "", "f32[b,1,3]", "i64[4]{2,1,s,1}", NULL), "f32[2,b,s,3]");
    SAME(infer("Expand", "", "f32[7,b]", "i64[3]", NULL), "f32[t.expanded_2,7,t.expanded_3]");
    SAME(infer("Expand", "", "f32[b]", "i64[n]", NULL), "f32[*]");
    SAME(infer("Expand", "", "i64[]{s}", "i64[1]{2}", NULL), "i64[2]{s,s}");
}

static void test_refusals(void **state)
{
    (void)state;
    SAME(infer("Tile", "", "f32[2]", "i64[1]{-1}", NULL), "repeats holds -1, wanted sizes >= 0");
    SAME(infer("Tile", "", "f32[2]", "i64[2]{1,1}", NULL),
         "repeats has 2 entries for an input of rank 1");
    SAME(infer("Expand", "", "f32[2]", "i64[1]{3}", NULL),
         "shapes do not broadcast: 2 against 3 at axis 1 from the right");
    SAME(infer("Expand", "", "f32[2]", "i64[1]{-1}", NULL), "shape holds -1, wanted sizes >= 0");
    eval("Expand", "", "f32[1]{1}", "i64[2]{1073741824,1073741824}", NULL);
    assert_int_not_equal(op_text_status, CM_OK);
    eval("Expand", "", "f32[1]{1}", "i64[2]{4611686018427387904,4}", NULL);
    assert_int_not_equal(op_text_status, CM_OK);
    eval("Tile", "", "f32[4]{1,2,3,4}", "i64[1]{4611686018427387904}", NULL);
    assert_int_not_equal(op_text_status, CM_OK);
}

static void test_elements(void **state)
{
    (void)state;
    SAME(eval("Tile", "", "str[1,2]{a,b}", "i64[2]{2,2}", NULL), "str[2,4]{a,b,a,b,a,b,a,b}");
    SAME(eval("Tile", "", "f32[2]{1,2}", "i64[1]{0}", NULL), "f32[0]{}");
    SAME(eval("Expand", "", "i4[2,1]{-1,2}", "i64[2]{1,2}", NULL), "i4[2,2]{-1,-1,2,2}");
    SAME(eval("Expand", "", "f32[]{3}", "i64[0]{}", NULL), "f32[]{3}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEXT_TEST(test_shapes),
        OP_TEXT_TEST(test_refusals),
        OP_TEXT_TEST(test_elements),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
