/* split.c -- parts of numbers and of symbols
 * SPDX-License-Identifier: Apache-2.0 */
#include "op_text.h"

static void test_shapes(void **state)
{
    (void)state;
    op_text_n_out = 2;
    SAME(infer("Split", "axis=1", "f32[b,s]", "i64[2]{1,s-1}", NULL), "f32[b,1]; f32[b,s - 1]");
    SAME(infer("Split", "num_outputs=2", "f32[2*s]", NULL), "f32[s]; f32[s]");
    SAME(infer("Split", "num_outputs=2", "f32[s]", NULL),
         "f32[floor((s + 1)/2)]; f32[s - floor((s + 1)/2)]");
    SAME(infer("Split", "", "f32[4]", "i64[2]", NULL), "f32[t.part_0]; f32[t.part_1]");
    SAME(infer("Split", "", "i64[3]{a,b,7}", "i64[2]{1,2}", NULL), "i64[1]{a}; i64[2]{b,7}");
    op_text_n_out = 3;
    SAME(infer("Split", "num_outputs=3", "f32[7]", NULL), "f32[3]; f32[3]; f32[1]");
    SAME(infer("Split", "num_outputs=3", "f32[4]", NULL), "f32[2]; f32[2]; f32[0]");
    SAME(infer("Split", "num_outputs=3", "f32[*]", NULL), "f32[*]; f32[*]; f32[*]");
}

static void test_refusals(void **state)
{
    (void)state;
    op_text_n_out = 2;
    SAME(infer("Split", "", "f32[4]", "i64[2]{1,2}", NULL), "sum of split: found 3, wanted 4");
    SAME(infer("Split", "", "f32[4]", "i64[2]{5,-1}", NULL), "split holds -1, wanted sizes >= 0");
    SAME(infer("Split", "", "f32[4]", "i64[3]{1,1,2}", NULL), "split has 3 entries for 2 outputs");
    SAME(infer("Split", "num_outputs=2", "f32[4]", "i64[2]{2,2}", NULL),
         "both split and num_outputs are given, wanted one");
    SAME(infer("Split", "num_outputs=1", "f32[4]", NULL),
         "num_outputs is 1, but there are 2 outputs");
    eval("Split", "", "f32[2]{1,2}", "i64[2]{4611686018427387904,4611686018427387904}", NULL);
    assert_int_equal(op_text_status, CM_ERR_MODEL);
}

static void test_elements(void **state)
{
    (void)state;
    op_text_n_out = 3;
    SAME(eval("Split", "axis=1 num_outputs=3", "u8[2,5]{1,2,3,4,5,6,7,8,9,10}", NULL),
         "u8[2,2]{1,2,6,7}; u8[2,2]{3,4,8,9}; u8[2,1]{5,10}");
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
