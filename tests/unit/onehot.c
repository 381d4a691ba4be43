/* onehot.c -- classes in and out of range
 * SPDX-License-Identifier: Apache-2.0 */
#include "op_text.h"

static void test_onehot(void **state)
{
    (void)state;
    SAME(infer("OneHot", "", "i64[b]", "i64[]{d}", "f32[2]", NULL), "f32[b,d]");
    SAME(infer("OneHot", "axis=0", "i64[b]", "i64[]", "f32[2]", NULL), "f32[t.depth_0,b]");
    SAME(infer("OneHot", "", "i64[b]", "f32[1]{3.9}", "f32[2]", NULL), "f32[b,3]");
    SAME(infer("OneHot", "", "i64[b]", "f32[1]{nan}", "f32[2]", NULL), "depth is nan");
    SAME(infer("OneHot", "", "i64[b]", "i64[]{-1}", "f32[2]", NULL),
         "depth holds -1, wanted sizes >= 0");
    SAME(infer("OneHot", "", "i64[b]", "i64[]{2}", "f32[3]", NULL),
         "values has 3 elements, wanted 2");
    SAME(eval("OneHot", "axis=0", "f32[3]{-1.5,1.9,nan}", "i64[]{2}", "str[2]{no,yes}", NULL),
         "str[2,3]{no,no,no,yes,yes,no}");
    SAME(eval("OneHot", "", "u64[2]{18446744073709551615,0}", "i64[1]{2}", "i64[2]{0,1}", NULL),
         "i64[2,2]{0,0,1,0}");
    SAME(eval("OneHot", "", "i64[]{-3}", "i64[1]{2}", "i64[2]{0,1}", NULL), "i64[2]{0,0}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEXT_TEST(test_onehot),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
