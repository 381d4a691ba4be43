/* sample.c -- images read at places that data tell.
 * SPDX-License-Identifier: Apache-2.0 */
#include "op/harness.h"

static const char *const modes[] = {"nearest", "linear", "cubic"};
static const char *const paddings[] = {"zeros", "border", "reflection"};

static void grids(void **state)
{
    (void)state;
    static const char *const sizes[] = {
        "x: f32[2,3,5,7]\ng: f32[2,4,9,2]\n",
        "x: f16[1,17,8,8]\ng: f32[1,3,30,2]\n",
        "x: f32[2,3,4,5,6]\ng: f32[2,3,4,5,3]\n",
        "x: f64[3,2,9]\ng: f64[3,20,1]\n",
    };
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
        if (!c.is_problem || (strstr(text, "x: f32") && !c.ran))
            fail_msg("no problem was made of\n%s", c.text);
    }
}

/* All modes of one pair of shapes. Float32 has weights and places behind an element to a few 2^-24 whatever the size of the image, and
 * the weights of a place add up to less than 3 in absolute value: the tolerance is some ten times that. */
static void all_modes(const char *shapes, double reach, int hurt, uint32_t seed)
{
    const bool constant = shapes[0] == '@';
    for (int i = 0; i < 2 * 3 * 3; i++) {
        char text[256];
        snprintf(text, sizeof text,
                 "%sy = GridSample(%s, g) {mode=\"%s\", padding_mode=\"%s\", align_corners=%d}\n"
                 "return y\n",
                 shapes, constant ? "@x" : "x", modes[i % 3], paddings[i / 3 % 3], i / 9);
        if (hurt && !constant && i % 3 == 2) /* sums of huge elements leave float32 on the way */
            continue;
        op_case c = op_case_of(text);
        c.low = -reach;
        c.high = reach;
        c.hurt = hurt;
        c.seed = seed + (uint32_t)i;
        c.tolerance = 4e-6;
        op_check(&c);
        if (c.ran == 0)
            fail_msg("no tactic takes\n%s", c.text);
    }
}

/* Runs of places that end anywhere, in one image and several; axes of one element and of few. */
static void many_shapes(void **state)
{
    (void)state;
    uint32_t random = 7;
    for (int i = 0; i < 60; i++) {
        char shapes[128];
        int n = 1 + (int)(op_random(&random) % 3), c = 1 + (int)(op_random(&random) % 20);
        int h = 1 + (int)(op_random(&random) % 12), w = 1 + (int)(op_random(&random) % 12);
        int oh = 1 + (int)(op_random(&random) % 12), ow = 1 + (int)(op_random(&random) % 40);
        if (i % 3 == 0)
            snprintf(shapes, sizeof shapes, "x: f32[%d,%d,%d,%d,%d]\ng: f32[%d,%d,%d,%d,3]\n", n,
                     c % 5 + 1, h % 6 + 1, w % 6 + 1, h, n, oh % 5 + 1, ow % 7 + 1, 3);
        else
            snprintf(shapes, sizeof shapes, "x: f32[%d,%d,%d,%d]\ng: f32[%d,%d,%d,2]\n", n, c, h, w,
                     n, oh, ow);
        all_modes(shapes, i % 2 ? 1.2 : 4, 0, (uint32_t)i * 100 + 1);
    }
}

/* Digits of places are not lost in long axes. */
static void long_axes(void **state)
{
    (void)state;
    all_modes("x: f32[1,2,3001,4]\ng: f32[1,30,30,2]\n", 1.1, 0, 1);
    all_modes("x: f32[1,1,2,2000]\ng: f32[1,3,200,2]\n", 1.1, 0, 2);
    all_modes("x: f32[1,2,300]\ng: f32[1,300,1]\n", 1.1, 0, 3);
}

