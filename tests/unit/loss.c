/* loss.c -- weights, ignored labels, labels out of range
 * SPDX-License-Identifier: Apache-2.0 */
#include "op_text.h"

static void test_shapes(void **state)
{
    (void)state;
    SAME(infer("NegativeLogLikelihoodLoss", "reduction=none", "f32[n,c,d]", "i64[n,d]", NULL),
         "f32[n,d]");
}

static void test_values(void **state)
{
    (void)state;
    SAME(eval("NegativeLogLikelihoodLoss", "", "f32[2,2]{-1,-2,-3,-4}", "i32[2]{1,0}",
              "f32[2]{1,3}", NULL),
         "f32[]{2.25}");
    SAME(eval("NegativeLogLikelihoodLoss", "ignore_index=2 reduction=sum", "f32[2,2]{-1,-2,-3,-4}",
              "i32[2]{1,2}", NULL),
         "f32[]{2}");
    op_text_n_out = 2;
    SAME(eval("SoftmaxCrossEntropyLoss", "ignore_index=-1", "f32[2,1]{5,6}", "i64[2]{0,-1}", NULL),
         "f32[]{0}; f32[2,1]{0,0}");
}

static void test_refusals(void **state)
{
    (void)state;
    SAME(infer("NegativeLogLikelihoodLoss", "reduction=max", "f32[n,c,d]", "i64[n,d]", NULL),
         "reduction is 'max', wanted none, mean or sum");
    SAME(infer("NegativeLogLikelihoodLoss", "", "f32[n,c,d]", "i64[n]", NULL),
         "labels of rank 1, wanted 2");
    SAME(infer("NegativeLogLikelihoodLoss", "", "f32[n,3]", "i64[n]", "f32[4]", NULL),
         "weights for the classes: found 4, wanted 3");
    SAME(eval("NegativeLogLikelihoodLoss", "", "f32[2,2]{-1,-2,-3,-4}", "i32[2]{1,2}", NULL),
         "label 2 of sample 1 is not in [0, 2)");
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
