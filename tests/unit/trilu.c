/* trilu.c -- triangles with far diagonals
 * SPDX-License-Identifier: Apache-2.0 */
#include "op_text.h"

static void test_trilu(void **state)
{
    (void)state;
    SAME(infer("Trilu", "", "f32[b,s,s]", "i64[]", NULL), "f32[b,s,s]");
    SAME(infer("Trilu", "", "f32[s]", NULL), "the input has rank 1, wanted 2 or more");
    SAME(eval("Trilu", "", "i32[2,3]{1,2,3,4,5,6}", "i64[]{1}", NULL), "i32[2,3]{0,2,3,0,0,6}");
    SAME(eval("Trilu", "upper=0", "i32[2,3]{1,2,3,4,5,6}", "i64[]{-1}", NULL),
         "i32[2,3]{0,0,0,4,0,0}");
    SAME(eval("Trilu", "", "i32[1,2]{1,2}", "i64[]{9223372036854775807}", NULL), "i32[1,2]{0,0}");
    SAME(eval("Trilu", "", "i32[1,2]{1,2}", "i64[]{-9223372036854775808}", NULL), "i32[1,2]{1,2}");
    SAME(eval("Trilu", "upper=0", "str[1,2]{a,b}", NULL), "str[1,2]{a,}");
    SAME(eval("Trilu", "", "f32[2,0]{}", NULL), "f32[2,0]{}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEXT_TEST(test_trilu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
