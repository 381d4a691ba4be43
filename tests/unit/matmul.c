/* matmul.c -- every rank, wrapping integers, no inner elements
 * SPDX-License-Identifier: Apache-2.0 */
#include "op_text.h"

static void test_shapes(void **state)
{
    (void)state;
    SAME(infer("MatMul", "", "f32[b,m,k]", "f32[k,n]", NULL), "f32[b,m,n]");
    SAME(infer("MatMul", "", "f32[k]", "f32[b,k,n]", NULL), "f32[b,n]");
    SAME(infer("MatMul", "", "f32[h,2,3]", "f32[1,3,4]", NULL), "f32[h,2,4]");
    SAME(infer("MatMul", "", "f32[*]", "f32[2,3]", NULL), "f32[*]");
    SAME(infer("Gemm", "", "f32[m,k]", "f32[k,4]", "f32[4,4]", NULL), "f32[m,4]");
}

static void test_values(void **state)
{
    (void)state;
    SAME(eval("MatMul", "", "f32[2,0]{}", "f32[0,3]{}", NULL), "f32[2,3]{0,0,0,0,0,0}");
    SAME(eval("MatMul", "", "i32[1,1]{2147483647}", "i32[1,1]{2}", NULL), "i32[1,1]{-2}");
    SAME(eval("MatMul", "", "u64[1,1]{18446744073709551615}", "u64[1,1]{3}", NULL),
         "u64[1,1]{18446744073709551613}");
    SAME(eval("MatMul", "", "i64[3]{1,2,3}", "i64[3]{4,5,6}", NULL), "i64[]{32}");
    SAME(eval("MatMul", "", "i64[2,1,1,2]{1,2,3,4}", "i64[2,2,1]{1,1,2,2}", NULL),
         "i64[2,2,1,1]{3,6,7,14}");
    SAME(eval("MatMul", "", "bf16[1,3]{256,1,1}", "bf16[3,1]{1,1,1}", NULL), "bf16[1,1]{258}");
    SAME(eval("Gemm", "transA=1 transB=1 alpha=2", "i32[2,1]{1,2}", "i32[2,2]{1,2,3,4}", "i32[]{5}",
              NULL),
         "i32[1,2]{15,27}");
    SAME(eval("Gemm", "beta=0", "f32[1,1]{2}", "f32[1,1]{3}", "f32[1]{nan}", NULL), "f32[1,1]{6}");
}

static void test_refusals(void **state)
{
    (void)state;
    SAME(infer("MatMul", "", "f32[2,3]", "f32[4,3]", NULL),
         "rows of the right operand: found 4, wanted 3");
    SAME(infer("MatMul", "", "f32[]", "f32[2,3]", NULL),
         "operands of rank 0 and 2, wanted at least 1");
    SAME(infer("Gemm", "", "f32[m,k]", "f32[k,4]", "f32[3]", NULL),
         "C broadcast to the output: found 3, wanted 4");
    SAME(infer("Gemm", "", "f32[2,3,4]", "f32[k,4]", NULL), "input 0 has rank 3, wanted 2");
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
