/* transpose.c -- permutations, refused ones, and large ones in tiles
 * SPDX-License-Identifier: Apache-2.0 */
#include "op_text.h"

static void test_shapes(void **state)
{
    (void)state;
    SAME(infer("Transpose", "perm=0,2,1", "f32[b,s,3]", NULL), "f32[b,3,s]");
    SAME(infer("Transpose", "", "f32[b,s,3]", NULL), "f32[3,s,b]");
    SAME(infer("Transpose", "perm=1,0", "f32[*]", NULL), "f32[t.size_0,t.size_1]");
    SAME(infer("Transpose", "", "i64[2]{s,3}", NULL), "i64[2]{s,3}");
    SAME(infer("Transpose", "perm=0,0", "f32[b,s]", NULL), "axis 0 is listed twice");
    SAME(infer("Transpose", "perm=0,1,2", "f32[b,s]", NULL),
         "perm has 3 entries, wanted 2 for the input's rank");
}

static void test_elements(void **state)
{
    (void)state;
    SAME(eval("Transpose", "", "str[2,2]{a,b,c,d}", NULL), "str[2,2]{a,c,b,d}");
    SAME(eval("Transpose", "", "u4[3,1]{1,2,15}", NULL), "u4[1,3]{1,2,15}");
    SAME(eval("Transpose", "", "c64[1,2]{1:2,3:4}", NULL), "c64[2,1]{1:2,3:4}");
    SAME(eval("Transpose", "", "f32[0,2]{}", NULL), "f32[2,0]{}");
    SAME(eval("Transpose", "", "f32[]{5}", NULL), "f32[]{5}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEXT_TEST(test_shapes),
        OP_TEXT_TEST(test_elements),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
