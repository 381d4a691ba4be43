/* lrn.c -- even sizes
 * SPDX-License-Identifier: Apache-2.0 */
#include "op_text.h"

static void test_values(void **state)
{
    (void)state;
    SAME(eval("LRN", "size=2 alpha=2 beta=1 bias=0", "f32[1,3,1]{1,2,3}", NULL),
         "f32[1,3,1]{0.2,0.153846,0.333333}");
}

static void test_refusals(void **state)
{
    (void)state;
    SAME(infer("LRN", "size=0", "f32[1,3,1]", NULL), "size is 0, wanted at least 1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEXT_TEST(test_values),
        OP_TEXT_TEST(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
