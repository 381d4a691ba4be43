/* placed.c -- elements that a rule of their place tells.
 * SPDX-License-Identifier: Apache-2.0 */
#include "op/harness.h"

static void check_all(const char *const *texts, int n, int64_t low, int64_t high)
{
    for (int k = 0; k < n; k++) {
        op_case c = op_case_of(texts[k]);
        c.tolerance = 0;
        c.low = 8 * (double)low;
        c.high = 8 * (double)high;
        c.int_low = low;
        c.int_high = high;
        op_check(&c);
        if (!c.is_problem)
            fail_msg("no problem was made of\n%s", c.text);
    }
}

static void one_hot(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "i: i64[2,3,50]\n@d = i64[] {9}\nv: f32[2]\ny = OneHot(i, @d, v)\nreturn y\n",
        "i: i32[20,30]\n@d = i64[] {9}\nv: f16[2]\ny = OneHot(i, @d, v) {axis=0}\nreturn y\n",
        "i: f32[20,30]\n@d = i64[] {9}\nv: f16[2]\ny = OneHot(i, @d, v) {axis=1}\nreturn y\n",
        "i: i8[3,5]\n@d = f32[] {7}\n@v = i64[2] {3,-4}\ny = OneHot(i, @d, @v) {axis=1}\n"
        "return y\n",
        "i: i64[]\n@d = i64[] {4}\n@v = bool[2] {0,1}\ny = OneHot(i, @d, @v)\nreturn y\n",
        "i: f16[700]\n@d = i64[] {12}\nv: f64[2]\ny = OneHot(i, @d, v)\nreturn y\n",
    };
    check_all(texts, CM_COUNT(texts), -12, 12);
}

static void triangles(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "x: f32[5,7]\ny = Trilu(x)\nreturn y\n",
        "x: f16[3,2,70,33]\ny = Trilu(x) {upper=0}\nreturn y\n",
        "x: i64[9,7]\n@k = i64[] {-2}\ny = Trilu(x, @k)\nreturn y\n",
        "x: bool[2,9,70]\n@k = i64[] {30}\ny = Trilu(x, @k) {upper=0}\nreturn y\n",
        "x: u8[2,9,70]\n@k = i64[] {-90}\ny = Trilu(x, @k) {upper=0}\nreturn y\n",
        "x: f32[0,7]\ny = Trilu(x)\nreturn y\n",
    };
    check_all(texts, CM_COUNT(texts), 0, 100);
}

static void reversed(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "x: f32[7,4]\nn: i64[4]\ny = ReverseSequence(x, n)\nreturn y\n",
        "x: f32[7,4,3,8]\nn: i64[4]\ny = ReverseSequence(x, n)\nreturn y\n",
        "x: f16[4,7,5]\nn: i64[4]\ny = ReverseSequence(x, n) {batch_axis=0, time_axis=1}\n"
        "return y\n",
        "x: u8[40,9,32]\nn: i64[40]\ny = ReverseSequence(x, n) {batch_axis=0, time_axis=1}\n"
        "return y\n",
    };
    check_all(texts, CM_COUNT(texts), 0, 8);
}

static void caches(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "x: f32[3,2,9,8]\nu: f32[3,2,2,8]\nb: i64[3]\ny = TensorScatter(x, u, b)\nreturn y\n",
        "x: f16[3,2,9,5]\nu: f16[3,2,9,5]\ny = TensorScatter(x, u)\nreturn y\n",
        "x: f16[3,9,5]\nu: f16[3,4,5]\nb: i64[3]\n"
        "y = TensorScatter(x, u, b) {axis=1, mode=\"circular\"}\nreturn y\n",
        "x: f32[3,2,9]\nu: f32[3,2,2]\nb: i64[3]\n"
        "y = TensorScatter(x, u, b) {axis=-1, mode=\"circular\"}\nreturn y\n",
    };
    check_all(texts, CM_COUNT(texts), 0, 8);
}

/* Tensors out of nothing. */
static void made(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "@s = i64[3] {4,5,70}\ny = ConstantOfShape(@s)\nreturn y\n",
        "x: f32[30,41]\ny = EyeLike(x)\nreturn y\n",
        "x: i32[30,41]\ny = EyeLike(x) {k=3, dtype=10}\nreturn y\n",
        "x: i32[30,11]\ny = EyeLike(x) {k=-7, dtype=7}\nreturn y\n",
        "x: i32[30,11]\ny = EyeLike(x) {k=99, dtype=9}\nreturn y\n",
        "@a = f32[] {1.5}\n@b = f32[] {300}\n@c = f32[] {0.3}\ny = Range(@a, @b, @c)\nreturn y\n",
        "@a = f64[] {7}\n@b = f64[] {-300}\n@c = f64[] {-0.7}\ny = Range(@a, @b, @c)\nreturn y\n",
        "@a = i64[] {-3}\n@b = i64[] {300}\n@c = i64[] {7}\ny = Range(@a, @b, @c)\nreturn y\n",
        "@a = i16[] {30}\n@b = i16[] {-30}\n@c = i16[] {-2}\ny = Range(@a, @b, @c)\nreturn y\n",
    };
    check_all(texts, CM_COUNT(texts), 0, 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_hot), cmocka_unit_test(triangles), cmocka_unit_test(reversed),
        cmocka_unit_test(caches),  cmocka_unit_test(made),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
