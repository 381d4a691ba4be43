/* binary.c -- arithmetic of two tensors: wrapping, powers, broadcasting, shape arithmetic.
 * SPDX-License-Identifier: Apache-2.0 */
#include "op_text.h"

#define SAME(call, wanted) assert_string_equal(call, wanted)

static void test_integers(void **state)
{
    (void)state;
    SAME(eval("Add", "", "i8[2]{127,-128}", "i8[2]{1,-1}", NULL), "i8[2]{-128,127}");
    SAME(eval("Mul", "", "i64[1]{9223372036854775807}", "i64[]{2}", NULL), "i64[1]{-2}");
    SAME(eval("Sub", "", "u16[1]{0}", "u16[1]{1}", NULL), "u16[1]{65535}");
    SAME(eval("Div", "", "i32[4]{7,-7,7,-2147483648}", "i32[4]{2,2,-2,-1}", NULL),
         "i32[4]{3,-3,-3,-2147483648}");
    SAME(eval("Div", "", "i64[1,1]{-9223372036854775808}", "i64[1,1]{-1}", NULL),
         "i64[1,1]{-9223372036854775808}");
    SAME(eval("Div", "", "u64[1,1]{18446744073709551615}", "u64[1,1]{2}", NULL),
         "u64[1,1]{9223372036854775807}");
    SAME(eval("Div", "", "i32[2]{1,2}", "i32[2]{1,0}", NULL), "integer division by zero");
    assert_int_equal(op_text_status, CM_ERR_DATA);
    SAME(eval("Mod", "", "i32[4]{7,-7,7,-7}", "i32[4]{3,3,-3,-3}", NULL), "i32[4]{1,2,-2,-1}");
    SAME(eval("Mod", "fmod=1", "i32[4]{7,-7,7,-7}", "i32[4]{3,3,-3,-3}", NULL),
         "i32[4]{1,-1,1,-1}");
    SAME(eval("Mod", "", "i64[1,1]{-9223372036854775808}", "i64[1,1]{-1}", NULL), "i64[1,1]{0}");
    SAME(eval("Mod", "", "u8[1]{3}", "u8[1]{0}", NULL), "integer division by zero");
    SAME(eval("PRelu", "", "i32[2]{-3,3}", "i32[1]{5}", NULL), "i32[2]{-15,3}");
    SAME(eval("Xor", "", "bool[2,1]{0,1}", "bool[2]{0,1}", NULL), "bool[2,2]{0,1,1,0}");
}

static void test_shifts(void **state)
{
    (void)state;
    SAME(eval("BitShift", "direction=LEFT", "u8[3]{1,255,1}", "u8[3]{7,4,8}", NULL),
         "u8[3]{128,240,0}");
    SAME(eval("BitShift", "direction=RIGHT", "i8[4]{-128,-1,64,-5}", "i8[4]{7,100,6,-1}", NULL),
         "i8[4]{-1,-1,1,-1}");
    SAME(eval("BitShift", "direction=LEFT", "i32[3]{1,1,5}", "i32[3]{31,32,-1}", NULL),
         "i32[3]{-2147483648,0,0}");
    SAME(eval("BitShift", "direction=RIGHT", "u64[1]{9223372036854775807}", "u64[1]{62}", NULL),
         "u64[1]{1}");
    SAME(infer("BitShift", "direction=UP", "u8[1]", "u8[1]", NULL),
         "direction is \"UP\", wanted \"LEFT\" or \"RIGHT\"");
}

static void test_powers(void **state)
{
    (void)state;
    SAME(eval("Pow", "", "i32[4]{2,-3,-1,2}", "i32[4]{10,3,-3,-1}", NULL), "i32[4]{1024,-27,-1,0}");
    SAME(eval("Pow", "", "i64[1]{3}", "i64[1]{64}", NULL), "i64[1]{8733086111712066817}");
    SAME(eval("Pow", "", "i32[1]{0}", "i32[1]{-1}", NULL), "an integer 0 to a negative power");
    SAME(eval("Pow", "", "i64[2]{4,2}", "f32[2]{0.5,3}", NULL), "i64[2]{2,8}");
    SAME(eval("Pow", "", "f32[3]{2,-8,-8}", "i64[3]{-1,3,2}", NULL), "f32[3]{0.5,-512,64}");
    SAME(eval("Pow", "", "f32[3]{-8,0,nan}", "f32[3]{0.5,-1,0}", NULL), "f32[3]{nan,inf,1}");
}

