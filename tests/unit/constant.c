/* constant.c -- constants in every form, ranges and their lengths
 * SPDX-License-Identifier: Apache-2.0 */
#include "op_text.h"

static void test_constant(void **state)
{
    (void)state;
    SAME(infer("Constant", "value_ints=1,-2", NULL), "i64[2]{1,-2}");
    SAME(infer("Constant", "value=i32[]{7}", NULL), "i32[]{7}");
    SAME(eval("Constant", "value_float=1.5", NULL), "f32[]{1.5}");
    SAME(eval("Constant", "value_string=abc", NULL), "str[]{abc}");
    SAME(infer("Constant", "", NULL), "0 of the value attributes are given, wanted one");
    SAME(infer("Constant", "value_int=1 value_float=2", NULL),
         "2 of the value attributes are given, wanted one");
}

static void test_constant_of_shape(void **state)
{
    (void)state;
    SAME(infer("ConstantOfShape", "", "i64[2]{b,3}", NULL), "f32[b,3]");
    SAME(infer("ConstantOfShape", "value=i64[1]{-1}", "i64[1]{2}", NULL), "i64[2]{-1,-1}");
    SAME(infer("ConstantOfShape", "", "i64[2]", NULL), "f32[t.size_0,t.size_1]");
    SAME(infer("ConstantOfShape", "", "i64[n]", NULL), "f32[*]");
    SAME(infer("ConstantOfShape", "", "i64[1]{-1}", NULL), "the shape holds -1, wanted sizes >= 0");
    SAME(infer("ConstantOfShape", "value=f32[2]{1,2}", "i64[1]{1}", NULL),
         "value has 2 elements, wanted 1");
    SAME(eval("ConstantOfShape", "value=str[1]{x}", "i64[1]{2}", NULL), "str[2]{x,x}");
    SAME(eval("ConstantOfShape", "", "i64[0]{}", NULL), "f32[]{0}");
    eval("ConstantOfShape", "", "i64[1]{4611686018427387904}", NULL);
    assert_int_not_equal(op_text_status, CM_OK);
}

static void test_range(void **state)
{
    (void)state;
    SAME(infer("Range", "", "i64[]{0}", "i64[]{s}", "i64[]{1}", NULL), "i64[s]");
    SAME(infer("Range", "", "i64[]{0}", "i64[]{s}", "i64[]{2}", NULL), "i64[floor((s + 1)/2)]");
    SAME(infer("Range", "", "i64[]{s}", "i64[]{0}", "i64[]{-1}", NULL), "i64[s]");
    SAME(infer("Range", "", "i64[]{1}", "i64[]{s}", "i64[]{1}", NULL), "i64[max(s - 1, 0)]");
    SAME(infer("Range", "", "i64[]{s}", "i64[]{s+2}", "i64[]{1}", NULL), "i64[2]{s,s + 1}");
    SAME(infer("Range", "", "i64[]", "i64[]{s}", "i64[]{1}", NULL), "i64[t.steps_0]");
    SAME(infer("Range", "", "f32[]{0}", "f32[]{1}", "f32[]{0.25}", NULL), "f32[4]");
    SAME(infer("Range", "", "i64[]{0}", "i64[]{1}", "i64[]{0}", NULL), "delta is 0");
    SAME(infer("Range", "", "f32[]{0}", "f32[]{inf}", "f32[]{1}", NULL),
         "from 0 to inf by 1 is not a finite range");
    SAME(infer("Range", "", "f32[]{0}", "f32[]{nan}", "f32[]{1}", NULL),
         "from 0 to nan by 1 is not a finite range");
    SAME(infer("Range", "", "i64[]{-9000000000000000000}", "i64[]{9000000000000000000}", "i64[]{1}",
               NULL),
         "from -9000000000000000000 to 9000000000000000000 by 1 is too long a range");
    SAME(eval("Range", "", "i16[]{5}", "i16[]{-1}", "i16[]{-2}", NULL), "i16[3]{5,3,1}");
    SAME(eval("Range", "", "f16[]{1}", "f16[]{2}", "f16[]{0.5}", NULL), "f16[2]{1,1.5}");
    SAME(eval("Range", "", "i32[]{1}", "i32[]{0}", "i32[]{1}", NULL), "i32[0]{}");
}

static void test_eye_like(void **state)
{
    (void)state;
    SAME(infer("EyeLike", "dtype=7", "f32[b,s]", NULL), "i64[b,s]");
    SAME(infer("EyeLike", "", "f32[b]", NULL), "the input has rank 1, wanted 2");
    SAME(infer("EyeLike", "dtype=8", "f32[b,b]", NULL), "dtype 8 is not a numeric type");
    SAME(eval("EyeLike", "k=-1", "bool[2,3]{0,0,0,0,0,0}", NULL), "bool[2,3]{0,0,0,1,0,0}");
    SAME(eval("EyeLike", "k=9223372036854775807", "f16[1,1]{0}", NULL), "f16[1,1]{0}");
    SAME(eval("EyeLike", "k=-9223372036854775808", "f16[1,1]{0}", NULL), "f16[1,1]{0}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEXT_TEST(test_constant),
        OP_TEXT_TEST(test_constant_of_shape),
        OP_TEXT_TEST(test_range),
        OP_TEXT_TEST(test_eye_like),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
