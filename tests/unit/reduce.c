/* reduce.c -- reductions, their positions, and running sums.
 * SPDX-License-Identifier: Apache-2.0 */
#include "op_text.h"

#define SAME(call, wanted) assert_string_equal(call, wanted)

static void test_empty(void **state)
{
    (void)state;
    SAME(eval("ReduceMax", "keepdims=0", "f32[2,0]{}", "i64[1]{1}", NULL), "f32[2]{-inf,-inf}");
    SAME(eval("ReduceMin", "", "u8[0]{}", NULL), "u8[1]{255}");
    SAME(eval("ReduceMax", "", "i32[0]{}", NULL), "i32[1]{-2147483648}");
    SAME(eval("ReduceMin", "", "bool[0]{}", NULL), "bool[1]{1}");
    SAME(eval("ReduceSum", "", "i64[0,3]{}", "i64[1]{0}", NULL), "i64[1,3]{0,0,0}");
    SAME(eval("ReduceProd", "", "f32[0]{}", NULL), "f32[1]{1}");
    SAME(eval("ReduceLogSumExp", "", "f32[0]{}", NULL), "f32[1]{-inf}");
    SAME(eval("ReduceLogSum", "", "f32[0]{}", NULL), "f32[1]{-inf}");
    SAME(eval("ReduceL2", "", "f32[0]{}", NULL), "f32[1]{0}");
    SAME(eval("ReduceMax", "", "f32[0,2]{}", "i64[1]{1}", NULL), "f32[0,1]{}");
}

static void test_values(void **state)
{
    (void)state;
    SAME(eval("ReduceSum", "", "i32[2,2,2]{1,2,3,4,5,6,7,8}", "i64[2]{0,2}", NULL),
         "i32[1,2,1]{14,22}");
    SAME(eval("ReduceSum", "keepdims=0", "i32[2,2,2]{1,2,3,4,5,6,7,8}", "i64[1]{-2}", NULL),
         "i32[2,2]{4,6,12,14}");
    SAME(eval("ReduceSum", "", "i32[2]{2147483647,1}", NULL), "i32[1]{-2147483648}");
    SAME(eval("ReduceMean", "", "i64[1,2]{9223372036854775807,9223372036854775805}", NULL),
         "i64[1,1]{9223372036854775806}");
    SAME(eval("ReduceMean", "", "i32[3]{-1,-1,-3}", NULL), "i32[1]{-1}");
    SAME(eval("ReduceMax", "", "u64[1,2]{18446744073709551615,1}", NULL),
         "u64[1,1]{18446744073709551615}");
    SAME(eval("ReduceMax", "", "f32[3]{1,nan,2}", NULL), "f32[1]{nan}");
    SAME(eval("ReduceMax", "keepdims=0", "bool[3]{0,1,0}", NULL), "bool[]{1}");
    SAME(eval("ReduceLogSumExp", "", "f32[2]{1000,1000}", NULL), "f32[1]{1000.69}");
    SAME(eval("ReduceLogSumExp", "keepdims=0", "f64[2,2]{-inf,inf,-inf,0}", "i64[1]{0}", NULL),
         "f64[2]{-inf,inf}");
    SAME(eval("ReduceL1", "", "i32[3]{-1,2,-3}", NULL), "i32[1]{6}");
    SAME(eval("ReduceL2", "", "i32[2]{3,4}", NULL), "i32[1]{5}");
    SAME(eval("ReduceSumSquare", "", "f16[2]{100,100}", NULL), "f16[1]{20000}");
    SAME(eval("ReduceSumSquare", "noop_with_empty_axes=1", "f32[2]{3,4}", NULL), "f32[2]{9,16}");
    SAME(eval("ReduceSum", "", "f32[]{7}", NULL), "f32[]{7}");
    SAME(eval("ReduceProd", "", "f32[2,3]{1,2,3,4,5,6}", "i64[0]{}", NULL), "f32[1,1]{720}");
}

