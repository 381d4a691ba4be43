/* ms_norm.c -- com.microsoft normalisations: repeated skips, sums, embeddings
 * SPDX-License-Identifier: Apache-2.0 */
#include "op_text.h"

#define MS "com.microsoft."

static void test_values(void **state)
{
    (void)state;
    op_text_n_out = 4;
    SAME(infer(MS "SkipLayerNormalization", "", "f16[b,s,8]", "f16[s,8]", "f16[8]", NULL),
         "f16[b,s,8]; f32[b,s,1]; f32[b,s,1]; f16[b,s,8]");
    SAME(eval(MS "SkipLayerNormalization", "", "f32[1,2,2]{0,1,0,2}", "f32[1,2,2]{0,1,0,2}",
              "f32[2]{1,1}", "f32[2]{3,3}", NULL),
         "f32[1,2,2]{2,4,2,4}; f32[1,2,1]{1,2}; f32[1,2,1]{1,0.5}; f32[1,2,2]{0,2,0,4}");
    op_text_n_out = 1;
    SAME(eval("SimplifiedLayerNormalization", "axis=0 epsilon=0", "f32[2,2]{1,1,1,1}",
              "f16[2]{2,3}", NULL),
         "f16[2,2]{2,3,2,3}");
    SAME(eval(MS "GroupNorm", "groups=1 activation=0 epsilon=0", "f32[1,1,1,2]{1,3}", "f32[2]{1,1}",
              "f32[2]{0,5}", NULL),
         "f32[1,1,1,2]{-1,6}");
    op_text_n_out = 2;
    SAME(eval(MS "EmbedLayerNormalization", "", "i32[1,2]{1,0}", "-", "f32[2,2]{0,0,0,4}",
              "f32[2,2]{0,0,0,0}", "-", "f32[2]{1,1}", "f32[2]{0,0}", "i32[1,2]{1,0}", NULL),
         "f32[1,2,2]{-1,1,0,0}; i32[1]{1}");
}

static void test_refusals(void **state)
{
    (void)state;
    SAME(infer(MS "SkipLayerNormalization", "", "f32[b,s,8]", "f32[s,7]", "f32[8]", NULL),
         "skip: found 7, wanted 8");
    SAME(infer(MS "GroupNorm", "groups=3 activation=0", "f32[n,h,w,8]", "f32[8]", "f32[8]", NULL),
         "channels of 8 is no multiple of 3");
    SAME(eval(MS "EmbedLayerNormalization", "", "i32[1,1]{2}", "-", "f32[2,1]{0,0}",
              "f32[2,1]{0,0}", "-", "f32[1]{1}", "f32[1]{0}", NULL),
         "index 2 into an embedding of 2 rows");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEXT_TEST(test_values),
        OP_TEXT_TEST(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
