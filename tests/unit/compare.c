/* compare.c -- comparisons, Where, Max and Min, Clip: odd types and values, and shape arithmetic.
 * SPDX-License-Identifier: Apache-2.0 */
#include "op_text.h"

#define SAME(call, wanted) assert_string_equal(call, wanted)

static void test_compare(void **state)
{
    (void)state;
    SAME(eval("Less", "", "u64[1,2]{18446744073709551615,1}", "u64[]{2}", NULL), "bool[1,2]{0,1}");
    SAME(eval("Greater", "", "i64[2]{9007199254740993,-1}", "i64[2]{9007199254740992,0}", NULL),
         "bool[2]{1,0}");
    SAME(eval("LessOrEqual", "", "f32[3]{nan,1,2}", "f32[3]{1,1,1}", NULL), "bool[3]{0,1,0}");
    SAME(eval("GreaterOrEqual", "", "f16[2]{-0,2}", "f16[2]{0,nan}", NULL), "bool[2]{1,0}");
    SAME(eval("Equal", "", "str[2]{a,bc}", "str[1]{bc}", NULL), "bool[2]{0,1}");
    SAME(eval("Equal", "", "bool[2]{0,1}", "bool[2]{1,1}", NULL), "bool[2]{0,1}");
    SAME(infer("Equal", "", "i64[3]{s,2,-1}", "i64[1]{-1}", NULL), "bool[3]{0,0,1}");
    SAME(infer("Equal", "", "i64[1]{s}", "i64[1]{4}", NULL), "bool[1]");
    SAME(infer("Greater", "", "i64[2]{s + 1,5}", "i64[]{0}", NULL), "bool[2]{1,1}");
    SAME(infer("GreaterOrEqual", "", "i64[]{s}", "i64[]{0}", NULL), "bool[]{1}");
    SAME(infer("Less", "", "i64[]{s}", "i64[]{0}", NULL), "bool[]{0}");
}

/* How exporters write x.expand(-1, 4): -1 keeps the size. */
static void test_expand_idiom(void **state)
{
    (void)state;
    const char *ones = infer("Abs", "", "i64[2]{1,1}", NULL);
    const char *minus = infer("Mul", "", ones, "i64[]{-1}", NULL);
    SAME(minus, "i64[2]{-1,-1}");
    SAME(infer("Equal", "", "i64[2]{s,-1}", minus, NULL), "bool[2]{0,1}");
    SAME(infer("Where", "", "bool[2]{0,1}", ones, "i64[2]{s,-1}", NULL), "i64[2]{s,1}");
}

static void test_where(void **state)
{
    (void)state;
    SAME(eval("Where", "", "bool[2,1]{1,0}", "str[2]{a,b}", "str[]{z}", NULL), "str[2,2]{a,b,z,z}");
    SAME(eval("Where", "", "bool[2]{1,0}", "c64[]{1:2}", "c64[2]{3:4,5:6}", NULL),
         "c64[2]{1:2,5:6}");
    SAME(eval("Where", "", "bool[]{0}", "i4[2]{1,2}", "i4[2]{-8,7}", NULL), "i4[2]{-8,7}");
    SAME(infer("Where", "", "bool[b,1]", "f32[s]", "f32[]", NULL), "f32[b,s]");
    SAME(infer("Where", "", "bool[1]", "i64[1]{s}", "i64[1]{s}", NULL), "i64[1]");
}

static void test_extremes(void **state)
{
    (void)state;
    SAME(eval("Max", "", "f32[3]{nan,1,2}", "f32[3]{1,nan,1}", NULL), "f32[3]{nan,nan,2}");
    SAME(eval("Min", "", "u64[1,1]{18446744073709551615}", "u64[]{3}", NULL), "u64[1,1]{3}");
    SAME(eval("Max", "", "i8[2]{-5,5}", "i8[]{0}", "i8[2]{-9,9}", NULL), "i8[2]{0,9}");
    SAME(eval("Mean", "", "f16[1]{65504}", "f16[1]{65504}", NULL), "f16[1]{65504}");
    SAME(eval("Sum", "", "f64[2]{1,2}", NULL), "f64[2]{1,2}");
    SAME(infer("Max", "", "i64[1]{s}", "i64[1]{s}", NULL), "i64[1]{s}");
    SAME(infer("Min", "", "i64[1]{4}", "i64[1]{3}", NULL), "i64[1]{3}");
    SAME(infer("Max", "", "f32[b]", "f32[2,1]", "f32[*]", NULL), "f32[*]");
}

static void test_clip(void **state)
{
    (void)state;
    SAME(eval("Clip", "", "f32[4]{nan,-5,0,5}", "f32[]{-1}", "f32[]{1}", NULL),
         "f32[4]{nan,-1,0,1}");
    SAME(eval("Clip", "", "f32[2]{0,9}", "f32[]{3}", "f32[]{1}", NULL), "f32[2]{1,1}");
    SAME(eval("Clip", "", "u64[1,2]{18446744073709551615,1}", "-", "u64[]{7}", NULL),
         "u64[1,2]{7,1}");
    SAME(eval("Clip", "", "i8[2]{-128,127}", "i8[1]{-3}", NULL), "i8[2]{-3,127}");
    SAME(infer("Clip", "", "f32[b]", "f32[2]", NULL),
         "min has rank 1 and 2 at axis 0, wanted a scalar");
    SAME(infer("Clip", "", "i64[2]{5,-2}", "i64[]{0}", "i64[]{3}", NULL), "i64[2]{3,0}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEXT_TEST(test_compare),  OP_TEXT_TEST(test_expand_idiom), OP_TEXT_TEST(test_where),
        OP_TEXT_TEST(test_extremes), OP_TEXT_TEST(test_clip),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
