/* concat.c -- joined shapes and shape vectors
 * SPDX-License-Identifier: Apache-2.0 */
#include "op_text.h"

static void test_shapes(void **state)
{
    (void)state;
    SAME(infer("Concat", "axis=1", "f32[b,2]", "f32[b,s]", "f32[b,3]", NULL), "f32[b,s + 5]");
    SAME(infer("Concat", "axis=-1", "f32[b,2]", "f32[4,2]", NULL), "f32[4,4]");
    SAME(infer("Concat", "axis=0", "f32[b,2]", "f32[*]", NULL), "f32[t.joined_0,2]");
    SAME(infer("Concat", "axis=0", "f32[2,3]", "f32[2,4]", NULL),
         "an axis that is not joined: found 4, wanted 3");
    SAME(infer("Concat", "axis=0", "f32[2]", "f32[2,4]", NULL),
         "input 1 has rank 2, but input 0 has rank 1");
    SAME(infer("Concat", "axis=0", "f32[]", NULL),
         "input 0 is a scalar, which has no axis to join");
    SAME(infer("Concat", "axis=2", "f32[1,2]", NULL), "axis 2 is out of range for rank 2");
}

static void test_elements(void **state)
{
    (void)state;
    SAME(infer("Concat", "axis=0", "i64[1]{b}", "i64[2]{3,2*s}", NULL), "i64[3]{b,3,2*s}");
    SAME(eval("Concat", "axis=1", "str[2,1]{a,b}", "str[2,2]{c,d,e,f}", "str[2,0]{}", NULL),
         "str[2,3]{a,c,d,b,e,f}");
    SAME(eval("Concat", "axis=0", "i2[1]{-2}", "i2[2]{1,0}", NULL), "i2[3]{-2,1,0}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEXT_TEST(test_shapes),
        OP_TEXT_TEST(test_elements),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
