/* sample.c -- images read at places that data tell.
 * SPDX-License-Identifier: Apache-2.0 */
#include "op/harness.h"

static void grids(void **state)
{
    (void)state;
    static const char *const sizes[] = {
        "x: f32[2,3,5,7]\ng: f32[2,4,9,2]\n",
        "x: f16[1,17,8,8]\ng: f32[1,3,30,2]\n",
        "x: f32[2,3,4,5,6]\ng: f32[2,3,4,5,3]\n",
        "x: f64[3,2,9]\ng: f64[3,20,1]\n",
    };
    static const char *const modes[] = {"nearest", "linear", "cubic"};
    static const char *const paddings[] = {"zeros", "border", "reflection"};
    for (int i = 0; i < 2 * 3 * 3 * CM_COUNT(sizes); i++) {
        char text[256];
        int rest = i / CM_COUNT(sizes);
        snprintf(text, sizeof text,
                 "%sy = GridSample(x, g) {mode=\"%s\", padding_mode=\"%s\", align_corners=%d}\n"
                 "return y\n",
                 sizes[i % CM_COUNT(sizes)], modes[rest % 3], paddings[rest / 3 % 3], rest / 9);
        op_case c = op_case_of(text);
        c.low = -1.4;
        c.high = 1.4;
        c.tolerance = strstr(text, "f16") ? 2e-3 : 1e-5;
        op_check(&c);
        if (!c.is_problem)
            fail_msg("no problem was made of\n%s", c.text);
    }
}

/* Inside images, across their edges, with corners that are exchanged. */
static void regions(void **state)
{
    (void)state;
    static const char *const sizes[] = {
        "x: f32[2,9,12,16]\nr: f32[7,4]\nb: i64[7]\n",
        "x: f16[2,3,8,8]\nr: f16[5,4]\nb: i64[5]\n",
        "x: f64[3,1,30,3]\nr: f64[4,4]\nb: i64[4]\n",
        "x: f32[2,3,1,1]\nr: f32[3,4]\nb: i64[3]\n",
    };
    static const char *const modes[] = {"avg", "max"};
    static const char *const coordinates[] = {"half_pixel", "output_half_pixel"};
    for (int i = 0; i < 2 * 2 * 2 * CM_COUNT(sizes); i++) {
        char text[256];
        int rest = i / CM_COUNT(sizes);
        snprintf(text, sizeof text,
                 "%sy = RoiAlign(x, r, b) {mode=\"%s\", coordinate_transformation_mode=\"%s\", "
                 "sampling_ratio=%d, output_height=3, output_width=5, spatial_scale=0.5}\n"
                 "return y\n",
                 sizes[i % CM_COUNT(sizes)], modes[rest % 2], coordinates[rest / 2 % 2],
                 rest / 4 * 3);
        op_case c = op_case_of(text);
        c.low = -9;
        c.high = 40;
        c.int_high = 2;
        c.tolerance = strstr(text, "f16") ? 2e-3 : 1e-5;
        op_check(&c);
        if (!c.is_problem)
            fail_msg("no problem was made of\n%s", c.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(grids), cmocka_unit_test(regions)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
