/* rotary.c -- pairs of columns rotated, angles broadcast in every way.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Two products and a sum in float32, of numbers below 1: 2^-23 at most. */
#include "op/harness.h"

static void check(const char *x, const char *angles, int interleaved, const char *after)
{
    char text[400];
    snprintf(text, sizeof text,
             "x: f32[%s]\nc: f32[%s]\ns: f32[%s]\ny = cameo.Rotary(x, c, s) {interleaved=%d}%s\n"
             "return y\n",
             x, angles, angles, interleaved, after);
    op_case c = op_case_of(text);
    c.tolerance = 3e-7;
    op_check(&c);
    if (c.ran == 0)
        fail_msg("no tactic took\n%s", text);
}

static void shapes(void **state)
{
    (void)state;
    static const char *const forms[][2] = {{"2,3,5,64", "5,64"},       {"1,8,7,128", "1,1,7,128"},
                                           {"2,3,4,6", "2,1,4,6"},     {"3,2", "2"},
                                           {"1,1,9,38", "9,38"},       {"2,2,2,2,34", "2,1,2,1,34"},
                                           {"4,100,2,18", "100,1,18"}, {"70", "70"}};
    for (int i = 0; i < CM_COUNT(forms); i++)
        for (int interleaved = 0; interleaved < 2; interleaved++)
            check(forms[i][0], forms[i][1], interleaved, "");
}

static void epilogues(void **state)
{
    (void)state;
    check("2,3,5,66", "5,66", 0, " then \"relu x\"");
    check("2,3,5,18", "5,18", 1, " then \"neg x\"");
}

/* Results of float16 and bfloat16 are rounded to 2^-11 and 2^-8. */
static void halves(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "x: f16[2,7,4,64]\nc: f16[7,1,64]\ns: f16[7,1,64]\ny = cameo.Rotary(x, c, s)\nreturn y\n",
        "x: bf16[300,130]\nc: bf16[300,130]\ns: bf16[1,130]\nr: bf16[300,1]\n"
        "y = cameo.Rotary(x, c, s | r) then \"mul x $0\"\nreturn y\n",
    };
    for (int i = 0; i < CM_COUNT(texts); i++) {
        op_case c = op_case_of(texts[i]);
        c.tolerance = i ? 8e-3 : 1e-3;
        op_check(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(shapes), cmocka_unit_test(epilogues),
                                       cmocka_unit_test(halves)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