static void test_floats(void **state)
{
    (void)state;
    SAME(eval("Mod", "", "f32[6]{5.5,-5.5,5,-0,1,-1}", "f32[6]{-2,2,inf,3,-inf,inf}", NULL),
         "f32[6]{-0.5,0.5,5,0,-inf,inf}");
    SAME(eval("Mod", "fmod=1", "f64[3]{5.5,-5.5,5}", "f64[3]{-2,2,inf}", NULL),
         "f64[3]{1.5,-1.5,5}");
    SAME(eval("Add", "", "f16[2]{2048,65504}", "f16[2]{1,16}", NULL), "f16[2]{2048,inf}");
    SAME(eval("Div", "", "f32[2]{1,-1}", "f32[]{0}", NULL), "f32[2]{inf,-inf}");
    SAME(infer("Mod", "fmod=2", "f32[1]", "f32[1]", NULL), "fmod is 2, wanted 0 or 1");
}

static void test_broadcast(void **state)
{
    (void)state;
    SAME(eval("Add", "", "i32[2,1,2]{1,2,3,4}", "i32[3,1]{10,20,30}", NULL),
         "i32[2,3,2]{11,12,21,22,31,32,13,14,23,24,33,34}");
    SAME(eval("Sub", "", "i32[]{5}", "i32[3]{1,2,3}", NULL), "i32[3]{4,3,2}");
    SAME(eval("Add", "", "f32[1,3]{1,2,3}", "f32[0,1]{}", NULL), "f32[0,3]{}");
    SAME(eval("Mul", "", "i8[2,1,2,1]{1,2,3,4}", "i8[1,2,1,2]{1,2,3,4}", NULL),
         "i8[2,2,2,2]{1,2,2,4,3,4,6,8,3,6,4,8,9,12,12,16}");
    SAME(infer("Add", "", "f32[b,1,s]", "f32[3,1]", NULL), "f32[b,3,s]");
    SAME(infer("Add", "", "f32[2]", "f32[3]", NULL),
         "shapes do not broadcast: 2 against 3 at axis 1 from the right");
    SAME(infer("PRelu", "", "f32[b,3,4]", "f32[3,1]", NULL), "f32[b,3,4]");
    SAME(infer("PRelu", "", "f32[1,4]", "f32[3,1]", NULL), "an axis of slope: found 3, wanted 1");
}

static void test_shape_arithmetic(void **state)
{
    (void)state;
    SAME(infer("Mul", "", "i64[2]{s,4}", "i64[]{2}", NULL), "i64[2]{2*s,8}");
    SAME(infer("Div", "", "i64[1]{6*s}", "i64[1]{2}", NULL), "i64[1]{3*s}");
    SAME(infer("Div", "", "i64[]{-7}", "i64[]{2}", NULL), "i64[]{-3}");
    SAME(infer("Div", "", "i64[]{s - 7}", "i64[]{2}", NULL), "i64[]");
    SAME(infer("Div", "", "i64[]{s}", "i64[]{0}", NULL), "i64[]");
    SAME(infer("Sub", "", "i64[2]{s,3}", "i64[2]{1,5}", NULL), "i64[2]{s - 1,-2}");
    SAME(infer("Mod", "", "i64[1]{4*s + 1}", "i64[1]{2}", NULL), "i64[1]{1}");
    SAME(infer("Add", "", "i32[1]{2147483647}", "i32[1]{1}", NULL), "i32[1]");
    SAME(infer("Add", "", "u8[1]{200}", "u8[1]{100}", NULL), "u8[1]");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEXT_TEST(test_integers),  OP_TEXT_TEST(test_shifts),
        OP_TEXT_TEST(test_powers),    OP_TEXT_TEST(test_floats),
        OP_TEXT_TEST(test_broadcast), OP_TEXT_TEST(test_shape_arithmetic),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
