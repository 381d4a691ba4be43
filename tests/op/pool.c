/* pool.c -- pools of all kinds, at every level and in both layouts.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The largest is exact. Adding n numbers of one sign in float32 one after the other is off by about the
 * square root of n / 3 times 2^-25 of the sum, three times that at worst. Sums are taken by runs of at most 64
 * and these by rows, so that 1e-6 leaves a factor of two. Means and norms are of positive numbers. */
#include "op/harness.h"

static uint32_t state = 7;

static int pick(int low, int high)
{
    return low + (int)(op_random(&state) % (uint32_t)(high - low + 1));
}

/* Of random pools. Means of 16 bits are rounded once, by us and by the reference: the same way but for ties. */
static const char *elements = "f32";
static double rounding = 1e-6;

static void check(const char *text, bool exact, int hurt)
{
    op_case c = op_case_of(text);
    c.tolerance = exact ? 0 : rounding;
    c.hurt = hurt;
    c.low = exact ? -1 : 0;
    c.seed = state;
    op_check(&c);
    if (c.ran == 0)
        fail_msg("no tactic took\n%s", text);
}

static char *list(char *to, const char *name, const int *v, int n)
{
    to += sprintf(to, ", %s=[", name);
    for (int i = 0; i < n; i++)
        to += sprintf(to, i ? ",%d" : "%d", v[i]);
    return to + sprintf(to, "]");
}

/* A window that fits, somewhere. */
static void random_pool(const char *op, const char *more, bool exact)
{
    char text[600], *t = text;
    int axes = pick(1, 3), kernel[3], stride[3], dilation[3], pads[6];
    t += sprintf(t, "x: %s[%d,%d", elements, pick(1, 2), pick(0, 2) ? pick(1, 20) : pick(1, 150));
    for (int i = 0; i < axes; i++) {
        kernel[i] = pick(1, 4);
        stride[i] = pick(1, 3);
        dilation[i] = pick(0, 2) ? 1 : pick(1, 3);
        int reach = (kernel[i] - 1) * dilation[i];
        pads[i] = pick(0, 1) ? 0 : pick(0, reach);
        pads[axes + i] = pick(0, 1) ? 0 : pick(0, reach);
        t += sprintf(t, ",%d", reach + pick(1, axes == 1 ? 70 : axes == 2 ? 20 : 7));
    }
    t += sprintf(t, "]\ny = %s(x) {ceil_mode=%d%s", op, pick(0, 1), more);
    t = list(t, "kernel_shape", kernel, axes);
    t = list(t, "strides", stride, axes);
    t = list(t, "dilations", dilation, axes);
    t = list(t, "pads", pads, 2 * axes);
    sprintf(t, "}\nreturn y\n");
    check(text, exact, exact && pick(0, 3) == 0 ? 20 : 0);
}

static void largest(void **unused)
{
    (void)unused;
    for (int i = 0; i < 150; i++)
        random_pool("MaxPool", "", true);
}

/* The commonest: 2 x 2 windows side by side, rows and columns that are left over or not. */
static void quarters(void **unused)
{
    static const char *const ops[] = {"MaxPool", "AveragePool", "LpPool"};
    (void)unused;
    for (int i = 0; i < 60; i++) {
        char text[300];
        sprintf(text,
                "x: f32[%d,%d,%d,%d]\ny = %s(x) {kernel_shape=[2,2], strides=[2,2]%s}\nreturn y\n",
                pick(1, 2), pick(1, 20), pick(2, 30), pick(2, 70), ops[i % 3],
                i % 3 == 2 ? i % 2 ? ", p=1" : ", p=2" : "");
        check(text, i % 3 == 0, i % 6 == 0 ? 20 : 0);
    }
}

static void mean(void **unused)
{
    (void)unused;
    for (int i = 0; i < 60; i++) {
        random_pool("AveragePool", "", false);
        random_pool("AveragePool", ", count_include_pad=1", false);
        random_pool("AveragePool", ", count_include_pad=1, count_overhang=1", false);
    }
}

static void norm(void **unused)
{
    (void)unused;
    for (int i = 0; i < 40; i++) {
        random_pool("LpPool", ", p=1", false);
        random_pool("LpPool", ", p=2", false);
    }
}

static void global(void **unused)
{
    (void)unused;
    static const char *const shapes[] = {"1,2048,7,7", "2,5,1,1",  "1,3,61,59", "3,70,4,5",
                                         "1,1,1,1",    "2,17,900", "1,20,5,6,7"};
    static const char *const ops[] = {"GlobalMaxPool", "GlobalAveragePool", "GlobalLpPool"};
    for (int i = 0; i < CM_COUNT(shapes); i++)
        for (int o = 0; o < CM_COUNT(ops); o++) {
            char text[200];
            snprintf(text, sizeof text, "x: f32[%s]\ny = %s(x)\nreturn y\n", shapes[i], ops[o]);
            check(text, o == 0, o == 0 ? 30 : 0);
        }
    check("x: u8[2,64,9,9]\ny = MaxPool(x) {kernel_shape=[9,9]}\nreturn y\n", true, 0);
    check("x: f16[2,40,30,31]\ny = GlobalMaxPool(x)\nreturn y\n", true, 30);
    check("x: f32[1,3,40,50]\ny = GlobalLpPool(x) {p=1}\nreturn y\n", false, 0);
}

