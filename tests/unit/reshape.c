/* reshape.c -- Reshape and its kin with symbolic shapes, and shape arithmetic end to end.
 * SPDX-License-Identifier: Apache-2.0 */
#include "op_text.h"

static void test_reshape_symbolic(void **state)
{
    (void)state;
    SAME(infer("Reshape", "", "f32[b,3,4]", "i64[2]{0,-1}", NULL), "f32[b,12]");
    SAME(infer("Reshape", "", "f32[b,s,64]", "i64[4]{b,s,8,-1}", NULL), "f32[b,s,8,8]");
    SAME(infer("Reshape", "", "f32[b,s,64]", "i64[2]{-1,32}", NULL), "f32[2*b*s,32]");
    SAME(infer("Reshape", "", "f32[b]", "i64[3]", NULL), "f32[t.size_0,t.size_1,t.size_2]");
    SAME(infer("Reshape", "", "f32[b]", "i64[n]", NULL), "f32[*]");
    SAME(infer("Reshape", "", "f32[*]", "i64[2]{4,5}", NULL), "f32[4,5]");
    SAME(infer("Reshape", "", "i64[1]{s}", "i64[0]{}", NULL), "i64[]{s}");
    SAME(infer("Reshape", "", "f32[0,6]", "i64[2]{0,-1}", NULL), "f32[0,6]");
    SAME(infer("Reshape", "allowzero=1", "f32[2,0]", "i64[2]{0,7}", NULL), "f32[0,7]");
}

static void test_reshape_refusals(void **state)
{
    (void)state;
    SAME(infer("Reshape", "", "f32[2,3]", "i64[2]{-1,-1}", NULL),
         "shape has -1 at 0 and at 1, wanted at most one");
    SAME(infer("Reshape", "", "f32[2,3]", "i64[1]{-2}", NULL), "shape[0] is -2");
    SAME(infer("Reshape", "", "f32[2,3]", "i64[1]{7}", NULL),
         "elements of the new shape: found 7, wanted 6");
    SAME(infer("Reshape", "", "f32[2,3]", "i64[2]{4,-1}", NULL),
         "6 elements cannot be divided into groups of 4 to find -1");
    SAME(infer("Reshape", "", "f32[2]", "i64[2]{2,0}", NULL),
         "shape[1] is 0 (keep that size), but the input has rank 1");
    SAME(infer("Reshape", "allowzero=1", "f32[0]", "i64[2]{0,-1}", NULL),
         "shape has both 0 and -1, which allowzero forbids");
    SAME(infer("Reshape", "", "f32[2]", "i64[33]", NULL),
         "shape has 33 elements, the highest rank is 32");
    SAME(eval("Reshape", "", "f32[2]{1,2}", "i64[2]{4611686018427387904,4}", NULL),
         "the product of the new shape overflows");
}

static void test_squeeze_unsqueeze_flatten(void **state)
{
    (void)state;
    SAME(infer("Squeeze", "", "f32[1,b,1]", "i64[1]{-1}", NULL), "f32[1,b]");
    SAME(infer("Squeeze", "", "f32[1,b,1]", NULL), "f32[*]");
    SAME(infer("Squeeze", "", "f32[1,2,1]", NULL), "f32[2]");
    SAME(infer("Squeeze", "", "f32[1,2]", "i64[1]{1}", NULL),
         "size of a squeezed axis: found 2, wanted 1");
    SAME(infer("Squeeze", "", "i64[1]{s}", NULL), "i64[]{s}");
    SAME(infer("Unsqueeze", "", "f32[b]", "i64[2]{0,-1}", NULL), "f32[1,b,1]");
    SAME(infer("Unsqueeze", "", "i64[]{2*s}", "i64[1]{0}", NULL), "i64[1]{2*s}");
    SAME(infer("Unsqueeze", "", "f32[b]", "i64[2]{0,0}", NULL), "axis 0 is listed twice");
    SAME(infer("Flatten", "axis=-1", "f32[b,s,4]", NULL), "f32[b*s,4]");
    SAME(infer("Flatten", "axis=0", "f32[b,s]", NULL), "f32[1,b*s]");
    SAME(infer("Flatten", "axis=2", "f32[b,s]", NULL), "f32[b*s,1]");
    SAME(infer("Flatten", "axis=3", "f32[b,s]", NULL), "axis 3 is out of range for rank 2");
    SAME(eval("Identity", "", "str[2]{a,bc}", NULL), "str[2]{a,bc}");
    SAME(eval("Identity", "", "i4[3]{1,-8,7}", NULL), "i4[3]{1,-8,7}");
}

/* What exporters write for x.reshape(x.shape[0], x.shape[1], heads, -1). */
static void test_chain(void **state)
{
    (void)state;
    const char *shape = infer("Shape", "", "f32[b,s,256]", NULL);
    SAME(shape, "i64[3]{b,s,256}");
    const char *b = infer("Gather", "", shape, "i64[]{0}", NULL);
    const char *s = infer("Gather", "", shape, "i64[1]{-2}", NULL);
    SAME(b, "i64[]{b}");
    SAME(s, "i64[1]{s}");
    b = infer("Unsqueeze", "", b, "i64[1]{0}", NULL);
    const char *target = infer("Concat", "axis=0", b, s, "i64[2]{8,-1}", NULL);
    SAME(target, "i64[4]{b,s,8,-1}");
    SAME(infer("Reshape", "", "f32[b,s,256]", target, NULL), "f32[b,s,8,32]");
    SAME(infer("Slice", "", shape, "i64[1]{-2}", "i64[1]{9223372036854775807}", NULL),
         "i64[2]{s,256}");
    /* an element that is not known leaves the others known */
    target = infer("Concat", "axis=0", b, "i64[1]", NULL);
    SAME(infer("Reshape", "", "f32[b,s,256]", target, NULL), "f32[b,t.size_1]");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEXT_TEST(test_reshape_symbolic),
        OP_TEXT_TEST(test_reshape_refusals),
        OP_TEXT_TEST(test_squeeze_unsqueeze_flatten),
        OP_TEXT_TEST(test_chain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
