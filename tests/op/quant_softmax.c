/* quant_softmax.c -- softmax of bytes: within a step of the reference.
 * SPDX-License-Identifier: Apache-2.0 */
#include "op/harness.h"

/* The reference rounds real numbers, the tactics distances: results that lie beside a tie may differ by a step. Nothing
 * is rounded where elements are equal. */
static void check(const char *text, uint32_t seed, int64_t low, int64_t high, int hurt)
{
    op_case c = op_case_of(text);
    c.steps = high - low > 1;
    c.seed = seed;
    c.int_low = low;
    c.int_high = high;
    c.hurt = hurt;
    op_check(&c);
    if (c.ran == 0)
        fail_msg("no tactic took\n%s", text);
}

static void check_case(const char *type, const char *shape, const char *attrs, double scale,
                       double y_scale)
{
    bool is_signed = type[0] == 'i';
    char text[400];
    snprintf(text, sizeof text,
             "x: %s%s\n@s = f32[] {%.9g}\n@z = %s[] {%d}\n@t = f32[] {%.9g}\n@u = %s[] {%d}\n"
             "y = com.microsoft.QLinearSoftmax(x, @s, @z, @t, @u) {%s}\nreturn y\n",
             type, shape, scale, type, is_signed ? -3 : 131, y_scale, type, is_signed ? -128 : 2,
             attrs);
    check(text, 1, is_signed ? -128 : 0, is_signed ? 128 : 256, 0);
    check(text, 2, 40, 44, 0);
    check(text, 1, 40, 41, 0);
}

static void sizes(void **state)
{
    (void)state;
    static const char *const shapes[] = {
        "[]",      "[1]",     "[0]",     "[3,0]",    "[0,5]",    "[70,1]",   "[9,2]",
        "[5,7]",   "[3,16]",  "[4,31]",  "[2,3,64]", "[2,5,65]", "[3,97]",   "[2,128]",
        "[2,197]", "[3,255]", "[2,256]", "[3,257]",  "[1,516]",  "[2,1024]", "[1,4101]"};
    for (int i = 0; i < CM_COUNT(shapes); i++)
        for (int s = 0; s < 2; s++)
            check_case(s ? "i8" : "u8", shapes[i], "opset=13", 0.05, 0.00390625);
}

/* What one row's threads share, and rows that are many for few of them. */
static void long_rows(void **state)
{
    (void)state;
    check_case("u8", "[1,16400]", "opset=13", 0.03, 1e-4);
    check_case("i8", "[2,4099]", "opset=13", 0.1, 1e-4);
    check_case("u8", "[300,48]", "opset=13", 0.02, 0.002);
}

/* From results that all differ to such as are all the same; the sign of a scale turns the order. */
static void scales(void **state)
{
    (void)state;
    static const double x[] = {0, 1e-30, 1e-4, 0.01, -0.02, 0.2, 1, -3.7, 20, 103, 1e5, 1e30};
    static const double y[] = {0.00390625, 1e-5, 0.0039215689, -0.002, 1e-9, 1e-30, 2, 1e30};
    for (int i = 0; i < CM_COUNT(x); i++)
        for (int k = 0; k < CM_COUNT(y); k++) {
            check_case("u8", "[2,43]", "opset=13", x[i], y[k]);
            check_case("i8", "[2,300]", "opset=13", x[i], y[k]);
        }
}

/* Parameters that are no numbers, or computed, or absent. */
static void parameters(void **state)
{
    (void)state;
    static const char *const shapes[] = {"[2,33]", "[3,272]"};
    for (int i = 0; i < CM_COUNT(shapes); i++)
        for (uint32_t seed = 1; seed <= 24; seed++) {
            char text[300];
            snprintf(text, sizeof text,
                     "x: u8%s\ns: f32[]\nz: u8[]\nt: f32[1]\nu: u8[]\n"
                     "y = com.microsoft.QLinearSoftmax(x, s, z, t, u) {opset=13}\nreturn y\n",
                     shapes[i]);
            check(text, seed, 120, 140, 1 + seed % 3);
        }
    check("x: i8[3,20]\n@s = f32[] {0.1}\n@t = f32[] {0.01}\n"
          "y = com.microsoft.QLinearSoftmax(x, @s, _, @t) {opset=13}\nreturn y\n",
          1, -128, 128, 0);
}

/* Before opset 13 rows run along all axes from `axis` on; a row of channels lies side by side where these are last. */
static void axes(void **state)
{
    (void)state;
    check_case("u8", "[2,3,5,7]", "opset=12, axis=1", 0.05, 0.001);
    check_case("i8", "[2,3,16]", "opset=11, axis=-2", 0.05, 0.001);
    check_case("u8", "[4,6]", "opset=9, axis=0", 0.05, 0.001);
    check_case("u8", "[2,19,3,5]", "opset=13, axis=1", 0.05, 0.001);
    check_case("i8", "[4,3,1,1]", "opset=13, axis=1", 0.05, 0.001);
    check_case("u8", "[4,3,1]", "opset=13, axis=-1", 0.05, 0.001);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes),      cmocka_unit_test(long_rows), cmocka_unit_test(scales),
        cmocka_unit_test(parameters), cmocka_unit_test(axes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
