/* cuda_products.c -- the kernels of products and convolutions compile for classes of GPUs that are not here.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Where there is a GPU, matmul.c and conv.c run them. */
#include "op/harness.h"

static void compiles(const char *text)
{
    op_case c = op_case_of(text);
    op_check(&c);
    assert_true(c.ran > 0);
}

static void products_of_halves_with_an_epilogue(void **state)
{
    (void)state;
    compiles("a: f16[9,40]\n@b = f16[40,24] random 1\n@o = f16[24] random 2\nr: f16[9,24]\n"
             "y = MatMul(a, @b | @o, r) then \"add x $0; gelu %0; add %1 $1\"\nreturn y\n");
}

static void products_of_floats_with_a_bias(void **state)
{
    (void)state;
    compiles("a: f32[30,17]\nb: f32[9,17]\n@c = f32[9] random 3\n"
             "y = Gemm(a, b, @c) {transB=1, alpha=0.5, beta=2.0}\nreturn y\n");
}

static void convolutions_of_both_readings(void **state)
{
    (void)state;
    compiles("x: f16[1,16,9,9]\n@w = f16[24,16,3,3] random 1\n@b = f16[24] random 2\n"
             "y = Conv(x, @w, @b) {pads=[1,1,1,1]} then \"relu x\"\nreturn y\n");
}

static void depthwise_convolutions(void **state)
{
    (void)state;
    compiles("x: f16[1,16,9,9]\n@w = f16[16,1,3,3] random 1\n"
             "y = Conv(x, @w) {pads=[1,1,1,1], group=16, strides=[2,2]}\nreturn y\n");
}

static void transposed_convolutions(void **state)
{
    (void)state;
    compiles("x: f32[1,6,5,5]\n@w = f32[6,4,3,3] random 1\n"
             "y = ConvTranspose(x, @w) {strides=[2,2]}\nreturn y\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_of_halves_with_an_epilogue),
        cmocka_unit_test(products_of_floats_with_a_bias),
        cmocka_unit_test(convolutions_of_both_readings),
        cmocka_unit_test(depthwise_convolutions),
        cmocka_unit_test(transposed_convolutions),
    };
    setenv("CAMEO_TEST_TARGET", "sm_75,sm_90", 0);
    return cmocka_run_group_tests_name("cuda_products", tests, NULL, NULL);
}
