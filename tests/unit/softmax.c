/* softmax.c -- infinities, NaN, scalars, empty lanes
 * SPDX-License-Identifier: Apache-2.0 */
#include "op_text.h"

static void test_values(void **state)
{
    (void)state;
    SAME(eval("Softmax", "", "f32[]{3}", NULL), "f32[]{1}");
    SAME(eval("Softmax", "axis=0", "f64[2,2]{1000,0,1000,nan}", NULL), "f64[2,2]{0.5,nan,0.5,nan}");
    SAME(eval("LogSoftmax", "", "f32[2]{0,-1000}", NULL), "f32[2]{0,-1000}");
    SAME(eval("Hardmax", "", "f16[2,3]{1,2,2,1,nan,3}", NULL), "f16[2,3]{0,1,0,0,1,0}");
    SAME(eval("Hardmax", "axis=1", "f32[2,0]{}", NULL), "f32[2,0]{}");
    SAME(eval("cameo.Softmax", "axis=1 count=3", "f32[2,2,1,2]{0,-999,0,-999,5,5,5,5}", NULL),
         "f32[2,2,1,2]{0.5,0,0.5,0,0.25,0.25,0.25,0.25}");
    SAME(eval("cameo.Softmax", "axis=0 count=2 log=1", "f32[1,2]{0,-1000}", NULL),
         "f32[1,2]{0,-1000}");
    SAME(eval("cameo.Softmax", "axis=0 count=2", "f32[0,2]{}", NULL), "f32[0,2]{}");
}

static void test_refusals(void **state)
{
    (void)state;
    SAME(infer("Softmax", "axis=2", "f32[a,b]", NULL), "axis 2 is out of range for rank 2");
    SAME(infer("cameo.Softmax", "axis=1 count=2", "f32[a,b]", NULL), "2 axes from axis 1 of 2");
    SAME(infer("cameo.Softmax", "axis=1 count=0", "f32[a,b]", NULL), "0 axes from axis 1 of 2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEXT_TEST(test_values),
        OP_TEXT_TEST(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
