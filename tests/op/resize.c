/* resize.c -- Resize in all modes, at every level and in both layouts.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Nearest is exact. Weights are rounded to float32, and a position is a sum of at most a few dozen terms with
 * weights that add up to 1 (cubic: magnitudes up to 1.6 an axis): 2e-6 of the scale is ten roundings. */
#include "op/harness.h"

static const char *const coords[] = {"half_pixel",         "half_pixel_symmetric",
                                     "pytorch_half_pixel", "align_corners",
                                     "asymmetric",         "tf_half_pixel_for_nn"};
static const char *const nearests[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"};

static void check(const char *text, bool exact, int hurt)
{
    op_case c = op_case_of(text);
    c.tolerance = exact ? 0 : 2e-6;
    c.hurt = hurt;
    op_check(&c);
    /* tf_half_pixel_for_nn moves every axis, those of size 1 and unscaled ones too: that may be four. */
    if (c.ran == 0 && !strstr(text, "tf_half_pixel_for_nn"))
        fail_msg("no tactic took\n%s", text);
}

/* With sizes, and with scales of the same ratios. */
static void check_sizes(const char *type, const char *in, const char *sizes, const char *scales,
                        int n, const char *attr, bool exact, int hurt)
{
    char text[500];
    snprintf(text, sizeof text,
             "x: %s[%s]\n@s = i64[%d] {%s}\ny = Resize(x, _, _, @s) {%s}\nreturn y\n", type, in, n,
             sizes, attr);
    check(text, exact, hurt);
    snprintf(text, sizeof text,
             "x: %s[%s]\n@s = f32[%d] {%s}\ny = Resize(x, _, @s) {%s}\nreturn y\n", type, in, n,
             scales, attr);
    check(text, exact, hurt);
}

static const struct {
    const char *in, *sizes, *scales;
    int n;
} shapes[] = {
    {"1,17,8,9", "1,17,16,18", "1,1,2,2", 4},
    {"2,3,7,5", "2,3,11,13", "1,1,1.6,2.6", 4},
    {"1,64,16,16", "1,64,7,9", "1,1,0.45,0.6", 4},
    {"1,5,1,1", "1,5,4,3", "1,1,4,3", 4},
    {"2,4,20", "2,4,33", "1,1,1.7", 3},
    {"1,6,4,5,6", "1,6,8,7,9", "1,1,2,1.5,1.5", 5},
    {"9,12", "13,30", "1.5,2.5", 2},
    {"1,20,6,7", "1,20,6,21", "1,1,1,3", 4},
    {"1,20,6,7", "1,20,15,7", "1,1,2.5,1", 4},
    {"1,40,30,1", "1,40,60,1", "1,1,2,1", 4},
};

static void nearest(void **state)
{
    (void)state;
    for (int s = 0; s < CM_COUNT(shapes); s++)
        for (int c = 0; c < CM_COUNT(coords); c++)
            for (int n = 0; n < CM_COUNT(nearests); n++) {
                char attr[200];
                snprintf(
                    attr, sizeof attr,
                    "mode=\"nearest\", coordinate_transformation_mode=\"%s\", nearest_mode=\"%s\"",
                    coords[c], nearests[n]);
                check_sizes("f32", shapes[s].in, shapes[s].sizes, shapes[s].scales, shapes[s].n,
                            attr, true, 30);
            }
}

static void types(void **state)
{
    (void)state;
    static const char *const names[] = {"u8", "i8", "f16", "bf16", "i32", "f64", "i64", "bool"};
    for (int t = 0; t < CM_COUNT(names); t++)
        check_sizes(names[t], "2,5,7,6", "2,5,14,18", "1,1,2,3", 4, "mode=\"nearest\"", true, 0);
}

static void interpolated(void **state)
{
    (void)state;
    static const char *const more[] = {"mode=\"linear\"", "mode=\"cubic\"",
                                       "mode=\"cubic\", exclude_outside=1, cubic_coeff_a=-0.5",
                                       "mode=\"linear\", antialias=1",
                                       "mode=\"cubic\", antialias=1"};
    for (int s = 0; s < CM_COUNT(shapes); s++)
        for (int c = 0; c < CM_COUNT(coords); c++)
            for (int m = 0; m < CM_COUNT(more); m++) {
                char attr[200];
                snprintf(attr, sizeof attr, "%s, coordinate_transformation_mode=\"%s\"", more[m],
                         coords[c]);
                check_sizes("f32", shapes[s].in, shapes[s].sizes, shapes[s].scales, shapes[s].n,
                            attr, false, 0);
            }
}

/* Runs of several elements, of a row or of channels, down strips: GPUs have tactics for these, the CPU has none. */
static void short_floats(void **state)
{
    (void)state;
    static const char *const types[] = {"f16", "bf16"};
    for (int t = 0; t < CM_COUNT(types); t++) {
        char text[300];
        snprintf(text, sizeof text,
                 "x: %s[2,16,19,16]\n@s = f32[4] {1,1,2,2}\ny = Resize(x, _, @s) "
                 "{mode=\"linear\"}\nreturn y\n",
                 types[t]);
        op_case c = op_case_of(text);
        c.tolerance = t ? 8e-3 : 1e-3;
        op_check(&c);
        assert_true(c.ran > 0 || op_targets()->n == 0);
        snprintf(text, sizeof text,
                 "x: %s[1,8,12,9]\n@s = i64[4] {1,8,29,20}\ny = Resize(x, _, _, @s) "
                 "{mode=\"linear\", coordinate_transformation_mode=\"align_corners\"}\n"
                 "return y\n",
                 types[t]);
        c = op_case_of(text);
        c.tolerance = t ? 8e-3 : 1e-3;
        op_check(&c);
    }
}

/* Weights of 0 read nothing: what is not finite stays where it is. */
static void hurt(void **state)
{
    (void)state;
    check_sizes("f32", "1,17,8,9", "1,17,16,18", "1,1,2,2", 4,
                "mode=\"linear\", coordinate_transformation_mode=\"asymmetric\"", false, 60);
    check_sizes("f32", "1,17,8,9", "1,17,8,27", "1,1,1,3", 4, "mode=\"cubic\"", false, 60);
}

static void crops(void **state)
{
    (void)state;
    static const char *const modes[] = {"nearest", "linear", "cubic"};
    for (int m = 0; m < CM_COUNT(modes); m++) {
        char text[500];
        snprintf(
            text, sizeof text,
            "x: f32[1,18,9,8]\n@r = f32[8] {0,0,0.2,-0.3,1,1,1.4,0.7}\n@s = i64[4] {1,18,12,11}\n"
            "y = Resize(x, @r, _, @s) {mode=\"%s\", "
            "coordinate_transformation_mode=\"tf_crop_and_resize\", extrapolation_value=7.5}\n"
            "return y\n",
            modes[m]);
        check(text, m == 0, 0);
    }
}

static void others(void **state)
{
    (void)state;
    check("x: f32[1,18,9,8]\n@s = i64[2] {20,20}\ny = Resize(x, _, _, @s) {mode=\"linear\", "
          "axes=[2,3], keep_aspect_ratio_policy=\"not_larger\"}\nreturn y\n",
          false, 0);
    check("x: f32[1,300,40,50]\n@s = f32[2] {0.05,0.03}\ny = Resize(x, _, @s) {mode=\"cubic\", "
          "axes=[2,3], antialias=1}\nreturn y\n",
          false, 0); /* more taps than rows are blended at once */
}

static void epilogues(void **state)
{
    (void)state;
    check("x: f32[2,18,9,8]\nr: f32[2,18,18,16]\n@s = f32[4] {1,1,2,2}\n"
          "y = Resize(x, _, @s | r) {mode=\"linear\"} then \"add x $0; relu %0\"\nreturn y\n",
          false, 0);
    check("x: f32[2,18,9,8]\n@b = f32[18,1,1] random 1\n@s = f32[4] {1,1,2,2}\n"
          "y = Resize(x, _, @s | @b) then \"add x $0\"\nreturn y\n",
          false, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nearest),      cmocka_unit_test(types),     cmocka_unit_test(interpolated),
        cmocka_unit_test(short_floats), cmocka_unit_test(hurt),      cmocka_unit_test(crops),
        cmocka_unit_test(others),       cmocka_unit_test(epilogues),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
