/* norm.c -- statistics outputs, shapes, types
 * SPDX-License-Identifier: Apache-2.0 */
#include "op_text.h"

static void test_shapes(void **state)
{
    (void)state;
    op_text_n_out = 3;
    SAME(infer("LayerNormalization", "axis=1", "f16[b,s,d]", "f16[d]", NULL),
         "f16[b,s,d]; f32[b,1,1]; f32[b,1,1]");
    SAME(infer("LayerNormalization", "", "f32[*]", "f32[8]", NULL), "f32[*]; f32[*]; f32[*]");
}

static void test_values(void **state)
{
    (void)state;
    op_text_n_out = 3;
    SAME(eval("LayerNormalization", "epsilon=0", "f64[2,2]{1,3,2,6}", "f64[2]{1,10}", "f64[1]{1}",
              NULL),
         "f64[2,2]{0,11,0,11}; f32[2,1]{2,4}; f32[2,1]{1,0.5}");
    SAME(eval("LayerNormalization", "", "f32[0,2]{}", "f32[2]{1,10}", NULL),
         "f32[0,2]{}; f32[0,1]{}; f32[0,1]{}");
    op_text_n_out = 1;
    SAME(eval("RMSNormalization", "epsilon=0", "f16[1,2]{3,4}", "f32[2]{1,2}", NULL),
         "f32[1,2]{0.848528,2.26274}");
    SAME(eval("GroupNormalization", "num_groups=1 epsilon=0", "f32[1,2,1]{1,3}", "f32[2]{1,10}",
              "f32[2]{0,1}", NULL),
         "f32[1,2,1]{-1,11}");
    SAME(eval("InstanceNormalization", "epsilon=0", "f32[1,2,2]{1,3,2,6}", "f32[2]{1,10}",
              "f32[2]{0,1}", NULL),
         "f32[1,2,2]{-1,1,-9,11}");
    SAME(eval("InstanceNormalization", "", "f32[1,0,2]{}", "f32[0]{}", "f32[0]{}", NULL),
         "f32[1,0,2]{}");
}

static void test_refusals(void **state)
{
    (void)state;
    op_text_n_out = 3;
    SAME(infer("LayerNormalization", "axis=3", "f16[b,s,d]", "f16[d]", NULL),
         "axis 3 is out of range for rank 3");
    SAME(infer("LayerNormalization", "", "f16[b,s,8]", "f16[7]", NULL),
         "scale or bias broadcast to the input: found 7, wanted 8");
    SAME(infer("LayerNormalization", "stash_type=3", "f16[b,s,8]", "f16[8]", NULL),
         "stash_type is 3, wanted 1 or 16");
    op_text_n_out = 1;
    SAME(infer("GroupNormalization", "num_groups=2", "f32[n,3,h]", "f32[3]", "f32[3]", NULL),
         "num_groups=2 does not divide 3 channels");
    SAME(infer("GroupNormalization", "num_groups=0", "f32[n,c,h]", "f32[c]", "f32[c]", NULL),
         "num_groups is 0, wanted at least 1");
    SAME(infer("GroupNormalization", "num_groups=2", "f32[n,4,h]", "f32[2]", "f32[4]", NULL),
         "elements of scale and bias: found 2, wanted 4");
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
