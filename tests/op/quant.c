/* quant.c -- between real numbers and bytes, and elementwise on bytes: exact at every level.
 * SPDX-License-Identifier: Apache-2.0 */
#include "op/harness.h"

typedef struct {
    const char *text;
    double low, high;
    int hurt;
} quant_case;

static void check_all(const quant_case *cases, int n)
{
    for (int i = 0; i < n; i++) {
        op_case c = op_case_of(cases[i].text);
        c.tolerance = 0;
        c.low = cases[i].low;
        c.high = cases[i].high;
        c.hurt = cases[i].hurt;
        c.int_low = strstr(c.text, "i8[") ? -128 : 0;
        c.int_high = strstr(c.text, "i8[") ? 128 : 256;
        op_check(&c);
        if (c.ran == 0)
            fail_msg("no tactic took\n%s", c.text);
    }
}

static void to_bytes(void **state)
{
    (void)state;
    static const quant_case cases[] = {
        {"x: f32[1000]\n@s = f32[] {0.037}\n@z = u8[] {131}\ny = QuantizeLinear(x, @s, @z)\n"
         "return y\n",
         -6, 6, 11},
        {"x: f32[2,3,5,7]\n@s = f32[] {0.5}\n@z = i8[] {-3}\ny = QuantizeLinear(x, @s, @z)\n"
         "return y\n",
         -70, 70, 9},
        {"x: f32[2,3,5,7]\n@s = f32[] {0.25}\ny = QuantizeLinear(x, @s)\nreturn y\n", -70, 70, 0},
        {"x: f32[2,5,7,3]\n@s = f32[5] {0.1,0.2,0.3,0.4,0.5}\n@z = i8[5] {1,2,-3,4,5}\n"
         "y = QuantizeLinear(x, @s, @z) {axis=1}\nreturn y\n",
         -30, 30, 7},
        {"x: f32[33,5]\n@s = f32[5] {0.1,0.2,0.3,0.4,0.5}\n@z = u8[5] {1,2,255,4,5}\n"
         "y = QuantizeLinear(x, @s, @z) {axis=-1}\nreturn y\n",
         -30, 30, 7},
        {"x: f32[0]\n@s = f32[] {0.5}\n@z = u8[] {3}\ny = QuantizeLinear(x, @s, @z)\nreturn y\n", 0,
         1, 0},
        /* halves: to even */
        {"x: f32[64]\n@s = f32[] {1e-6}\n@z = u8[] {3}\ny = QuantizeLinear(x, @s, @z)\nreturn y\n",
         -1, 1, 3},
    };
    check_all(cases, CM_COUNT(cases));
}

static void halves(void **state)
{
    (void)state;
    static const quant_case cases[] = {
        {"@x = f32[9] {0.5,1.5,2.5,-0.5,-1.5,-2.5,3.5,254.5,255.5}\n@s = f32[] {1}\n@z = u8[] {2}\n"
         "y = QuantizeLinear(@x, @s, @z)\nreturn y\n",
         0, 1, 0},
    };
    check_all(cases, CM_COUNT(cases));
}

static void from_bytes(void **state)
{
    (void)state;
    static const quant_case cases[] = {
        {"x: u8[1001]\n@s = f32[] {0.037}\n@z = u8[] {131}\ny = DequantizeLinear(x, @s, @z)\n"
         "return y\n",
         0, 1, 0},
        {"x: i8[2,3,5,7]\n@s = f32[] {0.0371}\ny = DequantizeLinear(x, @s)\nreturn y\n", 0, 1, 0},
        {"x: i8[2,5,7,3]\n@s = f32[5] {0.1,0.2,0.3,0.4,0.5}\n@z = i8[5] {1,2,-3,4,5}\n"
         "y = DequantizeLinear(x, @s, @z) {axis=1}\nreturn y\n",
         0, 1, 0},
        {"x: u8[33,5]\n@s = f32[5] {0.1,0.2,0.3,0.4,0.5}\n@z = u8[5] {1,2,255,4,5}\n"
         "y = DequantizeLinear(x, @s, @z) {axis=1}\nreturn y\n",
         0, 1, 0},
    };
    check_all(cases, CM_COUNT(cases));
}

