/* nonzero.c -- selections of every type
 * SPDX-License-Identifier: Apache-2.0 */
#include "op_text.h"

static void test_nonzero(void **state)
{
    (void)state;
    SAME(infer("NonZero", "", "f32[b,s]", NULL), "i64[2,t.nonzero_0]");
    SAME(eval("NonZero", "", "str[2,2]{a,,,b}", NULL), "i64[2,2]{0,1,0,1}");
    SAME(eval("NonZero", "", "c64[3]{0:0,0:1,1:0}", NULL), "i64[1,2]{1,2}");
    SAME(eval("NonZero", "", "f32[3]{-0,nan,1}", NULL), "i64[1,2]{1,2}");
    SAME(eval("NonZero", "", "f32[]{3}", NULL), "i64[0,1]{}");
    SAME(eval("NonZero", "", "f32[2,0]{}", NULL), "i64[2,0]{}");
}

static void test_compress(void **state)
{
    (void)state;
    SAME(infer("Compress", "axis=0", "f32[b,s]", "bool[3]", NULL), "f32[t.selected_0,s]");
    SAME(infer("Compress", "", "f32[b,s]", "bool[3]", NULL), "f32[t.selected_1]");
    SAME(infer("Compress", "", "f32[b,s]", "bool[3,1]", NULL), "condition has rank 2, wanted 1");
    SAME(eval("Compress", "axis=-1", "str[2,2]{a,b,c,d}", "bool[2]{0,1}", NULL), "str[2,1]{b,d}");
    SAME(eval("Compress", "", "u4[2,2]{1,2,3,4}", "bool[3]{1,0,1}", NULL), "u4[2]{1,3}");
    SAME(eval("Compress", "axis=0", "f32[2]{1,2}", "bool[3]{1,0,0}", NULL), "f32[1]{1}");
    SAME(eval("Compress", "axis=0", "f32[2]{1,2}", "bool[3]{1,0,1}", NULL),
         "condition[2] selects past the size 2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEXT_TEST(test_nonzero),
        OP_TEXT_TEST(test_compress),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
