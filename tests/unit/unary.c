/* unary.c -- functions of one tensor: odd types, odd values, tracked elements.
 * SPDX-License-Identifier: Apache-2.0 */
#include "op_text.h"

#define SAME(call, wanted) assert_string_equal(call, wanted)

static void test_integers(void **state)
{
    (void)state;
    SAME(eval("Abs", "", "i8[3]{-128,-3,4}", NULL), "i8[3]{-128,3,4}");
    SAME(eval("Abs", "", "u64[1,1]{18446744073709551615}", NULL), "u64[1,1]{18446744073709551615}");
    SAME(eval("Neg", "", "i64[1,2]{-9223372036854775808,5}", NULL),
         "i64[1,2]{-9223372036854775808,-5}");
    SAME(eval("Sign", "", "u64[1,2]{18446744073709551615,0}", NULL), "u64[1,2]{1,0}");
    SAME(eval("Sign", "", "i16[3]{-7,0,9}", NULL), "i16[3]{-1,0,1}");
    SAME(eval("Relu", "", "i32[2]{-7,7}", NULL), "i32[2]{0,7}");
    SAME(eval("BitwiseNot", "", "u8[2]{0,200}", NULL), "u8[2]{255,55}");
    SAME(eval("Erf", "", "i32[3]{-9,0,9}", NULL), "i32[3]{-1,0,1}");
    SAME(eval("Shrink", "lambd=1.5 bias=1.5", "i32[5]{-3,-1,0,1,3}", NULL), "i32[5]{-1,0,0,0,1}");
    SAME(eval("Shrink", "lambd=1 bias=2", "i64[2]{9007199254740993,-9007199254740993}", NULL),
         "i64[2]{9007199254740991,-9007199254740991}");
    SAME(eval("Not", "", "bool[2]{0,1}", NULL), "bool[2]{1,0}");
}

static void test_floats(void **state)
{
    (void)state;
    SAME(eval("Round", "", "f32[5]{0.5,1.5,2.5,-0.5,-1.5}", NULL), "f32[5]{0,2,2,-0,-2}");
    SAME(eval("Relu", "", "f64[4]{nan,-1,-0,3}", NULL), "f64[4]{nan,0,0,3}");
    SAME(eval("Sign", "", "f16[3]{-inf,nan,0}", NULL), "f16[3]{-1,nan,0}");
    SAME(eval("IsInf", "detect_negative=0", "f8e5m2[4]{inf,-inf,nan,1}", NULL), "bool[4]{1,0,0,0}");
    SAME(eval("IsInf", "", "f32[3]{inf,-inf,nan}", NULL), "bool[3]{1,1,0}");
    SAME(eval("IsNaN", "", "bf16[3]{inf,nan,1}", NULL), "bool[3]{0,1,0}");
    SAME(eval("Gelu", "", "f32[4]{-inf,-40,0,40}", NULL), "f32[4]{0,-0,0,40}");
    SAME(eval("Gelu", "approximate=tanh", "f32[2]{0,40}", NULL), "f32[2]{0,40}");
    SAME(eval("Softplus", "", "f32[3]{-1000,0,1000}", NULL), "f32[3]{0,0.693147,1000}");
    SAME(eval("Sigmoid", "", "f64[4]{-800,-745,0,800}", NULL), "f64[4]{0,4.94066e-324,0.5,1}");
    SAME(eval("Mish", "", "f32[2]{-1000,1000}", NULL), "f32[2]{-0,1000}");
    SAME(eval("Exp", "", "f16[3]{11,12,-20}", NULL), "f16[3]{59872,inf,0}");
    SAME(eval("Sqrt", "", "f32[]{2.25}", NULL), "f32[]{1.5}");
    SAME(eval("Exp", "", "f32[0,3]{}", NULL), "f32[0,3]{}");
    SAME(eval("HardSwish", "", "f32[3]{-4,0,4}", NULL), "f32[3]{-0,0,4}");
}

static void test_rules(void **state)
{
    (void)state;
    SAME(infer("Exp", "", "f32[b,2*s]", NULL), "f32[b,2*s]");
    SAME(infer("Exp", "", "f32[*]", NULL), "f32[*]");
    SAME(infer("Neg", "", "i64[2]{s,-3}", NULL), "i64[2]{-s,3}");
    SAME(infer("Abs", "", "i64[2]{s,-3}", NULL), "i64[2]{s,3}");
    SAME(infer("Abs", "", "i64[1]{s - 3}", NULL), "i64[1]");
    SAME(infer("Gelu", "approximate=erf", "f32[2]", NULL),
         "approximate is \"erf\", wanted \"none\" or \"tanh\"");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEXT_TEST(test_integers),
        OP_TEXT_TEST(test_floats),
        OP_TEXT_TEST(test_rules),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
