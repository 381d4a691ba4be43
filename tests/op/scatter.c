/* scatter.c -- updates at places that indices tell, equal ones among them.
 * SPDX-License-Identifier: Apache-2.0 */
#include "op/harness.h"

typedef struct {
    const char *text;
    int64_t size; /* of the axes that indices walk */
} scatter_case;

static void check_all(const scatter_case *cases, int n)
{
    for (int k = 0; k < n; k++) {
        op_case c = op_case_of(cases[k].text);
        c.tolerance = 0;
        c.int_low = -cases[k].size;
        c.int_high = cases[k].size;
        if (strstr(c.text, "none") || !strstr(c.text, "reduction"))
            c.hurt = 7;
        op_check(&c);
        if (!c.is_problem)
            fail_msg("no problem was made of\n%s", c.text);
    }
}

#define ELEMENTS(type, x, i, attrs)                                                                \
    "x: " type x "\ni: i64" i "\nu: " type i "\ny = ScatterElements(x, i, u) {" attrs              \
    "}\nreturn y\n"
#define TUPLES(type, x, i, u, attrs)                                                               \
    "x: " type x "\ni: i64" i "\nu: " type u "\ny = ScatterND(x, i, u) {" attrs "}\nreturn y\n"

static void sets(void **state)
{
    (void)state;
    static const scatter_case cases[] = {
        {ELEMENTS("f32", "[6,5,4]", "[3,5,2]", "axis=0"), 6},
        {ELEMENTS("f16", "[6,5,4]", "[6,90,4]", "axis=1"), 5},
        {ELEMENTS("i8", "[6,30]", "[6,700]", "axis=-1"), 30},
        {ELEMENTS("f16", "[5,3,640]", "[5,3,1530]", "axis=2"), 640},
        {ELEMENTS("f32", "[70,4096]", "[70,601]", "axis=1"), 4096},
        {ELEMENTS("u8", "[4,1003]", "[4,2050]", "axis=1"), 1003},
        {"x: f32[7,300]\ni: i32[7,44]\nu: f32[7,44]\ny = ScatterElements(x, i, u) {axis=1}\n"
         "return y\n",
         300},
        {ELEMENTS("f64", "[300]", "[2000]", "axis=0"), 300},
        {ELEMENTS("bool", "[9]", "[0]", "axis=0"), 9},
        {"x: f32[7,3]\ni: i32[2,3]\nu: f32[2,3]\ny = ScatterElements(x, i, u)\nreturn y\n", 7},
        {TUPLES("f32", "[4,4,3]", "[50,2]", "[50,3]", ""), 4},
        {TUPLES("f16", "[40,8]", "[3,5,1]", "[3,5,8]", ""), 40},
        {TUPLES("f16", "[9,72]", "[5,1]", "[5,72]", ""), 9},
        {TUPLES("f32", "[4,6,37]", "[9,2]", "[9,37]", ""), 4},
        {TUPLES("u8", "[9,9]", "[3,2]", "[3]", ""), 9},
        {TUPLES("i64", "[5,2,3,7]", "[2,1]", "[2,2,3,7]", "reduction=\"none\""), 5},
        {TUPLES("f32", "[70,33]", "[0,1]", "[0,33]", ""), 70},
    };
    check_all(cases, CM_COUNT(cases));
}

/* Sums of equal places are in the order of the updates: exact. */
static void combines(void **state)
{
    (void)state;
    static const scatter_case cases[] = {
        {ELEMENTS("f32", "[6,5,4]", "[6,90,4]", "axis=1, reduction=\"add\""), 5},
        {ELEMENTS("f16", "[30]", "[2000]", "axis=0, reduction=\"add\""), 30},
        {ELEMENTS("bf16", "[300]", "[2000]", "axis=0, reduction=\"mul\""), 300},
        {ELEMENTS("f32", "[3]", "[5000]", "axis=0, reduction=\"add\""), 3},
        {ELEMENTS("f32", "[3,9]", "[40,9]", "axis=0, reduction=\"max\""), 3},
        {ELEMENTS("f64", "[3,9]", "[40,9]", "axis=0, reduction=\"min\""), 3},
        {ELEMENTS("i32", "[30]", "[200]", "axis=0, reduction=\"mul\""), 30},
        {ELEMENTS("u8", "[30]", "[200]", "axis=0, reduction=\"max\""), 30},
        {ELEMENTS("i64", "[30]", "[200]", "axis=0, reduction=\"min\""), 30},
        {TUPLES("f32", "[40,33]", "[500,1]", "[500,33]", "reduction=\"add\""), 40},
        {TUPLES("f16", "[4,4,7]", "[50,2]", "[50,7]", "reduction=\"mul\""), 4},
        {TUPLES("f32", "[4,4,7]", "[50,2]", "[50,7]", "reduction=\"max\""), 4},
    };
    check_all(cases, CM_COUNT(cases));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sets),
        cmocka_unit_test(combines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
