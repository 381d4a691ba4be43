/* topk.c -- order among equals, NaN, and sizes
 * SPDX-License-Identifier: Apache-2.0 */
#include "op_text.h"

static void test_shapes(void **state)
{
    (void)state;
    op_text_n_out = 2;
    SAME(infer("TopK", "axis=0", "f32[s,3]", "i64[1]{k}", NULL), "f32[k,3]; i64[k,3]");
    SAME(infer("TopK", "", "f32[s,3]", "i64[1]", NULL), "f32[s,t.k_0]; i64[s,t.k_0]");
    SAME(infer("TopK", "", "f32[3]", "i64[1]{4}", NULL), "K is 4, but axis 0 has size 3");
    SAME(infer("TopK", "", "f32[3]", "i64[1]{-1}", NULL), "K holds -1, wanted sizes >= 0");
    SAME(infer("TopK", "", "f32[3]", "i64[2]{1,1}", NULL), "K has 2 elements, wanted 1");
}

static void test_elements(void **state)
{
    (void)state;
    op_text_n_out = 2;
    SAME(eval("TopK", "", "f32[6]{1,3,-0,3,nan,0}", "i64[1]{4}", NULL),
         "f32[4]{nan,3,3,1}; i64[4]{4,1,3,0}");
    SAME(eval("TopK", "largest=0", "f16[4]{nan,0,-0,5}", "i64[1]{4}", NULL),
         "f16[4]{0,-0,5,nan}; i64[4]{1,2,3,0}");
    SAME(eval("TopK", "axis=0", "u64[3,1]{1,18446744073709551615,2}", "i64[1]{2}", NULL),
         "u64[2,1]{18446744073709551615,2}; i64[2,1]{1,2}");
    SAME(eval("TopK", "largest=0", "i64[3]{5,-9223372036854775808,5}", "i64[1]{3}", NULL),
         "i64[3]{-9223372036854775808,5,5}; i64[3]{1,0,2}");
    SAME(eval("TopK", "", "f32[2]{1,2}", "i64[1]{0}", NULL), "f32[0]{}; i64[0]{}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEXT_TEST(test_shapes),
        OP_TEXT_TEST(test_elements),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