/* Places and elements that are NaN, infinite, huge, or so small that they are nearly 0; places in the middle. */
static void painful_places(void **state)
{
    (void)state;
    for (uint32_t seed = 1; seed < 12; seed++) {
        all_modes("x: f32[2,3,5,7]\ng: f32[2,4,9,2]\n", 1.2, 5, seed * 100);
        all_modes("x: f32[1,17,6,4]\ng: f32[1,3,30,2]\n", 1.2, 3, seed * 100);
        all_modes("x: f32[1,2,3,4,5]\ng: f32[1,3,7,2,3]\n", 1.2, 4, seed * 100);
        all_modes("@x = f32[2,3,5,7] random 1\ng: f32[2,9,9,2]\n", 1.2, 4, seed * 100);
        all_modes("x: f32[1,17,6,4]\ng: f32[1,3,30,2]\n", 1e6, 0, seed);
        all_modes("x: f32[1,2,5,4]\ng: f32[1,3,30,2]\n", 1e20, 0, seed);
    }
}

static void empty_or_single(void **state)
{
    (void)state;
    static const char *const shapes[] = {
        "x: f32[2,3,1,1]\ng: f32[2,5,4,2]\n",     "x: f32[1,1,1,9]\ng: f32[1,1,1,2]\n",
        "x: f32[1,5,9,1]\ng: f32[1,2,17,2]\n",    "x: f32[0,3,4,4]\ng: f32[0,5,4,2]\n",
        "x: f32[2,0,4,4]\ng: f32[2,5,4,2]\n",     "x: f32[2,3,4,4]\ng: f32[2,0,4,2]\n",
        "x: f32[2,3,1,1,1]\ng: f32[2,5,4,1,3]\n", "x: f32[1,2,1]\ng: f32[1,7,1]\n",
        "x: f32[1,2,2,2]\ng: f32[1,9,33,2]\n",    "x: f32[1,2,4,4]\ng: f32[1,40,33,2]\n",
    };
    for (int i = 0; i < CM_COUNT(shapes); i++)
        all_modes(shapes[i], 1.5, 0, 5);
}

/* The older operator has the longer names of the modes. */
static void older_names(void **state)
{
    (void)state;
    static const char *const names[] = {"bilinear", "bicubic", "nearest"};
    for (int i = 0; i < CM_COUNT(names); i++) {
        char text[256];
        snprintf(text, sizeof text,
                 "x: f32[1,5,8,8]\ng: f32[1,9,30,2]\n"
                 "y = com.microsoft.GridSample(x, g) {mode=\"%s\"}\nreturn y\n",
                 names[i]);
        op_case c = op_case_of(text);
        op_check(&c);
        assert_true(c.ran > 0);
    }
}

/* Places that lie exactly on elements and halfway between them. */
static void halves(void **state)
{
    (void)state;
    for (int i = 0; i < 3 * 2; i++) {
        char text[512];
        snprintf(text, sizeof text,
                 "x: f32[1,3,3,5]\n@g = f32[1,2,7,2] {-1,-1, -0.75,-0.5, -0.5,0, -0.25,0.5, 0,1, "
                 "0.25,-1.5, 0.5,2, 0.75,0.25, 1,-0.25, 1.25,0.75, -1.25,1.25, 2,0, 0,0, 1.5,-2}\n"
                 "y = GridSample(x, @g) {mode=\"nearest\", padding_mode=\"%s\", align_corners=%d}\n"
                 "return y\n",
                 paddings[i % 3], i / 3);
        op_case c = op_case_of(text);
        c.tolerance = 0;
        op_check(&c);
        assert_true(c.ran > 0);
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
    static const char *const ways[] = {"avg", "max"};
    static const char *const coordinates[] = {"half_pixel", "output_half_pixel"};
    for (int i = 0; i < 2 * 2 * 2 * CM_COUNT(sizes); i++) {
        char text[256];
        int rest = i / CM_COUNT(sizes);
        snprintf(text, sizeof text,
                 "%sy = RoiAlign(x, r, b) {mode=\"%s\", coordinate_transformation_mode=\"%s\", "
                 "sampling_ratio=%d, output_height=3, output_width=5, spatial_scale=0.5}\n"
                 "return y\n",
                 sizes[i % CM_COUNT(sizes)], ways[rest % 2], coordinates[rest / 2 % 2],
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
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grids),           cmocka_unit_test(many_shapes),
        cmocka_unit_test(long_axes),       cmocka_unit_test(painful_places),
        cmocka_unit_test(empty_or_single), cmocka_unit_test(halves),
        cmocka_unit_test(older_names),     cmocka_unit_test(regions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
