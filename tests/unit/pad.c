/* pad.c -- every mode, several times around, and symbolic pads
 * SPDX-License-Identifier: Apache-2.0 */
#include "op_text.h"
#include "ops/move/borders.h"
#include "ops/problem.h"

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

/* The sources of i up to `last` are the constant, or go by one step. */
static bool is_straight(cm_pad_mode mode, int64_t i, int64_t last, int64_t n)
{
    int64_t step = last > i ? cm_pad_source(mode, i + 1, n) - cm_pad_source(mode, i, n) : 0;
    bool constant = cm_pad_source(mode, i, n) < 0, is = step >= -1 && step <= 1;
    for (int64_t k = i + 1; k <= last; k++) {
        int64_t from = cm_pad_source(mode, k, n);
        is = is && (from < 0) == constant && from - cm_pad_source(mode, k - 1, n) == step;
    }
    return is;
}

static void test_straight_parts(void **state)
{
    (void)state;
    enum { FAR = 20 };
    for (cm_pad_mode mode = 0; mode < CM_PAD_MODES; mode++)
        for (int64_t n = mode == CM_PAD_CONSTANT ? -1 : 1; n < 6; n++)
            for (int64_t i = -FAR; i < FAR; i++) {
                int64_t last = cm_pad_straight(mode, i, n);
                assert_true(last >= i);
                assert_true(is_straight(mode, i, last < FAR ? last : FAR, n));
                assert_false(last > i && last < FAR && is_straight(mode, i, last + 1, n));
            }
}

/* A plan may say any size: what it costs to describe one must not grow with it. */
static void test_huge_axis_is_described_at_once(void **state)
{
    (void)state;
    static const char *const modes[] = {"mode=constant", "mode=edge"};
    enum { HUGE = 40 };
    for (int m = 0; m < 2; m++) {
        const cm_op *op = cm_op_find("Pad");
        int64_t pads[2] = {(int64_t)1 << HUGE, (int64_t)1 << HUGE},
                sizes[3] = {3, 2, 3 + 2 * pads[0]};
        float data = 0;
        cm_tensor t[3];
        cm_dtype types[3] = {CM_F32, CM_I64, CM_F32};
        for (int i = 0; i < 3; i++)
            assert_true(cm_tensor_shape(&t[i], types[i], 1, &sizes[i]));
        t[0].data = &data;
        t[1].data = pads;
        const cm_tensor *in[2] = {&t[0], &t[1]};
        const cm_tensor *out[1] = {&t[2]};
        cm_problem p = {.in = in, .n_in = 2, .out = out, .n_out = 1};
        assert_true(cm_problem_find(op)->fill(&op_text_arena, op, op_text_attrs(op, modes[m]), &p));
        assert_int_equal(p.as.move.n_pieces, 3);
        assert_int_equal(p.as.move.cuts[0].segments[2].n, pads[0]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEXT_TEST(test_shapes),         OP_TEXT_TEST(test_modes),
        OP_TEXT_TEST(test_refusals),       OP_TEXT_TEST(test_exported_pads),
        OP_TEXT_TEST(test_straight_parts), OP_TEXT_TEST(test_huge_axis_is_described_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
