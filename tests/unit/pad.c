/* pad.c -- every mode, several times around, and symbolic pads
 * SPDX-License-Identifier: Apache-2.0 */
#include "op_text.h"

static void test_shapes(void **state)
{
    (void)state;
    SAME(infer("Pad", "", "f32[b,s]", "i64[4]{0,1,0,2}", NULL), "f32[b,s + 3]");
    SAME(infer("Pad", "", "f32[b,s]", "i64[2]{p,0}", "-", "i64[1]{-1}", NULL), "f32[b,p + s]");
    SAME(infer("Pad", "", "f32[b,s]", "i64[2]", "-", "i64[1]{1}", NULL), "f32[b,t.padded_0]");
    SAME(infer("Pad", "", "f32[b,s]", "i64[4]{0,-1,0,0}", NULL), "f32[b,s - 1]");
    SAME(infer("CenterCropPad", "axes=-1", "f32[b,s]", "i64[1]{n}", NULL), "f32[b,n]");
    SAME(infer("CenterCropPad", "", "f32[b,s]", "i64[2]", NULL), "f32[t.cropped_1,t.cropped_2]");
}

static void test_modes(void **state)
{
    (void)state;
    SAME(eval("Pad", "mode=reflect", "i32[3]{1,2,3}", "i64[2]{5,6}", NULL),
         "i32[14]{2,1,2,3,2,1,2,3,2,1,2,3,2,1}");
    SAME(eval("Pad", "mode=reflect", "i32[1]{1}", "i64[2]{2,2}", NULL), "i32[5]{1,1,1,1,1}");
    SAME(eval("Pad", "mode=wrap", "i32[3]{1,2,3}", "i64[2]{5,4}", NULL),
         "i32[12]{2,3,1,2,3,1,2,3,1,2,3,1}");
    SAME(eval("Pad", "mode=edge", "str[2]{a,b}", "i64[2]{1,-1}", NULL), "str[2]{a,a}");
    SAME(eval("Pad", "", "i32[2,2]{1,2,3,4}", "i64[2]{1,-1}", "i32[]{9}", "i32[1]{-1}", NULL),
         "i32[2,2]{9,1,9,3}");
    SAME(eval("Pad", "", "str[1]{a}", "i64[2]{1,0}", NULL), "str[2]{,a}");
    SAME(eval("Pad", "", "f32[0]{}", "i64[2]{1,1}", NULL), "f32[2]{0,0}");
    SAME(eval("Pad", "", "f32[2]{1,2}", "i64[2]{-5,5}", NULL), "f32[2]{0,0}");
    SAME(eval("CenterCropPad", "", "i32[1,4]{1,2,3,4}", "i64[2]{2,3}", NULL),
         "i32[2,3]{1,2,3,0,0,0}");
}

static void test_refusals(void **state)
{
    (void)state;
    SAME(infer("Pad", "mode=mirror", "f32[2]", "i64[2]{1,1}", NULL),
         "mode is 'mirror', wanted constant, reflect, edge or wrap");
    SAME(infer("Pad", "", "f32[2]", "i64[3]{1,1,1}", NULL),
         "pads has 3 entries, wanted 2 for 1 axes");
    SAME(infer("Pad", "mode=edge", "f32[0]", "i64[2]{1,1}", NULL),
         "axis 0 of size 0 has nothing to pad with by 1 and 1");
    SAME(infer("Pad", "", "f32[2]", "i64[2]{-2,-1}", NULL), "size 0 of the output would be -1");
    eval("Pad", "", "f32[2]{1,2}", "i64[2]{-9223372036854775808,9223372036854775807}", NULL);
    assert_int_equal(op_text_status, CM_ERR_MODEL);
    eval("Pad", "", "f32[2]{1,2}", "i64[2]{0,1000000000000000000}", NULL);
    assert_int_not_equal(op_text_status, CM_OK);
}

/* Pads as PyTorch's exporter turns them around: pairs, last axis first. */
static void test_exported_pads(void **state)
{
    (void)state;
    const char *pairs = infer("Reshape", "", "i64[4]{p,1,q,2}", "i64[2]{-1,2}", NULL);
    SAME(pairs, "i64[2,2]{p,1,q,2}");
    const char *turned = infer("Slice", "", pairs, "i64[1]{-1}", "i64[1]{-9223372036854775807}",
                               "i64[1]{0}", "i64[1]{-1}", NULL);
    SAME(turned, "i64[2,2]{q,2,p,1}");
    const char *sides = infer("Transpose", "perm=1,0", turned, NULL);
    SAME(sides, "i64[2,2]{q,p,2,1}");
    const char *pads = infer("Reshape", "", sides, "i64[1]{-1}", NULL);
    SAME(infer("Pad", "", "f32[h,w]", pads, NULL), "f32[h + q + 2,p + w + 1]");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEXT_TEST(test_shapes),
        OP_TEXT_TEST(test_modes),
        OP_TEXT_TEST(test_refusals),
        OP_TEXT_TEST(test_exported_pads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
