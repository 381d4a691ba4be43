/* reduce.c -- reductions against the reference.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Sums are kept in doubles as the reference's are: what is left is one rounding to float32 (6e-8), and
 * those of a program before. */
#include "op/harness.h"

static void check(double low, double high, int hurt, double tolerance, const char *text)
{
    op_case c = op_case_of(text);
    c.low = low;
    c.high = high;
    c.hurt = hurt;
    c.tolerance = tolerance;
    op_check(&c);
    if (!c.ran)
        fail_msg("no tactic takes\n%s", text);
}

#define CHECKF(low, high, hurt, tolerance, ...)                                                    \
    do {                                                                                           \
        char text_[1024];                                                                          \
        snprintf(text_, sizeof text_, __VA_ARGS__);                                                \
        check(low, high, hurt, tolerance, text_);                                                  \
    } while (0)

static const char *kinds[] = {"ReduceSum", "ReduceMean",      "ReduceMax",
                              "ReduceMin", "ReduceProd",      "ReduceL1",
                              "ReduceL2",  "ReduceSumSquare", "ReduceLogSumExp"};
static const struct {
    const char *shape, *axes;
    int n;
} shapes[] = {
    {"7", "0", 1},
    {"5,9", "1", 1},
    {"5,9", "0", 1},
    {"5,9", "0,1", 2},
    {"2,3,5,7", "2,3", 2},
    {"2,3,5,7", "1", 1},
    {"2,3,5,7", "0,2", 2},
    {"2,3,5,7", "1,3", 2},
    {"3,1500", "1", 1},
    {"40,1100", "0", 1},
    {"1,1,1", "1", 1},
    {"2,33,4,4", "1", 1},
    {"2,33,4,4", "-1,-2", 2},
    {"4,1,6", "1", 1},
    {"65,3", "1", 1},
    {"2,3,5,7", "0,1,2,3", 4},
};

static void every_kind_and_axis(void **state)
{
    (void)state;
    for (int k = 0; k < CM_COUNT(kinds); k++)
        for (int s = 0; s < CM_COUNT(shapes); s++)
            for (int keep = 0; keep < 2; keep++) {
                bool prod = !strcmp(kinds[k], "ReduceProd");
                CHECKF(prod ? 0.97 : -2, prod ? 1.03 : 2, 0, 1e-6,
                       "x: f32[%s]\n@a = i64[%d] {%s}\ny = %s(x, @a) {keepdims=%d}\nreturn y\n",
                       shapes[s].shape, shapes[s].n, shapes[s].axes, kinds[k], keep);
            }
    CHECKF(0.5, 2, 0, 1e-6, "x: f32[6,70]\n@a = i64[1] {1}\ny = ReduceLogSum(x, @a)\nreturn y\n");
    CHECKF(-2, 2, 0, 1e-6, "x: f32[6,70]\ny = ReduceSum(x)\nreturn y\n");
    CHECKF(-2, 2, 0, 1e-6, "x: f32[6,7]\ny = ReduceL1(x) {noop_with_empty_axes=1}\nreturn y\n");
}

/* Huge numbers overflow at the same place: sums are doubles on both sides. But where huge numbers of
 * both signs cancel, or meet zeros in a product, the order of the terms decides. */
static void numbers_that_hurt(void **state)
{
    (void)state;
    static const char *steady[] = {"ReduceMax", "ReduceMin",       "ReduceL1",
                                   "ReduceL2",  "ReduceSumSquare", "ReduceLogSumExp"};
    for (int k = 0; k < CM_COUNT(steady); k++)
        for (int s = 0; s < CM_COUNT(shapes); s++)
            for (int hurt = 3; hurt < 400; hurt *= 6)
                CHECKF(-2, 2, hurt, 1e-6,
                       "x: f32[%s]\n@a = i64[%d] {%s}\ny = %s(x, @a)\nreturn y\n", shapes[s].shape,
                       shapes[s].n, shapes[s].axes, steady[k]);
}

