/* rotary.c -- both patterns, part of a head, positions out of range
 * SPDX-License-Identifier: Apache-2.0 */
#include "op_text.h"

static void test_values(void **state)
{
    (void)state;
    SAME(infer("RotaryEmbedding", "num_heads=2", "f32[b,s,16]", "f32[m,4]", "f32[m,4]", "i64[b,s]",
               NULL),
         "f32[b,s,16]");
    /* a quarter turn */
    SAME(eval("RotaryEmbedding", "", "f32[1,1,1,4]{1,2,3,4}", "f32[1,1,2]{0,0}", "f32[1,1,2]{1,1}",
              NULL),
         "f32[1,1,1,4]{-3,-4,1,2}");
    SAME(eval("RotaryEmbedding", "interleaved=1", "f32[1,1,1,4]{1,2,3,4}", "f32[1,1,2]{0,0}",
              "f32[1,1,2]{1,1}", NULL),
         "f32[1,1,1,4]{-2,1,-4,3}");
    SAME(eval("RotaryEmbedding", "num_heads=1 rotary_embedding_dim=2", "f32[1,1,4]{1,2,3,4}",
              "f32[2,1]{1,0}", "f32[2,1]{0,1}", "i64[1,1]{1}", NULL),
         "f32[1,1,4]{-2,1,3,4}");
    SAME(eval("com.microsoft.RotaryEmbedding", "", "f32[1,2,2]{1,2,1,2}", "i64[1]{0}",
              "f32[2,1]{1,0}", "f32[2,1]{0,1}", NULL),
         "f32[1,2,2]{1,2,-2,1}");
}

static void test_refusals(void **state)
{
    (void)state;
    SAME(infer("RotaryEmbedding", "", "f32[b,s,16]", "f32[m,4]", "f32[m,4]", "i64[b,s]", NULL),
         "num_heads is missing: an input of rank 3 needs it");
    SAME(infer("RotaryEmbedding", "num_heads=2", "f32[b,s,16]", "f32[m,3]", "f32[m,4]", "i64[b,s]",
               NULL),
         "cos_cache: found 3, wanted 4");
    SAME(eval("RotaryEmbedding", "", "f32[1,1,1,2]{1,2}", "f32[1,1]{0}", "f32[1,1]{1}",
              "i64[1,1]{1}", NULL),
         "position 1 is outside the cos and sin caches of 1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEXT_TEST(test_values),
        OP_TEXT_TEST(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
