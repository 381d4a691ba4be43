/* reverse.c -- sequences backwards
 * SPDX-License-Identifier: Apache-2.0 */
#include "op_text.h"

static void test_reverse(void **state)
{
    (void)state;
    SAME(infer("ReverseSequence", "", "f32[t,b,3]", "i64[b]", NULL), "f32[t,b,3]");
    SAME(infer("ReverseSequence", "batch_axis=1 time_axis=1", "f32[2,2]", "i64[2]", NULL),
         "batch_axis=1 and time_axis=1, wanted 0 and 1");
    SAME(infer("ReverseSequence", "", "f32[2,3]", "i64[2]", NULL),
         "size of sequence_lens: found 2, wanted 3");
    SAME(eval("ReverseSequence", "batch_axis=0 time_axis=1", "str[2,3]{a,b,c,d,e,f}", "i64[2]{2,0}",
              NULL),
         "str[2,3]{b,a,c,d,e,f}");
    SAME(eval("ReverseSequence", "", "u8[2,1]{1,2}", "i64[1]{3}", NULL),
         "sequence_lens[0] is 3, the time axis has 2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEXT_TEST(test_reverse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
