/* nbits.c -- tactics of MatMulNBits against the reference.
 * SPDX-License-Identifier: Apache-2.0 */
#include "op/harness.h"

typedef struct {
    const char *rows; /* of A */
    int n, k, block, bits;
} sizes;

enum { NO_ZEROS, CODES, NUMBERS };

/* Sums of k products in float32 against double; results of 16 bits are rounded once. */
static double tolerance(const char *type)
{
    return !strcmp(type, "f32") ? 1e-5 : !strcmp(type, "f16") ? 1e-3 : 8e-3;
}

static void check(const sizes *s, const char *type, int zeros, bool groups, bool bias)
{
    char text[1200], zero[100] = "", group[600] = "", sum[64] = "";
    int blocks = (s->k + s->block - 1) / s->block;
    if (zeros == CODES)
        snprintf(zero, sizeof zero, "z: u8[%d]\n", s->n * ((blocks * s->bits + 7) / 8));
    else if (zeros == NUMBERS)
        snprintf(zero, sizeof zero, "z: %s[%d]\n", type, s->n * blocks);
    if (groups) {
        int at = snprintf(group, sizeof group, "@g = i32[%d] {", s->k);
        for (int i = 0; i < s->k; i++)
            at += snprintf(group + at, sizeof group - (size_t)at, "%s%d", i ? "," : "",
                           i * 7 % blocks);
        snprintf(group + at, sizeof group - (size_t)at, "}\n");
    }
    if (bias)
        snprintf(sum, sizeof sum, "c: %s[%d]\n", type, s->n);
    snprintf(text, sizeof text,
             "a: %s[%s%d]\nb: u8[%d,%d,%d]\ns: %s[%d]\n%s%s%s"
             "y = com.microsoft.MatMulNBits(a, b, s, %s, %s, %s) {K=%d, N=%d, bits=%d, "
             "block_size=%d}\nreturn y\n",
             type, s->rows, s->k, s->n, blocks, s->block * s->bits / 8, type, s->n * blocks, zero,
             group, sum, zeros ? "z" : "_", groups ? "@g" : "_", bias ? "c" : "_", s->k, s->n,
             s->bits, s->block);
    op_case c = op_case_of(text);
    c.tolerance = tolerance(type);
    c.int_high = 256;
    op_check(&c);
    assert_true(c.is_problem);
    c.fixed = ~1ull; /* all but A: the CPU's tactics pack them */
    op_check(&c);
    assert_true(c.ran > 0 || groups || s->block * s->bits % 32 || s->bits == 3);
}

static void every_form(void **state)
{
    (void)state;
    static const sizes all[] = {
        {"", 9, 32, 16, 4},    {"1,", 3, 40, 16, 4},   {"2,", 17, 300, 32, 4},
        {"3,", 8, 64, 32, 8},  {"5,", 40, 256, 64, 4}, {"2,9,", 7, 1000, 128, 4},
        {"4,", 12, 50, 16, 2}, {"33,", 20, 96, 32, 4}, {"1,", 1, 7, 8, 4},
        {"6,", 5, 77, 16, 3},  {"0,", 5, 32, 16, 4},   {"8,", 30, 520, 256, 4}};
    static const char *const types[] = {"f32", "f16", "bf16"};
    for (int i = 0; i < CM_COUNT(all); i++)
        for (int z = 0; z < 3; z++) {
            check(&all[i], types[(i + z) % 3], z, false, (i + z) % 2);
            if (all[i].k <= 100)
                check(&all[i], types[i % 3], z, true, false);
        }
}

/* From one row, which has a kernel of its own, past what goes together on registers, to several tiles of a product; a column, parts of a
 * strip of 16, more than a piece of 128; k within a word, a block, more than a chunk of 512. */
static void sizes_of_cpu_tactics(void **state)
{
    (void)state;
    static const char *const rows[] = {"1,", "2,", "3,", "4,", "5,", "8,", "9,", "15,", "130,"};
    static const int ns[] = {1, 15, 33, 64, 79, 131}, ks[] = {3, 32, 45, 530, 1031};
    static const int blocks[] = {16, 32, 64, 128, 256}, bits[] = {4, 8, 2, 4};
    int at = 0;
    for (int r = 0; r < CM_COUNT(rows); r++)
        for (int n = 0; n < CM_COUNT(ns); n++)
            for (int k = 0; k < CM_COUNT(ks); k++, at++) {
                sizes s = {rows[r], ns[n], ks[k], blocks[at % 5], bits[at % 4]};
                check(&s, at % 7 == 6 ? "f16" : "f32", (at + r) % 3, false, at % 2);
            }
}

/* Scales that no code times an activation takes out of float32's range. */
static void extreme_scales(void **state)
{
    (void)state;
    static const char *const scales[] = {"1e30,1e-30,-1e30,3e-37,1e30,-2e-37",
                                         "1e-30,2e-30,-3e-30,1e-30,0,-1e-31"};
    static const int rows[] = {1, 7, 30};
    for (int i = 0; i < CM_COUNT(scales); i++)
        for (int r = 0; r < CM_COUNT(rows); r++)
            for (int zeros = 0; zeros < 2; zeros++) {
                char text[400];
                snprintf(text, sizeof text,
                         "a: f32[%d,32]\nb: u8[3,2,8]\n@s = f32[6] {%s}\n%s"
                         "y = com.microsoft.MatMulNBits(a, b, @s, %s) {K=32, N=3, bits=4, "
                         "block_size=16}\nreturn y\n",
                         rows[r], scales[i], zeros ? "z: u8[3]\n" : "", zeros ? "z" : "_");
                op_case c = op_case_of(text);
                c.tolerance = tolerance("f32");
                c.int_high = 256;
                c.fixed = ~1ull;
                op_check(&c);
                assert_true(c.ran > 0);
            }
}

/* Activations that whole numbers do not reach: kernels that cut them leave these to others. */
static void activations_beyond_digits(void **state)
{
    (void)state;
    static const char *const rows[] = {"inf,1,-1,0", "nan,1,0,2",   "1e-38,2e-38,-3e-38,1e-39",
                                       "0,0,0,0",    "1e30,1,-2,3", "-inf,inf,1,2"};
    for (int i = 0; i < CM_COUNT(rows); i++)
        for (int m = 1; m <= 3; m++) {
            char text[400];
            snprintf(text, sizeof text,
                     "@a = f32[%d,4] {%s%s%s%s}\nb: u8[5,1,8]\ns: f32[5]\n"
                     "y = com.microsoft.MatMulNBits(@a, b, s) {K=4, N=5, bits=4, block_size=16}\n"
                     "return y\n",
                     m, m > 1 ? "1,2,3,4," : "", rows[i], m > 2 ? "," : "", m > 2 ? rows[i] : "");
            op_case c = op_case_of(text);
            c.tolerance = tolerance("f32");
            c.int_high = 256;
            c.fixed = ~1ull;
            op_check(&c);
            assert_true(c.ran > 0);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form), cmocka_unit_test(sizes_of_cpu_tactics),
        cmocka_unit_test(extreme_scales), cmocka_unit_test(activations_beyond_digits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
