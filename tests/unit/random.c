/* random.c -- random tensors: seeds, ranges, moments, types; Dropout; SwiGLU's rule.
 * SPDX-License-Identifier: Apache-2.0 */
#include "op_text.h"

#define SAME(call, wanted) assert_string_equal(call, wanted)

#include <math.h>

static void moments(const char *text, double *mean, double *deviation)
{
    double s = 0, q = 0;
    int n = 0;
    for (const char *p = strchr(text, '{'); *p && *p != '}'; n++) {
        char *end;
        double v = strtod(p + 1, &end);
        s += v;
        q += v * v;
        p = end;
    }
    *mean = s / n;
    *deviation = sqrt(q / n - *mean * *mean);
}

static void test_distributions(void **state)
{
    (void)state;
    double mean, deviation;
    moments(eval("RandomUniform", "shape=100,100 low=-1 high=3 seed=2", NULL), &mean, &deviation);
    assert_true(fabs(mean - 1) < 0.03 && fabs(deviation - 4 / sqrt(12)) < 0.03);
    moments(eval("RandomNormal", "shape=10000 mean=5 scale=2 seed=2", NULL), &mean, &deviation);
    assert_true(fabs(mean - 5) < 0.05 && fabs(deviation - 2) < 0.05);
    moments(eval("Multinomial", "sample_size=10000 seed=1", "f32[1,2]{0,1.0986123}", NULL), &mean,
            &deviation);
    assert_true(fabs(mean - 0.75) < 0.02);
    SAME(eval("Multinomial", "dtype=7 sample_size=2", "f32[2,2]{0,-inf,-inf,0}", NULL),
         "i64[2,2]{0,0,1,1}");
    SAME(eval("Bernoulli", "dtype=9", "f32[4]{0,1,0,1}", NULL), "bool[4]{0,1,0,1}");
}

static void test_seeds(void **state)
{
    (void)state;
    char first[512];
    snprintf(first, sizeof first, "%s", eval("RandomNormal", "shape=3 seed=7", NULL));
    SAME(eval("RandomNormal", "shape=3 seed=7", NULL), first);
    assert_string_not_equal(eval("RandomNormal", "shape=3 seed=8", NULL), first);
}

static void test_rules(void **state)
{
    (void)state;
    SAME(infer("RandomNormal", "shape=2,3 dtype=10", NULL), "f16[2,3]");
    SAME(infer("RandomUniform", "shape=2,-3", NULL), "shape has -3 at axis 1");
    SAME(infer("RandomUniform", "shape=2 dtype=6", NULL),
         "dtype 6 is not one that RandomUniform can give");
    SAME(infer("RandomNormalLike", "", "f64[b]", NULL), "f64[b]");
    SAME(infer("RandomNormalLike", "", "i64[b]", NULL),
         "dtype 7 is not one that RandomNormalLike can give");
    SAME(infer("RandomNormalLike", "dtype=1", "i64[b]", NULL), "f32[b]");
    SAME(infer("Bernoulli", "", "f64[b]", NULL), "f64[b]");
    SAME(infer("Multinomial", "sample_size=5", "f32[b,3]", NULL), "i32[b,5]");
    SAME(infer("Multinomial", "", "f32[3]", NULL), "the input has rank 1, wanted 2");
    SAME(infer("SwiGLU", "", "f32[b,4]", "f32[b,3]", NULL), "an axis of B: found 3, wanted 4");
    SAME(eval("SwiGLU", "", "f32[2]{0,40}", "f32[2]{5,2}", NULL), "f32[2]{0,80}");
}

static void test_dropout(void **state)
{
    (void)state;
    op_text_n_out = 2;
    SAME(infer("Dropout", "", "f16[b,2]", NULL), "f16[b,2]; bool[b,2]");
    SAME(eval("Dropout", "", "f32[3]{1,2,3}", NULL), "f32[3]{1,2,3}; bool[3]{1,1,1}");
    SAME(eval("Dropout", "", "f32[2]{1,2}", "f32[]{0}", "bool[]{1}", NULL),
         "f32[2]{1,2}; bool[2]{1,1}");
    SAME(eval("Dropout", "", "f32[2]{1,2}", "f32[]{1}", "bool[]{1}", NULL),
         "ratio is 1, wanted a number in [0, 1)");
    op_text_n_out = 1;
    double mean, deviation;
    const char *uniform = eval("RandomUniform", "shape=10000 low=1 high=1", NULL);
    moments(eval("Dropout", "seed=3", uniform, "f32[]{0.25}", "bool[]{1}", NULL), &mean,
            &deviation);
    assert_true(fabs(mean - 1) < 0.02 && fabs(deviation - sqrt(1.0 / 3)) < 0.02);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEXT_TEST(test_distributions),
        OP_TEXT_TEST(test_seeds),
        OP_TEXT_TEST(test_rules),
        OP_TEXT_TEST(test_dropout),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
