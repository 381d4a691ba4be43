/* shape.c -- sizes as data
 * SPDX-License-Identifier: Apache-2.0 */
#include "op_text.h"

static void test_shape(void **state)
{
    (void)state;
    SAME(infer("Shape", "", "f32[b,s,3]", NULL), "i64[3]{b,s,3}");
    SAME(infer("Shape", "start=-1", "f32[b,s,3]", NULL), "i64[1]{3}");
    SAME(infer("Shape", "start=1 end=0", "f32[b,s,3]", NULL), "i64[0]{}");
    SAME(infer("Shape", "start=-9223372036854775808 end=9223372036854775807", "f32[b,2]", NULL),
         "i64[2]{b,2}");
    SAME(infer("Shape", "", "f32[]", NULL), "i64[0]{}");
    SAME(infer("Shape", "", "f32[*]", NULL), "i64[t.size_0]");
    SAME(infer("Size", "", "f32[b,s,3]", NULL), "i64[]{3*b*s}");
    SAME(eval("Shape", "end=-1", "str[2,1]{a,b}", NULL), "i64[1]{2}");
    SAME(eval("Size", "", "i4[3]{1,2,3}", NULL), "i64[]{3}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEXT_TEST(test_shape),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
