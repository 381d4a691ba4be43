/* cast.c -- casts between all kinds of types, out of range, to text and back.
 * SPDX-License-Identifier: Apache-2.0 */
#include "op_text.h"

#define SAME(call, wanted) assert_string_equal(call, wanted)

static void test_integers(void **state)
{
    (void)state;
    SAME(eval("Cast", "to=3", "i16[2]{200,-129}", NULL), "i8[2]{-56,127}");
    SAME(eval("Cast", "to=22", "i32[3]{8,-9,7}", NULL), "i4[3]{-8,7,7}");
    SAME(eval("Cast", "to=25", "i32[3]{5,-1,2}", NULL), "u2[3]{1,3,2}");
    SAME(eval("Cast", "to=9", "i32[3]{256,0,-1}", NULL), "bool[3]{1,0,1}");
    SAME(eval("Cast", "to=1", "u64[1,1]{18446744073709551615}", NULL), "f32[1,1]{1.84467e+19}");
    SAME(eval("Cast", "to=10", "i64[2]{65519,65520}", NULL), "f16[2]{65504,inf}");
    SAME(eval("Cast", "to=16", "u64[1,1]{4311744513}", NULL), "bf16[1,1]{4.32852e+09}");
}

static void test_floats(void **state)
{
    (void)state;
    SAME(eval("Cast", "to=6", "f32[5]{1.9,-1.9,3e9,-3e9,nan}", NULL),
         "i32[5]{1,-1,-2147483648,-2147483648,-2147483648}");
    SAME(eval("Cast", "to=2", "f32[4]{300,-1,nan,1e20}", NULL), "u8[4]{44,255,0,0}");
    SAME(eval("Cast", "to=12", "f64[2]{4294967296.5,-1}", NULL), "u32[2]{0,4294967295}");
    SAME(eval("Cast", "to=13", "f64[3]{1e19,-1,inf}", NULL),
         "u64[3]{10000000000000000000,18446744073709551615,0}");
    SAME(eval("Cast", "to=9", "f32[3]{nan,-0,0.1}", NULL), "bool[3]{1,0,1}");
    SAME(eval("Cast", "to=17", "f32[4]{1000,-inf,nan,448}", NULL), "f8e4m3fn[4]{448,-448,nan,448}");
    SAME(eval("Cast", "to=17 saturate=0", "f32[2]{1000,449}", NULL), "f8e4m3fn[2]{nan,448}");
    SAME(eval("Cast", "to=19 saturate=0", "f32[2]{1e6,-inf}", NULL), "f8e5m2[2]{inf,-inf}");
    SAME(eval("Cast", "to=24", "f32[4]{0,1.1,inf,3}", NULL),
         "f8e8m0[4]{5.87747e-39,2,1.70141e+38,4}");
    SAME(eval("Cast", "to=24 round_mode=down", "f32[2]{1.9,4}", NULL), "f8e8m0[2]{1,4}");
    SAME(eval("Cast", "to=24 round_mode=nearest saturate=0", "f32[4]{1.4,1.5,0,inf}", NULL),
         "f8e8m0[4]{1,2,nan,nan}");
    SAME(eval("Cast", "to=23", "f32[4]{2.5,100,-0.2,5}", NULL), "f4e2m1[4]{2,6,-0,4}");
    SAME(eval("Cast", "to=14", "f32[1]{1.5}", NULL), "c64[1]{1.5:0}");
    SAME(eval("Cast", "to=7", "c128[1]{2.5:9}", NULL), "i64[1]{2}");
    SAME(eval("CastLike", "", "f32[1]{2.5}", "i8[0]{}", NULL), "i8[1]{2}");
}

static void test_text(void **state)
{
    (void)state;
    SAME(eval("Cast", "to=8", "f32[7]{0.1,1,-0,1e-5,1e16,inf,123456}", NULL),
         "str[7]{0.1,1.0,-0.0,1e-05,1e+16,inf,123456.0}");
    SAME(eval("Cast", "to=8", "f64[3]{0.1,3.14159265358979,0.0001}", NULL),
         "str[3]{0.1,3.14159265358979,0.0001}");
    SAME(eval("Cast", "to=8", "f16[2]{0.1,65504}", NULL), "str[2]{0.1,65500.0}");
    SAME(eval("Cast", "to=8", "u64[1,1]{18446744073709551615}", NULL),
         "str[1,1]{18446744073709551615}");
    SAME(eval("Cast", "to=8", "bool[2]{0,1}", NULL), "str[2]{False,True}");
    SAME(eval("Cast", "to=1", "str[6]{+INF,-inf,nan,1e-5, 2.5,-3}", NULL),
         "f32[6]{inf,-inf,nan,1e-05,2.5,-3}");
    SAME(eval("Cast", "to=7", "str[3]{9007199254740993,100.5,-7}", NULL),
         "i64[3]{9007199254740993,100,-7}");
    SAME(eval("Cast", "to=7", "str[1]{Hello}", NULL), "\"Hello\" (element 0) is not a number");
    assert_int_equal(op_text_status, CM_ERR_DATA);
    SAME(eval("Cast", "to=9", "str[3]{True,false,2}", NULL), "bool[3]{1,0,1}");
    SAME(eval("Cast", "to=8", "str[1]{x}", NULL), "str[1]{x}");
}

static void test_bits(void **state)
{
    (void)state;
    SAME(eval("BitCast", "to=6", "f32[2]{1,-0}", NULL), "i32[2]{1065353216,-2147483648}");
    SAME(eval("BitCast", "to=21", "i4[2]{-8,7}", NULL), "u4[2]{8,7}");
    SAME(eval("BitCast", "to=22", "f4e2m1[2]{-6,6}", NULL), "i4[2]{-1,7}");
    SAME(infer("BitCast", "to=7", "f32[b]", NULL),
         "f32 has 32 bits and i64 has 64, wanted as many");
}

static void test_rules(void **state)
{
    (void)state;
    SAME(infer("Cast", "to=6", "i64[2]{s,-1}", NULL), "i32[2]{s,-1}");
    SAME(infer("Cast", "to=6", "i64[1]{4294967296}", NULL), "i32[1]");
    SAME(infer("Cast", "to=1", "i64[b]", NULL), "f32[b]");
    SAME(infer("Cast", "to=99", "i64[b]", NULL), "to is 99, which names no element type");
    SAME(infer("Cast", "to=1 round_mode=sideways", "i64[b]", NULL),
         "round_mode is \"sideways\", wanted \"up\", \"down\" or \"nearest\"");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEXT_TEST(test_integers), OP_TEXT_TEST(test_floats), OP_TEXT_TEST(test_text),
        OP_TEXT_TEST(test_bits),     OP_TEXT_TEST(test_rules),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
