/* det.c -- batches and shapes
 * SPDX-License-Identifier: Apache-2.0 */
#include "op_text.h"

static void test_shapes(void **state)
{
    (void)state;
    SAME(infer("Det", "", "f32[b,n,n]", NULL), "f32[b]");
}

static void test_values(void **state)
{
    (void)state;
    SAME(eval("Det", "", "f64[2,2,2]{1,2,3,4,0,1,1,0}", NULL), "f64[2]{-2,-1}");
    SAME(eval("Det", "", "f32[1,0,0]{}", NULL), "f32[1]{1}");
}

static void test_refusals(void **state)
{
    (void)state;
    SAME(infer("Det", "", "f32[b,2,3]", NULL), "columns of a square matrix: found 3, wanted 2");
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
