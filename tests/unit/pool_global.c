/* pool_global.c -- shapes and values
 * SPDX-License-Identifier: Apache-2.0 */
#include "op_text.h"

static void test_shapes(void **state)
{
    (void)state;
    SAME(infer("GlobalMaxPool", "", "f32[n,c,h,w]", NULL), "f32[n,c,1,1]");
}

static void test_values(void **state)
{
    (void)state;
    SAME(eval("GlobalMaxPool", "", "f32[1,2,2]{1,2,-3,-4}", NULL), "f32[1,2,1]{2,-3}");
    SAME(eval("GlobalLpPool", "", "f32[1,1,2]{3,4}", NULL), "f32[1,1,1]{5}");
}

static void test_refusals(void **state)
{
    (void)state;
    SAME(eval("GlobalLpPool", "p=0", "f32[1,1,2]{3,4}", NULL), "p is 0, wanted at least 1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEXT_TEST(test_shapes),
        OP_TEXT_TEST(test_values),
        OP_TEXT_TEST(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