static void usual(void **unused)
{
    (void)unused;
    check("x: f32[1,64,33,31]\ny = MaxPool(x) {kernel_shape=[3,3], strides=[2,2], "
          "pads=[1,1,1,1]}\nreturn y\n",
          true, 100);
    check("x: f32[2,20,30,64]\ny = MaxPool(x) {kernel_shape=[2,2], strides=[2,2]}\nreturn y\n",
          true, 100);
    check("x: f32[1,8,9,10]\ny = MaxPool(x) {kernel_shape=[3,3], auto_pad=\"SAME_UPPER\"}\n"
          "return y\n",
          true, 0);
    check("x: f32[1,2,5000]\ny = AveragePool(x) {kernel_shape=[3]}\nreturn y\n", false, 0);
    check("x: f32[1,2,5000]\ny = AveragePool(x) {kernel_shape=[1500], strides=[7]}\nreturn y\n",
          false, 0);
    check("x: f32[1,2,5000]\ny = MaxPool(x) {kernel_shape=[3], dilations=[900]}\nreturn y\n", true,
          0);
}

static void epilogues(void **unused)
{
    (void)unused;
    check(
        "x: f32[2,70,9,8]\n@b = f32[70,1,1] random 1\n"
        "y = AveragePool(x | @b) {kernel_shape=[3,2], pads=[1,0,1,0]} then \"add x $0; relu %0\"\n"
        "return y\n",
        false, 0);
    check("x: f32[2,1500,5,4]\ny = GlobalAveragePool(x) then \"sigmoid x\"\nreturn y\n", false, 0);
    check("x: f32[2,3,5,4]\nr: f32[2,3,1,1]\ny = GlobalAveragePool(x | r) then \"mul x $0\"\n"
          "return y\n",
          false, 0);
}

static void halves(void **unused)
{
    (void)unused;
    for (int i = 0; i < 2; i++) {
        elements = i ? "bf16" : "f16";
        rounding = i ? 0x1p-7 : 0x1p-10; /* one unit in the last place */
        for (int k = 0; k < 40; k++) {
            random_pool("MaxPool", "", true);
            random_pool("AveragePool", "", false);
            random_pool("LpPool", ", p=2", false);
        }
    }
    elements = "f32";
    rounding = 1e-6;
}

static void declines(void **unused)
{
    (void)unused;
    static const char *const texts[] = {
        "x: f32[1,4,9,9]\ny, i = MaxPool(x) {kernel_shape=[2,2]}\nreturn y, i\n",
        "x: f32[1,4,9,9]\ny = LpPool(x) {kernel_shape=[2,2], p=3}\nreturn y\n",
        "x: f64[1,4,9,9]\ny = MaxPool(x) {kernel_shape=[2,2]}\nreturn y\n",
    };
    for (int i = 0; i < CM_COUNT(texts); i++) {
        op_case c = op_case_of(texts[i]);
        op_check(&c);
        assert_true(c.is_problem);
        assert_true(op_none_ran(&c));
    }
}

/* Where the largest were; on the CPU that is the reference's to say. */
static void places(void **unused)
{
    (void)unused;
    static const char *const texts[] = {
        "x: f32[2,3,17]\ny, i = MaxPool(x) {kernel_shape=[3], strides=[2], pads=[1,1]}\n",
        "x: f32[2,3,9,11]\ny, i = MaxPool(x) {kernel_shape=[3,2], strides=[2,2], pads=[1,0,1,1], "
        "dilations=[2,1], ceil_mode=1}\n",
        "x: f16[1,2,6,7]\ny, i = MaxPool(x) {kernel_shape=[2,2], storage_order=1}\n",
        "x: u8[1,2,5,6,7]\ny, i = MaxPool(x) {kernel_shape=[2,3,2], strides=[1,2,1], "
        "storage_order=1}\n",
        "x: f64[2,1,5,6]\ny, i = MaxPool(x) {kernel_shape=[2,2], strides=[2,2]}\n",
    };
    for (int i = 0; i < CM_COUNT(texts); i++) {
        char text[300];
        snprintf(text, sizeof text, "%sreturn y, i\n", texts[i]);
        op_case c = op_case_of(text);
        c.tolerance = 0;
        op_check(&c);
        if (!c.is_problem)
            fail_msg("no problem was made of\n%s", text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(largest),   cmocka_unit_test(quarters), cmocka_unit_test(mean),
        cmocka_unit_test(norm),      cmocka_unit_test(global),   cmocka_unit_test(usual),
        cmocka_unit_test(epilogues), cmocka_unit_test(halves),   cmocka_unit_test(declines),
        cmocka_unit_test(places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