/* Enough to be cut into parts. */
static void large(void **state)
{
    (void)state;
    static const char *some[] = {"ReduceSum", "ReduceMax", "ReduceL2", "ReduceLogSumExp"};
    for (int k = 0; k < CM_COUNT(some); k++) {
        CHECKF(-2, 2, 0, 1e-6, "x: f32[400000]\ny = %s(x)\nreturn y\n", some[k]);
        CHECKF(-2, 2, 0, 1e-6, "x: f32[1,300,33,33]\n@a = i64[2] {2,3}\ny = %s(x, @a)\nreturn y\n",
               some[k]);
        CHECKF(-2, 2, 0, 1e-6, "x: f32[5000,70]\n@a = i64[1] {0}\ny = %s(x, @a)\nreturn y\n",
               some[k]);
        CHECKF(-2, 2, 0, 1e-6, "x: f32[2,90000,3]\n@a = i64[1] {1}\ny = %s(x, @a)\nreturn y\n",
               some[k]);
    }
}

static void other_types(void **state)
{
    (void)state;
    CHECKF(-2, 2, 0, 0x1p-10, "x: f16[5,70]\n@a = i64[1] {1}\ny = ReduceMean(x, @a)\nreturn y\n");
    CHECKF(-2, 2, 0, 0x1p-7, "x: bf16[70,5]\n@a = i64[1] {0}\ny = ReduceSum(x, @a)\nreturn y\n");
    CHECKF(-2, 2, 0, 0x1p-10,
           "x: f16[2,9,4,5]\n@a = i64[2] {0,2}\ny = ReduceMax(x, @a)\nreturn y\n");
}

/* The CPU's kernels leave integers and doubles to the reference. */
static void wide_types_on_a_gpu(void **state)
{
    (void)state;
    CHECKF(-9, 9, 0, 0, "x: i32[6,70]\n@a = i64[1] {1}\ny = ReduceSum(x, @a)\nreturn y\n");
    CHECKF(-9, 9, 0, 0, "x: i64[70,6]\n@a = i64[1] {0}\ny = ReduceSum(x, @a)\nreturn y\n");
    CHECKF(-9, 9, 0, 1e-12, "x: f64[3,2,2]\ny = ReduceLogSumExp(x)\nreturn y\n");
    CHECKF(-9, 9, 0, 1e-12,
           "x: f64[5,70]\n@a = i64[1] {1}\ny = ReduceLogSumExp(x, @a)\nreturn y\n");
}

static void after_a_program(void **state)
{
    (void)state;
    static const char *axes[] = {"-1", "0", "0,1", "1"};
    for (int a = 0; a < CM_COUNT(axes); a++) {
        CHECKF(-2, 2, 0, 1e-6,
               "x: f32[9,1300]\nm: f32[9,1]\ny = cameo.PointwiseReduce(x, m) {program=\"sub $0 $1; "
               "pow %%0 2\", reduce=\"ReduceMean\", axes=[%s]}\nreturn y\n",
               axes[a]);
        CHECKF(-2, 2, 0, 1e-6,
               "x: f32[4,6,7,5]\nm: f32[6,1,1]\nz: f16[5]\ny = cameo.PointwiseReduce(x, m, z) "
               "{program=\"sub $0 $1; abs %%0; mul %%1 $2; exp %%2\", reduce=\"ReduceSum\", "
               "axes=[%s], "
               "keepdims=0}\nreturn y\n",
               axes[a]);
    }
    CHECKF(-2, 2, 0, 1e-6,
           "x: f32[6,40]\nb: f32[6]\ny = cameo.PointwiseReduce(x | b) {program=\"abs $0\", "
           "reduce=\"ReduceSum\", axes=[1], keepdims=0} then \"add x $0; sqrt %%0\"\nreturn y\n");
    CHECKF(-2, 2, 0, 1e-6,
           "x: f32[2,6,5,5]\n@a = i64[2] {2,3}\nb: f32[6,1,1]\ny = ReduceMean(x, @a | b) then "
           "\"mul x $0; relu %%0\"\nreturn y\n");
    CHECKF(-2, 2, 0, 1e-6,
           "x: f32[2,6,5,5]\n@a = i64[1] {1}\nb: f32[2,1,5,5]\ny = ReduceMean(x, @a | b) then "
           "\"sub $0 x; sigmoid %%0\"\nreturn y\n");
}

