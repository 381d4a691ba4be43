/* ms_fused.c -- com.microsoft products and activations that ONNX has apart
 * SPDX-License-Identifier: Apache-2.0 */
#include "op_text.h"

#define MS "com.microsoft."

static void test_values(void **state)
{
    (void)state;
    SAME(infer(MS "FusedMatMul", "transBatchA=1 transB=1", "f32[m,b,k]", "f32[b,n,k]", NULL),
         "f32[b,m,n]");
    SAME(eval(MS "FusedMatMul", "alpha=2 transA=1", "f32[2,1]{1,2}", "f32[2,1]{3,4}", NULL),
         "f32[1,1]{22}");
    SAME(eval(MS "FusedMatMulActivation", "activation=Relu", "f32[1,1]{-1}", "f32[1,1]{3}", NULL),
         "f32[1,1]{0}");
    SAME(eval(MS "FusedGemm", "activation=LeakyRelu activation_alpha=0.5", "f32[1,1]{-1}",
              "f32[1,1]{3}", "f32[1]{1}", NULL),
         "f32[1,1]{-1}");
    SAME(eval(MS "GemmFastGelu", "", "f32[1,1]{0}", "f32[1,2]{3,4}", "f32[2]{0,100}", NULL),
         "f32[1,2]{0,100}");
    SAME(eval(MS "BiasGelu", "", "f32[2,2]{0,90,0,90}", "f32[2]{0,10}", NULL),
         "f32[2,2]{0,100,0,100}");
    SAME(eval(MS "FastGelu", "", "f32[3]{90,90,90}", "f32[2]{10,20}", NULL), "f32[3]{100,110,100}");
    SAME(eval(MS "BiasSplitGelu", "", "f32[1,4]{1,2,0,90}", "f32[4]{0,0,0,10}", NULL),
         "f32[1,2]{0,200}");
    SAME(eval(MS "BiasAdd", "", "f32[1,1,2]{1,2}", "f32[2]{10,20}", "f32[1,1,2]{100,200}", NULL),
         "f32[1,1,2]{111,222}");
    SAME(eval(MS "BiasSoftmax", "axis=1 is_inner_broadcast=0", "f32[2,2]{0,0,1,1}",
              "f32[1,2]{0,-inf}", NULL),
         "f32[2,2]{1,0,1,0}");
    SAME(eval(MS "NhwcConv", "", "f32[1,2,2]{1,2,3,4}", "f32[1,2,1]{1,10}", NULL),
         "f32[1,2,1]{21,43}");
    SAME(eval(MS "NhwcMaxPool", "kernel_shape=2", "u8[1,2,2]{1,8,3,4}", NULL), "u8[1,1,2]{3,8}");
    SAME(eval(MS "Range", "", "i64[1]{1}", "i64[1]{4}", NULL), "i64[3]{1,2,3}");
    SAME(eval(MS "ExpandDims", "", "f32[2]{1,2}", "i32[]{-1}", NULL), "f32[2,1]{1,2}");
    SAME(infer(MS "ExpandDims", "", "f32[a,b]", "i32[]", NULL), "f32[*]");
}

static void test_refusals(void **state)
{
    (void)state;
    SAME(infer(MS "FusedConv", "activation=Foo", "f32[n,1,l]", "f32[1,1,1]", NULL),
         "unknown activation function 'Foo'");
    SAME(infer(MS "BiasGelu", "", "f32[2,3]", "f32[2]", NULL), "bias: found 2, wanted 3");
    SAME(infer(MS "BiasGelu", "", "f32[]", "f32[2]", NULL), "the input is a scalar");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEXT_TEST(test_values),
        OP_TEXT_TEST(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
