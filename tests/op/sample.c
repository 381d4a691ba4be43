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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(grids)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
