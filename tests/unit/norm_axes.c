/* norm_axes.c -- axes and zero norms
 * SPDX-License-Identifier: Apache-2.0 */
#include "op_text.h"

static void test_values(void **state)
{
    (void)state;
    SAME(eval("MeanVarianceNormalization", "axes=0,1", "f64[2,2]{1,3,1,3}", NULL),
         "f64[2,2]{-1,1,-1,1}");
    SAME(eval("LpNormalization", "p=1", "f32[2,2]{-1,3,0,0}", NULL), "f32[2,2]{-0.25,0.75,0,0}");
}

static void test_refusals(void **state)
{
    (void)state;
    SAME(infer("MeanVarianceNormalization", "", "f64[2,2]", NULL),
         "axis 2 is out of range for rank 2");
    SAME(infer("LpNormalization", "p=3", "f32[2,2]", NULL), "p is 3, wanted 1 or 2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEXT_TEST(test_values),
        OP_TEXT_TEST(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
