/* space.c -- blocks against channels
 * SPDX-License-Identifier: Apache-2.0 */
#include "op_text.h"

static void test_space(void **state)
{
    (void)state;
    SAME(infer("DepthToSpace", "blocksize=2", "f32[b,4*c,h,w]", NULL), "f32[b,c,2*h,2*w]");
    SAME(infer("SpaceToDepth", "blocksize=2", "f32[b,c,2*h,w]", NULL), "f32[b,4*c,h,floor(w/2)]");
    SAME(infer("DepthToSpace", "blocksize=2", "f32[1,3,2,2]", NULL),
         "3 channels do not divide by 4");
    SAME(infer("SpaceToDepth", "blocksize=2", "f32[1,1,3,2]", NULL), "3 rows do not divide by 2");
    SAME(infer("SpaceToDepth", "blocksize=0", "f32[1,1,3,2]", NULL), "blocksize is 0");
    SAME(infer("SpaceToDepth", "blocksize=1 mode=RCD", "f32[1,1,3,2]", NULL),
         "mode is 'RCD', wanted DCR or CRD");
    SAME(infer("SpaceToDepth", "blocksize=1", "f32[1,3,2]", NULL),
         "the input has rank 3, wanted 4");
    SAME(eval("SpaceToDepth", "blocksize=2", "u8[1,2,2,2]{1,2,3,4,5,6,7,8}", NULL),
         "u8[1,8,1,1]{1,5,2,6,3,7,4,8}");
    SAME(eval("SpaceToDepth", "blocksize=2 mode=CRD", "u8[1,2,2,2]{1,2,3,4,5,6,7,8}", NULL),
         "u8[1,8,1,1]{1,2,3,4,5,6,7,8}");
    SAME(eval("DepthToSpace", "blocksize=2", "u8[1,8,1,1]{1,5,2,6,3,7,4,8}", NULL),
         "u8[1,2,2,2]{1,2,3,4,5,6,7,8}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEXT_TEST(test_space),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
