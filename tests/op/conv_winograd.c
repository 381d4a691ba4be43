/* conv_winograd.c -- Winograd convolutions against the reference.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Tolerances. With random data, docs/numerics.md has the largest error of each form relative to the output's
 * largest magnitude, for long sums: 4e-7 for F(2,3), 2e-6 for F(4,3), 1.3e-5 for F(6,3). In the small outputs
 * here the largest magnitude is that of few elements, so that it may lie up to 3 times lower beside the
 * sums' size; each is given ten times its typical error. */
#include "op/harness.h"

static const struct {
    const char *name;
    double tolerance;
} forms[] = {{"winograd_f2", 4e-6}, {"winograd_f4", 2e-5}, {"winograd_f6", 1e-4}};

static void check(const char *text)
{
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        op_case c = op_case_of(text);
        c.only = forms[i].name;
        c.tolerance = forms[i].tolerance;
        op_check(&c);
        assert_true(c.ran > 0);
    }
}

static void check_sizes(int n, int h, int w, int c_in, int c_out, const char *pads)
{
    char text[400];
    snprintf(text, sizeof text,
             "x: f32[%d,%d,%d,%d]\n@w = f32[%d,%d,3,3] random 1\n"
             "y = Conv(x, @w) {pads=%s}\nreturn y\n",
             n, c_in, h, w, c_out, c_in, pads);
    check(text);
}

static void sizes(void **state)
{
    (void)state;
    static const int at[] = {1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 13, 17};
    static const int channels[] = {1, 3, 4, 7, 8, 15, 16, 17, 33, 40, 64, 70};
    const int count = sizeof at / sizeof *at;
    for (int i = 0; i < count; i++)
        for (int j = 0; j < 4; j++)
            check_sizes(1 + (i + j) % 2, at[i], at[(i * 5 + j * 3) % count],
                        channels[(i + 3 * j) % count], channels[(5 * i + j) % count], "[1,1,1,1]");
}

static void pads(void **state)
{
    (void)state;
    check_sizes(1, 7, 9, 5, 6, "[0,0,0,0]");
    check_sizes(1, 3, 3, 5, 6, "[0,0,0,0]");
    check_sizes(2, 5, 8, 17, 19, "[2,0,0,1]");
    check_sizes(1, 4, 6, 8, 33, "[0,2,3,0]");
    check_sizes(1, 1, 1, 8, 8, "[1,1,1,1]");
    check_sizes(1, 2, 3, 8, 8, "[5,4,6,7]"); /* tiles that see no input at all */
    check_sizes(1, 2, 3, 100, 40, "[5,4,6,7]");
}

/* Enough tiles and channels that every way of dividing the work comes up. */
static void large(void **state)
{
    (void)state;
    check_sizes(1, 40, 37, 24, 40, "[1,1,1,1]");
    check_sizes(3, 14, 14, 64, 96, "[1,1,1,1]");
    check_sizes(1, 7, 7, 256, 192, "[1,1,1,1]");
    check_sizes(1, 70, 66, 8, 3, "[1,1,1,1]");
    check_sizes(2, 13, 11, 130, 70, "[1,1,1,1]"); /* sums in parts that are not alike */
    check_sizes(1, 9, 7, 600, 40, "[1,1,1,1]");
}

static void volume(void **state)
{
    (void)state;
    check("x: f32[2,5,3,9,6]\n@w = f32[7,5,1,3,3] random 1\n"
          "y = Conv(x, @w) {pads=[0,1,1,0,1,1]}\nreturn y\n");
}

static void epilogues(void **state)
{
    (void)state;
    check("x: f32[1,20,9,11]\n@w = f32[37,20,3,3] random 1\n@b = f32[37] random 2\n"
          "y = Conv(x, @w, @b) {pads=[1,1,1,1]}\nreturn y\n");
    check("x: f32[2,20,9,11]\nr: f32[2,37,9,11]\n@w = f32[37,20,3,3] random 1\n@b = f32[37] random "
          "2\n"
          "y = Conv(x, @w, @b | r) {pads=[1,1,1,1]} then \"add x $0; relu %0\"\nreturn y\n");
    check("x: f32[1,20,9,11]\n@w = f32[37,20,3,3] random 1\n@b = f32[37,1,1] random 2\n"
          "y = Conv(x, @w | @b) {pads=[1,1,1,1]} then \"add x $0; sigmoid %0; mul %0 %1\"\n"
          "return y\n");
    check(
        "x: f32[1,20,9,11]\nr: f32[1,1,9,11]\n@w = f32[70,20,3,3] random 1\n@b = f32[70] random 2\n"
        "y = Conv(x, @w, @b | r) {pads=[1,1,1,1]} then \"mul x $0; tanh %0\"\nreturn y\n");
}

static void declines(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "x: f32[1,4,9,9]\n@w = f32[4,4,3,3] random 1\ny = Conv(x, @w) {strides=[2,2]}\nreturn y\n",
        "x: f32[1,4,9,9]\n@w = f32[4,4,3,3] random 1\ny = Conv(x, @w) {dilations=[2,2]}\nreturn "
        "y\n",
        "x: f32[1,4,9,9]\n@w = f32[4,2,3,3] random 1\ny = Conv(x, @w) {group=2}\nreturn y\n",
        "x: f32[1,4,9,9]\n@w = f32[4,4,3,1] random 1\ny = Conv(x, @w)\nreturn y\n",
        "x: f64[1,4,9,9]\n@w = f64[4,4,3,3] random 1\ny = Conv(x, @w)\nreturn y\n",
        "x: f32[1,4,9,9]\nw: f32[4,4,3,3]\ny = Conv(x, w)\nreturn y\n",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        op_case c = op_case_of(texts[i]);
        c.only = "winograd";
        op_check(&c);
        assert_true(c.is_problem);
        assert_true(op_none_ran(&c));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes),  cmocka_unit_test(pads),      cmocka_unit_test(large),
        cmocka_unit_test(volume), cmocka_unit_test(epilogues), cmocka_unit_test(declines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
