/* batch_norm.c -- training, mixed types, one axis
 * SPDX-License-Identifier: Apache-2.0 */
#include "op_text.h"

static void test_shapes(void **state)
{
    (void)state;
    op_text_n_out = 3;
    SAME(
        infer("BatchNormalization", "", "f32[n,c,h]", "f32[c]", "f32[c]", "f32[c]", "f32[c]", NULL),
        "f32[n,c,h]; f32[c]; f32[c]");
}

static void test_values(void **state)
{
    (void)state;
    op_text_n_out = 3;
    SAME(eval("BatchNormalization", "training_mode=1 epsilon=0 momentum=0.5", "f32[2,1]{1,3}",
              "f32[1]{1}", "f32[1]{0}", "f32[1]{4}", "f32[1]{9}", NULL),
         "f32[2,1]{-1,1}; f32[1]{3}; f32[1]{5}");
    op_text_n_out = 1;
    SAME(eval("BatchNormalization", "epsilon=0", "f16[3]{1,2,3}", "f32[1]{2}", "f32[1]{1}",
              "f64[1]{1}", "f64[1]{4}", NULL),
         "f16[3]{1,2,3}");
}

static void test_refusals(void **state)
{
    (void)state;
    op_text_n_out = 3;
    SAME(
        infer("BatchNormalization", "", "f32[n,3,h]", "f32[4]", "f32[c]", "f32[c]", "f32[c]", NULL),
        "elements for the channels: found 4, wanted 3");
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
