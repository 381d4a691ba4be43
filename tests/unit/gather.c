/* gather.c -- picked elements, of shapes too, and indices out of range
 * SPDX-License-Identifier: Apache-2.0 */
#include "op_text.h"

static void test_shapes(void **state)
{
    (void)state;
    SAME(infer("Gather", "axis=1", "f32[b,s,3]", "i64[q,2]", NULL), "f32[b,q,2,3]");
    SAME(infer("Gather", "", "i64[3]{a,b,3}", "i64[2]{-1,0}", NULL), "i64[2]{3,a}");
    SAME(infer("Gather", "", "i64[3]{a,b,3}", "i64[]{1}", NULL), "i64[]{b}");
    SAME(infer("Gather", "", "i64[3]{a,b,3}", "i64[1,1]{1}", NULL), "i64[1,1]{b}");
    SAME(infer("Gather", "", "f32[]", "i64[1]", NULL), "axis 0 is out of range for rank 0");
    SAME(infer("Gather", "", "f32[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]",
               "i64[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", NULL),
         "the output has rank 33, the most is 32");
    SAME(infer("GatherElements", "axis=1", "f32[b,3]", "i64[b,q]", NULL), "f32[b,q]");
    SAME(infer("GatherElements", "", "f32[2,3]", "i64[2]", NULL),
         "indices has rank 1, wanted 2 as the data");
    SAME(infer("GatherElements", "", "f32[2,3]", "i64[2,4]", NULL),
         "axis 1 of indices has size 4, the data only 3");
    SAME(infer("GatherND", "batch_dims=1", "f32[b,s,3]", "i64[b,q,1]", NULL), "f32[b,q,3]");
    SAME(infer("GatherND", "", "f32[b,s,3]", "i64[q,k]", NULL), "f32[*]");
    SAME(infer("GatherND", "", "f32[2]", "i64[1,2]", NULL),
         "indices hold tuples of 2, wanted 1 to 1 for the data's rank");
    SAME(infer("GatherND", "batch_dims=1", "f32[2]", "i64[2,1]", NULL),
         "batch_dims=1 for data of rank 1, indices of rank 2");
}

static void test_elements(void **state)
{
    (void)state;
    SAME(eval("Gather", "axis=1", "str[2,2]{a,b,c,d}", "i32[1]{-1}", NULL), "str[2,1]{b,d}");
    SAME(eval("Gather", "", "i4[3]{1,-2,3}", "i64[2]{1,1}", NULL), "i4[2]{-2,-2}");
    SAME(eval("Gather", "", "f32[0,2]{}", "i64[0]{}", NULL), "f32[0,2]{}");
    SAME(eval("GatherElements", "axis=1", "u8[2,2]{1,2,3,4}", "i64[2,1]{1,-2}", NULL),
         "u8[2,1]{2,3}");
    SAME(eval("GatherND", "", "c128[2]{1:2,3:4}", "i64[1,1]{-1}", NULL), "c128[1]{3:4}");
}

static void test_out_of_range(void **state)
{
    (void)state;
    SAME(eval("Gather", "axis=1", "f32[1,3]{1,2,3}", "i64[2]{0,3}", NULL),
         "index 3 at position 1 is out of range for axis 1 of size 3");
    assert_int_equal(op_text_status, CM_ERR_DATA);
    SAME(eval("GatherElements", "", "f32[2]{1,2}", "i64[1]{-3}", NULL),
         "index -3 at position 0 is out of range for axis 0 of size 2");
    SAME(eval("GatherND", "", "f32[2,2]{1,2,3,4}", "i64[1,2]{0,9223372036854775807}", NULL),
         "index 9223372036854775807 at position 1 is out of range for axis 1 of size 2");
    SAME(eval("Gather", "", "f32[0]{}", "i64[1]{0}", NULL),
         "index 0 at position 0 is out of range for axis 0 of size 0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEXT_TEST(test_shapes),
        OP_TEXT_TEST(test_elements),
        OP_TEXT_TEST(test_out_of_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
