/* fused_rotary.c -- cameo.Rotary: pairs, broadcast angles, odd columns
 * SPDX-License-Identifier: Apache-2.0 */
#include "op_text.h"

static void test_rotary(void **state)
{
    (void)state;
    SAME(infer("cameo.Rotary", "", "f16[b,s,h,8]", "f16[b,s,1,8]", "f16[s,1,8]", NULL),
         "f16[b,s,h,8]");
    SAME(eval("cameo.Rotary", "", "f32[1,4]{1,2,3,4}", "f32[4]{1,1,1,1}", "f32[4]{1,10,100,1000}",
              NULL),
         "f32[1,4]{-2,-38,103,2004}");
    SAME(eval("cameo.Rotary", "interleaved=1", "f32[2,2]{1,2,3,4}", "f32[2,1]{0,1}", "f32[]{1}",
              NULL),
         "f32[2,2]{-2,1,-1,7}");
    SAME(eval("cameo.Rotary", "", "f32[2,0]{}", "f32[]{1}", "f32[]{1}", NULL), "f32[2,0]{}");
    SAME(infer("cameo.Rotary", "", "f32[b,3]", "f32[3]", "f32[3]", NULL),
         "3 columns are to be rotated in pairs");
    SAME(infer("cameo.Rotary", "", "f32[5,4]", "f32[3,4]", "f32[4]", NULL),
         "cos: found 3, wanted 5");
}

int main(void)
{
    const struct CMUnitTest tests[] = {OP_TEXT_TEST(test_rotary)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