static void dynamic(void **state)
{
    (void)state;
    static const quant_case cases[] = {
        {"x: f32[777]\ny, s, z = DynamicQuantizeLinear(x)\nreturn y, s, z\n", -3, 5, 0},
        {"x: f32[2,3,9]\ny, s, z = DynamicQuantizeLinear(x)\nreturn y, s, z\n", 2, 5, 0},
        {"x: f32[70]\ny, s, z = DynamicQuantizeLinear(x)\nreturn y, s, z\n", -5, -1, 0},
        {"x: f32[5]\ny, s, z = DynamicQuantizeLinear(x)\nreturn y, s, z\n", 0, 0, 0},
        {"x: f32[400]\n_, s, z = DynamicQuantizeLinear(x)\nreturn s, z\n", -1, 1, 0},
    };
    check_all(cases, CM_COUNT(cases));
}

#define BINARY(op, a, b, type)                                                                     \
    {                                                                                              \
        "a: " type a "\n@as = f32[] {0.021}\n@az = " type "[] {7}\nb: " type b                     \
        "\n@bs = f32[] {0.034}\n@bz = " type "[] {9}\n@ys = f32[] {0.045}\n@yz = " type "[] {5}\n" \
        "y = com.microsoft." op "(a, @as, @az, b, @bs, @bz, @ys, @yz)\nreturn y\n",                \
            0, 1, 0                                                                                \
    }

static void on_bytes(void **state)
{
    (void)state;
    static const quant_case cases[] = {
        BINARY("QLinearAdd", "[2,3,5,7]", "[2,3,5,7]", "u8"),
        BINARY("QLinearAdd", "[1000]", "[1]", "i8"),
        BINARY("QLinearAdd", "[]", "[]", "i8"),
        BINARY("QLinearAdd", "[4,65]", "[65]", "u8"),
        BINARY("QLinearAdd", "[3,1]", "[1,70]", "u8"),
        BINARY("QLinearMul", "[2,3,5,7]", "[2,3,5,7]", "i8"),
        BINARY("QLinearMul", "[2,3,5,7]", "[3,1,1]", "u8"),
        BINARY("QLinearMul", "[1]", "[129]", "u8"),
        {"x: u8[2,3,5,7]\n@s = f32[] {0.05}\n@z = u8[] {120}\n@t = f32[] {0.0039}\n@u = u8[] {3}\n"
         "y = com.microsoft.QLinearSigmoid(x, @s, @z, @t, @u)\nreturn y\n",
         0, 1, 0},
        {"x: i8[300]\n@s = f32[] {0.05}\n@z = i8[] {12}\n@t = f32[] {0.04}\n@u = i8[] {-30}\n"
         "y = com.microsoft.QLinearLeakyRelu(x, @s, @z, @t, @u) {alpha=0.1}\nreturn y\n",
         0, 1, 0},
        {"x: u8[3,333]\n@t = i8[256] random 3\ny = cameo.Lookup(x, @t)\nreturn y\n", 0, 1, 0},
        {"x: i8[2,8,3,5]\n@t = u8[256] random 4\ny = cameo.Lookup(x, @t)\nreturn y\n", 0, 1, 0},
        {"x: i8[64]\n@t = i8[256] random 5\ny = cameo.Lookup(x, @t)\nreturn y\n", 0, 1, 0},
        {"x: u8[0,3]\n@t = u8[256] random 6\ny = cameo.Lookup(x, @t)\nreturn y\n", 0, 1, 0},
    };
    check_all(cases, CM_COUNT(cases));
}

#define POOL(op, x, attrs)                                                                         \
    {                                                                                              \
        "x: " x "\n@s = f32[] {0.05}\n@z = i8[] {12}\n@t = f32[] {0.04}\n@u = i8[] {-30}\n"        \
        "y = com.microsoft." op "(x, @s, @z, @t, @u) {" attrs "}\nreturn y\n",                     \
            0, 1, 0                                                                                \
    }

