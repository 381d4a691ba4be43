/* unique.c -- values, slices, and their order
 * SPDX-License-Identifier: Apache-2.0 */
#include "op_text.h"

static void test_unique(void **state)
{
    (void)state;
    op_text_n_out = 4;
    SAME(infer("Unique", "axis=1", "f32[b,s]", NULL),
         "f32[b,t.unique_0]; i64[t.unique_0]; i64[s]; i64[t.unique_0]");
    SAME(infer("Unique", "", "f32[b,s]", NULL),
         "f32[t.unique_1]; i64[t.unique_1]; i64[b*s]; i64[t.unique_1]");
    SAME(eval("Unique", "sorted=0", "str[4]{b,a,b,}", NULL),
         "str[3]{b,a,}; i64[3]{0,1,3}; i64[4]{0,1,0,2}; i64[3]{2,1,1}");
    SAME(eval("Unique", "", "f32[4]{nan,2,nan,-1}", NULL),
         "f32[3]{-1,2,nan}; i64[3]{3,1,0}; i64[4]{2,1,2,0}; i64[3]{1,1,2}");
    SAME(eval("Unique", "axis=0", "i8[3,2]{1,0,-1,5,1,0}", NULL),
         "i8[2,2]{-1,5,1,0}; i64[2]{1,0}; i64[3]{1,0,1}; i64[2]{1,2}");
    SAME(eval("Unique", "", "c64[3]{1:2,1:1,1:2}", NULL),
         "c64[2]{1:1,1:2}; i64[2]{1,0}; i64[3]{1,0,1}; i64[2]{1,2}");
    SAME(eval("Unique", "", "f32[0]{}", NULL), "f32[0]{}; i64[0]{}; i64[0]{}; i64[0]{}");
    SAME(eval("Unique", "axis=0", "f32[2,0]{}", NULL),
         "f32[1,0]{}; i64[1]{0}; i64[2]{0,0}; i64[1]{2}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEXT_TEST(test_unique),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