static void test_rules(void **state)
{
    (void)state;
    SAME(infer("ReduceMean", "", "f32[b,s,64]", "i64[1]{-1}", NULL), "f32[b,s,1]");
    SAME(infer("ReduceMean", "keepdims=0", "f32[b,s,64]", "i64[2]{0,2}", NULL), "f32[s]");
    SAME(infer("ReduceMean", "noop_with_empty_axes=1", "f32[b,s]", NULL), "f32[b,s]");
    SAME(infer("ReduceMean", "keepdims=0", "f32[*]", NULL), "f32[]");
    SAME(infer("ReduceMean", "", "f32[b,s]", "i64[1]", NULL), "f32[t.0_0,t.1_1]");
    SAME(infer("ReduceMean", "keepdims=0", "f32[b,s]", "i64[n]", NULL), "f32[*]");
    SAME(infer("ReduceMean", "", "f32[b,s]", "i64[1]{2}", NULL),
         "axis 2 is out of range for rank 2");
    SAME(infer("ReduceMean", "", "f32[b,s]", "i64[2]{1,-1}", NULL), "axis -1 is listed twice");
    SAME(infer("ReduceProd", "keepdims=0", "i64[3]{b,2,s}", NULL), "i64[]{2*b*s}");
    SAME(infer("ReduceSum", "", "i64[2]{b,2}", "i64[1]{0}", NULL), "i64[1]{b + 2}");
    SAME(infer("ReduceMax", "", "i64[2]{7,2}", NULL), "i64[1]{7}");
}

static void test_positions(void **state)
{
    (void)state;
    SAME(eval("ArgMax", "axis=1 keepdims=0", "f32[2,3]{1,3,3,nan,9,nan}", NULL), "i64[2]{1,0}");
    SAME(eval("ArgMax", "axis=-1 select_last_index=1", "f32[2,3]{1,3,3,nan,9,nan}", NULL),
         "i64[2,1]{2,2}");
    SAME(eval("ArgMin", "", "u64[2,2]{18446744073709551615,1,3,1}", NULL), "i64[1,2]{1,0}");
    SAME(eval("ArgMin", "select_last_index=1", "i8[2,2]{1,1,1,-1}", NULL), "i64[1,2]{1,1}");
    SAME(eval("ArgMax", "", "f32[0,2]{}", NULL), "axis 0 is empty: it has no extreme element");
    SAME(eval("ArgMax", "axis=1", "f32[0,2]{}", NULL), "i64[0,1]{}");
    SAME(infer("ArgMax", "axis=3", "f32[b,s]", NULL), "axis 3 is out of range for rank 2");
    SAME(infer("ArgMax", "axis=-2 keepdims=0", "f32[b,s]", NULL), "i64[s]");
}

static void test_running(void **state)
{
    (void)state;
    SAME(eval("CumSum", "", "i32[2,3]{1,2,3,4,5,6}", "i64[]{0}", NULL), "i32[2,3]{1,2,3,5,7,9}");
    SAME(eval("CumSum", "exclusive=1 reverse=1", "i32[3]{1,2,3}", "i32[1]{-1}", NULL),
         "i32[3]{5,3,0}");
    SAME(eval("CumProd", "exclusive=1", "f32[3]{1,2,3}", "i64[]{0}", NULL), "f32[3]{1,1,2}");
    SAME(eval("CumProd", "reverse=1", "u64[3]{1,2,3}", "i64[]{0}", NULL), "u64[3]{6,6,3}");
    SAME(eval("CumSum", "", "f32[2]{1,2}", "i64[]{1}", NULL), "axis 1 is out of range for rank 1");
    SAME(eval("CumSum", "", "f32[0,2]{}", "i64[]{1}", NULL), "f32[0,2]{}");
    SAME(infer("CumSum", "", "f32[b]", "i64[2]", NULL), "axis is not a scalar");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEXT_TEST(test_empty),     OP_TEXT_TEST(test_values),  OP_TEXT_TEST(test_rules),
        OP_TEXT_TEST(test_positions), OP_TEXT_TEST(test_running),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