static void pools(void **state)
{
    (void)state;
    static const quant_case cases[] = {
        POOL("QLinearAveragePool", "i8[2,70,9,8]", "kernel_shape=[2,2], strides=[2,2]"),
        POOL("QLinearAveragePool", "i8[1,3,9,8]", "kernel_shape=[3,3], pads=[1,1,1,1]"),
        POOL("QLinearAveragePool", "i8[1,64,9,8]",
             "kernel_shape=[3,2], pads=[1,0,1,1], count_include_pad=1, strides=[2,3]"),
        POOL("QLinearAveragePool", "i8[1,9,8,6]",
             "kernel_shape=[3,3], channels_last=1, auto_pad=\"SAME_LOWER\""),
        POOL("QLinearAveragePool", "i8[1,9,30]", "kernel_shape=[4], ceil_mode=1, strides=[3]"),
        POOL("QLinearGlobalAveragePool", "i8[2,70,9,8]", ""),
        POOL("QLinearGlobalAveragePool", "i8[2,5,6,70]", "channels_last=1"),
        {"x: u8[2,35,9,8]\ny = MaxPool(x) {kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]}\n"
         "return y\n",
         0, 1, 0},
        {"x: i8[1,130,9,8]\ny = MaxPool(x) {kernel_shape=[2,3], dilations=[2,1]}\nreturn y\n", 0, 1,
         0},
    };
    check_all(cases, CM_COUNT(cases));
}

static void joins(void **state)
{
    (void)state;
    static const quant_case cases[] = {
        {"@ys = f32[] {0.05}\n@yz = u8[] {12}\na: u8[2,3,4,5]\n@as = f32[] {0.02}\n@az = u8[] {8}\n"
         "b: u8[2,37,4,5]\n@bs = f32[] {0.05}\n@bz = u8[] {12}\n"
         "y = com.microsoft.QLinearConcat(@ys, @yz, a, @as, @az, b, @bs, @bz) {axis=1}\nreturn y\n",
         0, 1, 0},
        {"@ys = f32[] {0.05}\n@yz = i8[] {12}\na: i8[4,5]\n@as = f32[] {0.02}\n@az = i8[] {8}\n"
         "y = com.microsoft.QLinearConcat(@ys, @yz, a, @as, @az, a, @ys, @yz) {axis=-1}\nreturn "
         "y\n",
         0, 1, 0},
    };
    check_all(cases, CM_COUNT(cases));
}

/* Other types than bytes and float32, parameters for blocks; most of it is left to the evaluator on CPUs. */
static void other_types(void **state)
{
    (void)state;
    static const char *const small[] = {
        "i8",         "u8", "i16", "u16", "i32", "f8e4m3fn", "f8e4m3fnuz", "f8e5m2",
        "f8e5m2fnuz", "i4", "u4",  "i2",  "u2",  "f4e2m1",   "f6e2m3",     "f6e3m2"};
    static const char *const real[] = {"f32", "f16", "bf16"};
    static const char *const parameters[][2] = {
        {"[]", ""}, {"[5]", " {axis=1}"}, {"[3,2,7]", " {axis=1, block_size=3}"}};
    for (int t = 0; t < CM_COUNT(small); t++)
        for (int r = 0; r < CM_COUNT(real); r++)
            for (int k = 0; k < CM_COUNT(parameters); k++)
                for (int to = 0; to < 2; to++) {
                    char text[400];
                    if (to && !strcmp(small[t], "i32"))
                        continue;
                    snprintf(text, sizeof text,
                             "x: %s[3,5,7]\n@s = %s%s random 4\n@z = %s%s fill 0\n"
                             "y = %sLinear(x, @s, @z)%s\nreturn y\n",
                             to ? real[r] : small[t], real[r], parameters[k][0], small[t],
                             parameters[k][0], to ? "Quantize" : "Dequantize", parameters[k][1]);
                    op_case c = op_case_of(text);
                    c.tolerance = 0;
                    c.low = -90;
                    c.high = 90;
                    op_check(&c);
                    assert_true(c.is_problem);
                }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(other_types), cmocka_unit_test(to_bytes), cmocka_unit_test(halves),
        cmocka_unit_test(from_bytes),  cmocka_unit_test(dynamic),  cmocka_unit_test(on_bytes),
        cmocka_unit_test(pools),       cmocka_unit_test(joins),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