static void places_of_extremes(void **state)
{
    (void)state;
    static const char *types[] = {"f32", "f16", "u8"};
    for (int t = 0; t < CM_COUNT(types); t++)
        for (int last = 0; last < 2; last++)
            for (int axis = 0; axis < 4; axis++)
                for (int most = 0; most < 2; most++) {
                    CHECKF(-2, 2, 30, 0,
                           "x: %s[2,5,6,40]\ny = Arg%s(x) {axis=%d, select_last_index=%d, "
                           "keepdims=%d}\nreturn y\n",
                           types[t], most ? "Max" : "Min", axis, last, axis & 1);
                }
    CHECKF(-2, 2, 0, 0, "x: f32[3,5000]\ny = ArgMax(x) {axis=-1}\nreturn y\n");
    CHECKF(-2, 2, 0, 0, "x: f16[3,5000]\ny = ArgMin(x) {axis=-1}\nreturn y\n");
    CHECKF(0, 0, 0, 0, "x: f32[3,50]\ny = ArgMax(x) {axis=-1, select_last_index=1}\nreturn y\n");
    CHECKF(-1e300, -1e300, 0, 0, "x: f32[3,50]\ny = ArgMax(x) {axis=-1}\nreturn y\n");
    CHECKF(1e300, 1e300, 0, 0, "x: f16[9,40]\ny = ArgMin(x) {axis=0}\nreturn y\n");
    CHECKF(-2, 2, 7, 0, "x: f16[40,70]\ny = ArgMax(x) {axis=0}\nreturn y\n");
    CHECKF(-2, 2, 900, 0, "x: f16[3,301,24]\ny = ArgMax(x) {axis=1}\nreturn y\n");
    CHECKF(-2, 2, 0, 0, "x: i8[2,517,40]\ny = ArgMin(x) {axis=1, select_last_index=1}\nreturn y\n");
    CHECKF(-2, 2, 0, 0, "x: u8[4099,8]\ny = ArgMax(x) {axis=0}\nreturn y\n");
    CHECKF(0, 0, 0, 0, "x: f32[6000,4]\ny = ArgMin(x) {axis=0, select_last_index=1}\nreturn y\n");
}

/* Exactly, wrapping where sums do; means of sums that 64 bits do not hold. */
static void whole_numbers(void **state)
{
    (void)state;
    static const char *const types[] = {"i32", "u32", "i64", "u64", "u8", "i8"};
    static const char *const more[][2] = {{"3,64", "1"},  {"64,3", "0"},     {"9,512,2", "1"},
                                          {"5,700", "0"}, {"2,130,70", "1"}, {"2,130,70", "2"}};
    for (int t = 0; t < CM_COUNT(types); t++)
        for (int k = 0; k < 4; k++)
            for (int s = 0; s < CM_COUNT(shapes) + CM_COUNT(more); s++)
                for (int huge = 0; huge < 2; huge++) {
                    int m = s - CM_COUNT(shapes);
                    char text[200];
                    if (t > 3 && k < 2)
                        continue; /* ONNX has no sums of bytes */
                    snprintf(text, sizeof text,
                             "x: %s[%s]\n@a = i64[%d] {%s}\ny = %s(x, @a)\nreturn y\n", types[t],
                             m < 0 ? shapes[s].shape : more[m][0], m < 0 ? shapes[s].n : 1,
                             m < 0 ? shapes[s].axes : more[m][1], kinds[k]);
                    op_case c = op_case_of(text);
                    c.int_low = huge ? -(INT64_C(1) << 61) : -(INT64_C(1) << 50);
                    c.int_high = huge ? INT64_C(1) << 61 : c.int_low + (INT64_C(134217689) << 24);
                    op_check(&c);
                    if (!c.ran && !(k == 1 && t == 3))
                        fail_msg("no tactic takes\n%s", text);
                }
    CHECKF(0, 1, 0, 0, "x: i32[0,3]\n@a = i64[1] {0}\ny = ReduceMax(x, @a)\nreturn y\n");
    CHECKF(0, 1, 0, 0, "x: i64[3,0]\n@a = i64[1] {1}\ny = ReduceSum(x, @a)\nreturn y\n");
    CHECKF(0, 1, 0, 0, "x: i64[3,0]\n@a = i64[1] {1}\ny = ReduceMin(x, @a)\nreturn y\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_and_axis),
        cmocka_unit_test(numbers_that_hurt),
        cmocka_unit_test(large),
        cmocka_unit_test(other_types),
        cmocka_unit_test(after_a_program),
        cmocka_unit_test(places_of_extremes),
        cmocka_unit_test(whole_numbers),
    };
    const struct CMUnitTest of_gpus[] = {cmocka_unit_test(wide_types_on_a_gpu)};
    const char *target = getenv("CAMEO_TEST_TARGET");
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    if (target && strcmp(target, "cpu"))
        failed += cmocka_run_group_tests(of_gpus, NULL, NULL);
    return failed;
}
