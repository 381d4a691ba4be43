/* scatter.c -- reductions of odd types, equal indices, and refusals
 * SPDX-License-Identifier: Apache-2.0 */
#include "op_text.h"

static void test_elements(void **state)
{
    (void)state;
    SAME(eval("ScatterElements", "reduction=add", "i8[2]{127,1}", "i64[3]{0,0,1}", "i8[3]{1,1,5}",
              NULL),
         "i8[2]{-127,6}");
    SAME(eval("ScatterElements", "reduction=max", "u64[1]{1}", "i64[1]{0}",
              "u64[1]{18446744073709551615}", NULL),
         "u64[1]{18446744073709551615}");
    SAME(eval("ScatterElements", "reduction=min", "f32[2]{1,nan}", "i64[2]{0,1}", "f32[2]{nan,1}",
              NULL),
         "f32[2]{nan,nan}");
    SAME(eval("ScatterElements", "reduction=mul", "c64[1]{1:1}", "i64[1]{0}", "c64[1]{2:3}", NULL),
         "c64[1]{-1:5}");
    SAME(eval("ScatterElements", "reduction=add", "bool[2]{1,0}", "i64[2]{0,1}", "bool[2]{1,0}",
              NULL),
         "bool[2]{1,0}");
    SAME(eval("ScatterElements", "axis=-1", "str[1,3]{a,b,c}", "i32[1,2]{-1,-1}", "str[1,2]{x,y}",
              NULL),
         "str[1,3]{a,b,y}");
    SAME(eval("ScatterND", "reduction=mul", "i64[2,2]{1,2,3,4}", "i64[2,1]{1,1}",
              "i64[2,2]{2,2,3,3}", NULL),
         "i64[2,2]{1,2,18,24}");
}

static void test_tensor_scatter(void **state)
{
    (void)state;
    SAME(eval("TensorScatter", "axis=1", "i32[1,3,1]{1,2,3}", "i32[1,2,1]{8,9}", "i64[1]{1}", NULL),
         "i32[1,3,1]{1,8,9}");
    SAME(eval("TensorScatter", "axis=1 mode=circular", "i32[1,3,1]{1,2,3}", "i32[1,2,1]{8,9}",
              "i64[1]{9223372036854775807}", NULL),
         "i32[1,3,1]{1,8,9}");
    SAME(eval("TensorScatter", "axis=1", "i32[1,3,1]{1,2,3}", "i32[1,2,1]{8,9}", "i64[1]{2}", NULL),
         "write_indices[0] is 2: 2 entries do not fit a cache of 3");
    SAME(infer("TensorScatter", "", "f16[b,8,64,d]", "f16[b,8,s,d]", NULL), "f16[b,8,64,d]");
    SAME(infer("TensorScatter", "axis=0", "f16[4,4]", "f16[4,4]", NULL),
         "axis 0 is the batch axis");
}

static void test_refusals(void **state)
{
    (void)state;
    SAME(infer("ScatterElements", "reduction=add", "str[1]", "i64[1]", "str[1]", NULL),
         "reduction add is not defined for str");
    SAME(infer("ScatterND", "reduction=sum", "f32[1]", "i64[1,1]", "f32[1]", NULL),
         "reduction is 'sum', wanted none, add, mul, max or min");
    SAME(infer("ScatterND", "", "f32[b,3]", "i64[q,1]", "f32[q,4]", NULL),
         "an axis of updates: found 4, wanted 3");
    SAME(eval("ScatterND", "", "f32[2]{1,2}", "i64[1,1]{2}", "f32[1]{5}", NULL),
         "index 2 at position 0 is out of range for axis 0 of size 2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEXT_TEST(test_elements),
        OP_TEXT_TEST(test_tensor_scatter),
        OP_TEXT_TEST(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
