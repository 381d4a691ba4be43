/* ms_nbits.c -- com.microsoft weights of a few bits: packing, blocks, experts
 * SPDX-License-Identifier: Apache-2.0 */
#include "op_text.h"

#define MS "com.microsoft."

static void test_values(void **state)
{
    (void)state;
    SAME(infer(MS "MatMulNBits", "K=32 N=5 block_size=16", "f16[b,s,32]", "u8[5,2,8]", "f16[5,2]",
               NULL),
         "f16[b,s,5]");
    /* codes 9 and 10 of zero point 8; codes of 2 bits: 3, 2, 1, 0 of zero point 2 */
    SAME(eval(MS "MatMulNBits", "K=2 N=1 block_size=2", "f32[1,2]{1,10}", "u8[1,1,1]{169}",
              "f32[1,1]{0.5}", NULL),
         "f32[1,1]{10.5}");
    SAME(eval(MS "MatMulNBits", "K=4 N=1 block_size=4 bits=2", "f32[1,4]{1,10,100,1000}",
              "u8[1,1,1]{27}", "f32[1,1]{1}", NULL),
         "f32[1,1]{-2099}");
    SAME(eval(MS "MatMulNBits", "K=2 N=1 block_size=1 bits=8", "f32[1,2]{1,10}", "u8[1,2,1]{3,5}",
              "f32[1,2]{1,2}", "u8[1,2]{2,3}", "-", "f32[1]{7}", NULL),
         "f32[1,1]{48}");
    SAME(eval(MS "MatMulBnb4", "K=2 N=1 block_size=16 quant_type=1", "f32[1,2]{1,10}", "u8[1]{15}",
              "f32[1]{2}", NULL),
         "f32[1,1]{18}");
    SAME(eval(MS "GatherBlockQuantized", "block_size=16 bits=4", "u8[2,1]{152,33}",
              "i64[3]{1,-2,9}", "f32[2,1]{1,2}", NULL),
         "f32[3,2]{-14,-12,0,1,0,0}");
    SAME(eval(MS "MoE", "k=1 normalize_routing_weights=1", "f32[2,1]{1,2}", "f32[2,2]{0,9,9,0}",
              "f32[2,1,1]{1,10}", "-", "f32[2,1,1]{1,1}", NULL),
         "f32[2,1]{10,2}");
}

static void test_refusals(void **state)
{
    (void)state;
    SAME(infer(MS "MatMulNBits", "K=32 N=5 block_size=16", "f32[b,32]", "u8[5,1,8]", "f32[5,2]",
               NULL),
         "B has 40 elements, wanted 80");
    SAME(infer(MS "MatMulNBits", "K=32 N=5 block_size=0", "f32[b,32]", "u8[5,1,8]", "f32[5,2]",
               NULL),
         "block_size is 0");
    SAME(infer(MS "MatMulNBits", "K=4611686018427387904 N=4611686018427387904 block_size=16",
               "f32[b,32]", "u8[5]", "f32[5]", NULL),
         "weights of 4611686018427387904 by 4611686018427387904");
    SAME(eval(MS "MatMulNBits", "K=2 N=1 block_size=2", "f32[1,2]{1,10}", "u8[1,1,1]{169}",
              "f32[1,1]{0.5}", "-", "i32[2]{0,1}", NULL),
         "g_idx[1] is 1, wanted less than 1");
    SAME(infer(MS "MoE", "k=3", "f32[t,1]", "f32[t,2]", "f32[2,1,1]", "-", "f32[2,1,1]", NULL),
         "k is 3 of 2 experts");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEXT_TEST(test_values),
        OP_TEXT_TEST(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
