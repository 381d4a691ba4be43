/* nms.c -- the best boxes of each class that do not overlap better ones.
 * SPDX-License-Identifier: Apache-2.0 */
#include "op/harness.h"

static void check(const char *text, double low, double high, int hurt)
{
    op_case c = op_case_of(text);
    c.low = low;
    c.high = high;
    c.hurt = hurt;
    op_check(&c);
    assert_true(c.is_problem);
}

/* Few and many boxes, kept and hidden; more than are sorted at once; more than are wanted. */
static void sizes(void **state)
{
    (void)state;
    static const struct {
        int batches, classes, boxes, most;
        double overlap;
    } cases[] = {{1, 1, 1, 5, 0.5},        {1, 1, 6, 3, 0.5},     {2, 3, 70, 20, 0.3},
                 {1, 2, 500, 1000, 0.5},   {3, 1, 129, 129, 0.0}, {1, 1, 5000, 40, 0.4},
                 {1, 1, 9000, 4500, 0.95}, {2, 2, 64, 0, 0.5},    {1, 2, 65, -3, 0.5},
                 {2, 0, 10, 5, 0.5},       {1, 2, 0, 5, 0.5},     {2, 2, 200, 50, 1.0}};
    for (int i = 0; i < CM_COUNT(cases); i++)
        for (int form = 0; form < 4; form++) {
            char text[320];
            snprintf(text, sizeof text,
                     "b: f32[%d,%d,4]\ns: f32[%d,%d,%d]\n@m = i64[1] {%d}\n@o = f32[1] {%g}\n"
                     "@l = f32[1] {0.3}\ny = NonMaxSuppression(b, s, @m, @o%s) "
                     "{center_point_box=%d}\nreturn y\n",
                     cases[i].batches, cases[i].boxes, cases[i].batches, cases[i].classes,
                     cases[i].boxes, cases[i].most, cases[i].overlap, form & 1 ? ", @l" : "",
                     form / 2);
            check(text, 0, 1, 0);
        }
}

/* NaN and infinities in boxes and scores; thresholds and limits that come with the data, or are absent. */
static void odd_ones(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "b: f32[2,90,4]\ns: f32[2,2,90]\n@m = i64[1] {80}\n@o = f32[1] {0.2}\n"
        "y = NonMaxSuppression(b, s, @m, @o)\nreturn y\n",
        "b: f32[2,90,4]\ns: f32[2,2,90]\n@m = i64[1] {80}\n@o = f32[1] {0.2}\n@l = f32[1] {0.1}\n"
        "y = NonMaxSuppression(b, s, @m, @o, @l) {center_point_box=1}\nreturn y\n",
        "b: f32[2,90,4]\ns: f32[2,2,90]\nm: i64[1]\no: f32[1]\nl: f32[1]\n"
        "y = NonMaxSuppression(b, s, m, o, l)\nreturn y\n",
        "b: f32[2,90,4]\ns: f32[2,2,90]\nm: i64[]\ny = NonMaxSuppression(b, s, m)\nreturn y\n",
        "b: f32[2,90,4]\ns: f32[2,2,90]\ny = NonMaxSuppression(b, s)\nreturn y\n",
        "b: f32[1,90,4]\ns: f32[1,1,90]\n@m = i64[1] {80}\n@o = f32[1] {-1}\n"
        "y = NonMaxSuppression(b, s, @m, @o)\nreturn y\n",
    };
    for (int i = 0; i < CM_COUNT(texts); i++)
        for (int hurt = 0; hurt < 10; hurt += 5)
            check(texts[i], -1, 1, hurt);
}

/* Of equal scores the first box comes first. */
static void ties(void **state)
{
    (void)state;
    check("b: f32[1,6000,4]\n@s = f32[1,1,6000] fill 0.5\n@m = i64[1] {5000}\n@o = f32[1] {0.9}\n"
          "y = NonMaxSuppression(b, @s, @m, @o)\nreturn y\n",
          0, 1, 0);
    check("@b = f32[1,100,4] fill 0.5\n@s = f32[1,1,100] fill -0.0\n@m = i64[1] {50}\n"
          "y = NonMaxSuppression(@b, @s, @m)\nreturn y\n",
          0, 1, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes),
        cmocka_unit_test(odd_ones),
        cmocka_unit_test(ties),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
