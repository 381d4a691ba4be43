/* rows.c -- softmax and normalisations against their references.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Tolerances: exponentials are good to 2 units of 2^-24 of themselves and sums of positive terms to a few;
 * normalised values carry the input's rounding times what the mean exceeds the deviation by, and means are
 * subtracted in two parts. 4e-6 of the largest output is 64 units. float16 and bfloat16 results are rounded
 * to 2^-11 and 2^-8 once. */
#include "op/harness.h"

static void check(const char *text, double tolerance, double low, double high, int hurt)
{
    op_case c = op_case_of(text);
    c.tolerance = tolerance;
    c.low = low;
    c.high = high;
    c.hurt = hurt;
    op_check(&c);
    if (c.ran == 0)
        fail_msg("no tactic ran\n%s", text);
}

static void check_all(const char *const *texts, int n, double tolerance)
{
    for (int i = 0; i < n; i++) {
        check(texts[i], tolerance, -1, 1, 0);
        check(texts[i], tolerance, 2, 30, 0);
    }
}

static void softmax_rows(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "x: f32[3,10]\ny = Softmax(x)\nreturn y\n",
        "x: f32[1]\ny = Softmax(x)\nreturn y\n",
        "x: f32[5,1]\ny = Softmax(x)\nreturn y\n",
        "x: f32[2,3,128]\ny = Softmax(x)\nreturn y\n",
        "x: f32[7,1001]\ny = Softmax(x)\nreturn y\n",
        "x: f32[40,2000]\ny = LogSoftmax(x)\nreturn y\n",
        "x: f32[3,77]\ny = LogSoftmax(x)\nreturn y\n",
        "x: f32[3,5001]\ny = Softmax(x)\nreturn y\n",
        "x: f32[2,16384]\ny = LogSoftmax(x)\nreturn y\n",
        "x: f32[2,5,3,9]\ny = Softmax(x) {axis=1}\nreturn y\n",
        "x: f32[2,5,3,9]\ny = cameo.Softmax(x) {axis=2, count=2}\nreturn y\n",
        "x: f32[4,3,33]\ny = cameo.Softmax(x) {axis=-2, count=2, log=1}\nreturn y\n",
        "x: f32[2,21,7,13]\ny = Softmax(x) {axis=1}\nreturn y\n",
        "x: f32[1,16,11,17]\ny = LogSoftmax(x) {axis=1}\nreturn y\n",
        "x: f32[4,30,2]\ny = Softmax(x) {axis=0}\nreturn y\n",
        "x: f32[2,6,70]\ny = Softmax(x) {axis=1}\nreturn y\n",
        "x: f32[2,3,4,5,6]\ny = LogSoftmax(x) {axis=2}\nreturn y\n",
        "x: f32[1,50,40,40]\ny = Softmax(x) {axis=1}\nreturn y\n",
        "x: f32[2,6,70]\n@e = f32[70] random 3\ny = Softmax(x | @e) {axis=1} then \"mul x "
        "$0\"\nreturn y\n",
        "x: f32[5,33]\n@e = f32[5,1] random 3\ny = Softmax(x | @e) then \"mul x $0; relu "
        "%0\"\nreturn y\n",
    };
    check_all(texts, CM_COUNT(texts), 4e-6);
}

static void softmax_values(void **state)
{
    (void)state;
    check("x: f32[60,37]\ny = Softmax(x)\nreturn y\n", 4e-6, -200, 200, 0);
    check("x: f32[200,37]\ny = Softmax(x)\nreturn y\n", 4e-6, -3, 3, 40);
    check("x: f32[200,37]\ny = LogSoftmax(x)\nreturn y\n", 4e-6, -3, 3, 40);
    check("x: f32[20,37,11]\ny = Softmax(x) {axis=1}\nreturn y\n", 4e-6, -3, 3, 60);
    check("x: f32[20,37,35]\ny = LogSoftmax(x) {axis=1}\nreturn y\n", 4e-6, -90, 90, 60);
}

static void softmax_halves(void **state)
{
    (void)state;
    check("x: f16[9,77]\ny = Softmax(x)\nreturn y\n", 1e-3, -4, 4, 0);
    check("x: bf16[9,77]\ny = Softmax(x)\nreturn y\n", 8e-3, -4, 4, 0);
    check("x: f16[3,20,50]\ny = Softmax(x) {axis=1}\nreturn y\n", 1e-3, -4, 4, 0);
    check("x: bf16[3,20,70]\ny = LogSoftmax(x) {axis=1}\nreturn y\n", 8e-3, -4, 4, 0);
    check("x: f16[2,70,8,16]\ny = Softmax(x) {axis=1}\nreturn y\n", 1e-3, -4, 4, 300);
    check(
        "x: f16[2,300,24]\n@e = f16[24] random 3\ny = Softmax(x | @e) {axis=1} then \"mul x $0\"\n"
        "return y\n",
        1e-3, -4, 4, 0);
    check("x: f16[3,33,40]\ny = LpNormalization(x) {axis=1}\nreturn y\n", 1e-3, -4, 4, 0);
}

#define AFFINE(n) "@s = f32[" #n "] random 1\n@b = f32[" #n "] random 2\n"

static void layer_norms(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "x: f32[3,40]\n" AFFINE(40) "y = LayerNormalization(x, @s, @b)\nreturn y\n",
        "x: f32[1,7]\n" AFFINE(7) "y = LayerNormalization(x, @s, @b)\nreturn y\n",
        "x: f32[2,13,768]\n" AFFINE(
            768) "y = LayerNormalization(x, @s, @b) {epsilon=1e-12}\nreturn y\n",
        "x: f32[50,1000]\n" AFFINE(1000) "y = LayerNormalization(x, @s, @b)\nreturn y\n",
        "x: f32[2,9001]\n" AFFINE(9001) "y = LayerNormalization(x, @s, @b)\nreturn y\n",
        "x: f32[3,5]\n@s = f32[5] random 1\ny = LayerNormalization(x, @s)\nreturn y\n",
        "x: f32[3,5]\n@s = f32[1] random 1\ny = LayerNormalization(x, @s)\nreturn y\n",
        "x: f32[2,4,33]\n" AFFINE(33) "y, m, i = LayerNormalization(x, @s, @b)\nreturn y, m, i\n",
        "x: f32[2,4,33]\n" AFFINE(33) "y, _, i = LayerNormalization(x, @s, @b)\nreturn y, i\n",
        "x: f32[2,4,6,5]\n@s = f32[4,6,5] random 1\n@b = f32[4,6,5] random 2\n"
        "y = LayerNormalization(x, @s, @b) {axis=1}\nreturn y\n",
        "x: f32[2,4,6,5]\n@s = f32[6,5] random 1\ny = LayerNormalization(x, @s) {axis=2}\nreturn "
        "y\n",
        "x: f32[2,20,6,9]\n" AFFINE(9) "y = LayerNormalization(x, @s, @b)\nreturn y\n",
        "x: f32[3,65]\n@e = f32[65] random 3\n" AFFINE(
            65) "y = LayerNormalization(x, @s, @b | @e) then \"add x $0; relu %0\"\nreturn y\n",
        "x: f32[3,65]\ns: f32[65]\ny = RMSNormalization(x, s)\nreturn y\n",
        "x: f32[3,4,5]\n@s = f32[4,5] random 1\ny = RMSNormalization(x, @s) {axis=1}\nreturn y\n",
        "x: f32[3,4,50]\n@s = f32[50] random 1\ny = RMSNormalization(x, @s) {epsilon=1e-6}\nreturn "
        "y\n",
        "x: f32[3,4,50]\n@s = f32[50] random 1\ny, i = SimplifiedLayerNormalization(x, @s)\nreturn "
        "y, i\n",
        "x: f32[3,40]\ny = LpNormalization(x)\nreturn y\n",
        "x: f32[3,40]\ny = LpNormalization(x) {p=1}\nreturn y\n",
        "x: f32[3,40,50]\ny = LpNormalization(x) {axis=1}\nreturn y\n",
        "x: f32[3,4,5]\ny = LpNormalization(x) {axis=0, p=1, epsilon=0.5}\nreturn y\n",
    };
    check_all(texts, CM_COUNT(texts), 4e-6);
}

/* A mean of 1000 deviations: the input itself is exact, so results are as good as ever. */
static void norms_with_large_means(void **state)
{
    (void)state;
    check("x: f32[6,700]\n" AFFINE(700) "y = LayerNormalization(x, @s, @b)\nreturn y\n", 4e-6, 1000,
          1001, 0);
    check("x: f32[6,30,20]\n@s = f32[20] random 1\ny = LayerNormalization(x, @s)\nreturn y\n", 4e-6,
          500, 501, 0);
    check("x: f32[2,12,8,8]\n" AFFINE(
              12) "y = GroupNormalization(x, @s, @b) {num_groups=4}\nreturn y\n",
          1e-5, 1000, 1001, 0);
}

static void norms_of_hurting_values(void **state)
{
    (void)state;
    check("x: f32[200,40]\n" AFFINE(40) "y = LayerNormalization(x, @s, @b)\nreturn y\n", 4e-6, -1,
          1, 60);
    check("x: f32[200,40]\n@s = f32[40] random 1\ny = RMSNormalization(x, @s)\nreturn y\n", 4e-6,
          -1, 1, 60);
    check("x: f32[200,40]\ny = LpNormalization(x)\nreturn y\n", 4e-6, -1, 1, 60);
    check("x: f32[20,40,21]\ny = LpNormalization(x) {axis=1}\nreturn y\n", 4e-6, -1, 1, 60);
    check("x: f32[20,40]\ny = LpNormalization(x)\nreturn y\n", 4e-6, -1e-25, 1e-25, 0);
    check("x: f32[20,40]\ny = LpNormalization(x) {p=1}\nreturn y\n", 4e-6, 0, 0, 0);
    check("x: f32[20,40,19]\ny = LpNormalization(x) {axis=1}\nreturn y\n", 4e-6, 0, 0, 0);
    check("x: f32[20,40]\n" AFFINE(40) "y = LayerNormalization(x, @s, @b)\nreturn y\n", 4e-6, -1e30,
          1e30, 0);
    check("x: f32[9,12,4,5]\n" AFFINE(
              12) "y = GroupNormalization(x, @s, @b) {num_groups=4}\nreturn y\n",
          4e-6, -1, 1, 60);
    check("x: f32[2,12,40,5]\n" AFFINE(12) "y = InstanceNormalization(x, @s, @b)\nreturn y\n", 4e-6,
          -1e30, 1e30, 0);
}

static void skip_norms(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "x: f32[2,3,20]\nk: f32[2,3,20]\n" AFFINE(
            20) "y = com.microsoft.SkipLayerNormalization(x, k, @s, @b)\nreturn y\n",
        "x: f32[2,3,77]\nk: f32[3,77]\n@c = f32[77] random 4\n" AFFINE(
            77) "y, m, i, t = com.microsoft.SkipLayerNormalization(x, k, @s, @b, @c)\nreturn y, m, "
                "i, t\n",
        "x: f32[2,30,768]\nk: f32[1,30,768]\n" AFFINE(
            768) "y, _, _, t = com.microsoft.SkipLayerNormalization(x, k, @s, @b)\nreturn y, t\n",
        "x: f32[2,3,20]\nk: f32[2,3,20]\n@s = f32[20] random 1\n@c = f32[20] random 4\n"
        "y, _, _, t = com.microsoft.SkipSimplifiedLayerNormalization(x, k, @s, @c)\nreturn y, t\n",
        "x: f32[2,3,20]\nk: f32[2,3,20]\n@s = f32[20] random 1\n@e = f32[20] random 9\n"
        "y = com.microsoft.SkipSimplifiedLayerNormalization(x, k, @s | @e) then \"add x "
        "$0\"\nreturn y\n",
    };
    check_all(texts, CM_COUNT(texts), 4e-6);
}

static void embed_norms(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "i: i64[2,9]\ns: i64[2,9]\n@w = f32[100,33] random 1\n@p = f32[20,33] random 2\n"
        "@t = f32[100,33] random 3\n@g = f32[33] random 4\n@b = f32[33] random 5\n"
        "y = com.microsoft.EmbedLayerNormalization(i, s, @w, @p, @t, @g, @b)\nreturn y\n",
        "i: i32[2,9]\nm: i32[2,9]\nq: i32[1,9]\n@w = f32[100,33] random 1\n@p = f32[100,33] random "
        "2\n"
        "@g = f32[33] random 4\n@b = f32[33] random 5\n"
        "y, n, t = com.microsoft.EmbedLayerNormalization(i, _, @w, @p, _, @g, @b, m, q)\n"
        "return y, n, t\n",
    };
    check_all(texts, CM_COUNT(texts), 4e-6);
}

static void embedding_out_of_range(void **state)
{
    (void)state;
    op_case c = op_case_of("i: i64[2,9]\n@w = f32[100,33] random 1\n@p = f32[20,33] random 2\n"
                           "@g = f32[33] random 4\n@b = f32[33] random 5\n"
                           "y = com.microsoft.EmbedLayerNormalization(i, _, @w, @p, _, @g, @b)\n"
                           "return y\n");
    c.int_low = -100;
    op_check(&c); /* below zero counts from the end */
    assert_true(c.ran > 0);
}

static void group_norms(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "x: f32[2,12,4,5]\n" AFFINE(
            12) "y = GroupNormalization(x, @s, @b) {num_groups=4}\nreturn y\n",
        "x: f32[1,64,33]\n" AFFINE(
            64) "y = GroupNormalization(x, @s, @b) {num_groups=32}\nreturn y\n",
        "x: f32[2,70,40,21]\n" AFFINE(
            70) "y = GroupNormalization(x, @s, @b) {num_groups=7}\nreturn y\n",
        "x: f32[1,320,16,16]\n" AFFINE(
            320) "y = GroupNormalization(x, @s, @b) {num_groups=32}\nreturn y\n",
        "x: f32[2,6,9]\n" AFFINE(6) "y = GroupNormalization(x, @s, @b) {num_groups=1}\nreturn y\n",
        "x: f32[3,6]\n" AFFINE(6) "y = GroupNormalization(x, @s, @b) {num_groups=2}\nreturn y\n",
        "x: f32[2,5,9,8]\n" AFFINE(5) "y = InstanceNormalization(x, @s, @b)\nreturn y\n",
        "x: f32[1,16,130,70]\n" AFFINE(16) "y = InstanceNormalization(x, @s, @b)\nreturn y\n",
        "x: f32[1,16,13,7]\n@e = f32[1,16,13,7] random 6\n" AFFINE(
            16) "y = GroupNormalization(x, @s, @b | @e) {num_groups=4} then \"add x $0; silu "
                "%0\"\nreturn y\n",
        "x: f32[1,16,13,7]\n" AFFINE(
            16) "y = GroupNormalization(x, @s, @b) {num_groups=4} then \"silu x\"\nreturn y\n",
        "x: f32[2,7,9,12]\n" AFFINE(
            12) "y = com.microsoft.GroupNorm(x, @s, @b) {activation=1, groups=3}\nreturn y\n",
        "x: f32[2,12,7,9]\n" AFFINE(12) "y = com.microsoft.GroupNorm(x, @s, @b) {activation=0, "
                                        "groups=3, channels_last=0}\nreturn y\n",
    };
    check_all(texts, CM_COUNT(texts), 4e-6);
}

static void norms_of_halves(void **state)
{
    (void)state;
    check("x: f16[9,77]\n@s = f16[77] random 1\n@b = f16[77] random 2\n"
          "y = LayerNormalization(x, @s, @b)\nreturn y\n",
          1e-3, -4, 4, 0);
    check("x: bf16[9,77]\n@s = f32[77] random 1\ny, m, i = LayerNormalization(x, @s)\nreturn y, m, "
          "i\n",
          1e-5, -4, 4, 0);
    check("x: bf16[9,77]\n@s = bf16[77] random 1\n"
          "y, m, i = LayerNormalization(x, @s) {stash_type=16}\nreturn y, m, i\n",
          8e-3, -4, 4, 0);
    check("x: f32[9,77]\n@s = f16[77] random 1\ny = RMSNormalization(x, @s)\nreturn y\n", 1e-3, -4,
          4, 0);
    check("x: f16[2,9,77]\nk: f16[9,77]\n@s = f16[77] random 1\n"
          "y = com.microsoft.SkipSimplifiedLayerNormalization(x, k, @s)\nreturn y\n",
          1e-3, -4, 4, 0);
}

/* Rows that registers do not hold: odd ones are read twice, others kept in shared memory by a block or a cluster of them. */
static void long_rows(void **state)
{
    (void)state;
    check("x: f32[3,2052]\ny = Softmax(x)\nreturn y\n", 4e-6, -90, 90, 30);
    check("x: f16[5,4104]\ny = LogSoftmax(x)\nreturn y\n", 1e-3, -4, 4, 0);
    check("x: f16[7,5000]\n@e = f16[5000] random 3\ny = Softmax(x | @e) then \"mul x $0\"\n"
          "return y\n",
          1e-3, -4, 4, 40);
    check("x: f32[300,2048]\ny = Softmax(x)\nreturn y\n", 4e-6, -3, 3, 60);
    check("x: f16[6,5003]\n@e = f16[5003] random 3\ny = Softmax(x | @e) then \"mul x $0\"\n"
          "return y\n",
          1e-3, -4, 4, 900);
    check("x: bf16[5,4097]\ny = LogSoftmax(x)\nreturn y\n", 8e-3, -4, 4, 0);
    check("x: f32[2,50257]\ny = Softmax(x)\nreturn y\n", 4e-6, -3, 3, 0);
    check("x: f32[3,2052]\n" AFFINE(2052) "y, m, i = LayerNormalization(x, @s, @b)\n"
                                          "return y, m, i\n",
          4e-6, 1000, 1001, 0);
    check("x: f32[40,2052]\n" AFFINE(2052) "y = LayerNormalization(x, @s, @b)\nreturn y\n", 4e-6,
          -1, 1, 12);
    check("x: bf16[3,4200]\n@s = f32[4200] random 1\ny = RMSNormalization(x, @s)\nreturn y\n", 8e-3,
          -4, 4, 0);
    check("x: f16[300,8200]\n@s = f16[8200] random 1\n@b = f16[8200] random 2\n"
          "y = LayerNormalization(x, @s, @b)\nreturn y\n",
          1e-3, -4, 4, 9);
    check("x: f32[5,12292]\n@s = f32[12292] random 1\ny = RMSNormalization(x, @s)\nreturn y\n",
          4e-6, -4, 4, 9);
    check("x: f32[9,2200]\ny = LpNormalization(x) {p=1}\nreturn y\n", 4e-6, -1e30, 1e30, 0);
    check("x: f32[9,2200]\ny = LpNormalization(x)\nreturn y\n", 4e-6, 0, 0, 0);
}

static void large_groups(void **state)
{
    (void)state;
    op_case halves = op_case_of("x: f16[3,12,26,42]\n@s = f16[12] random 1\n@b = f16[12] random 2\n"
                                "y = GroupNormalization(x, @s, @b) {num_groups=3}\nreturn y\n");
    halves.tolerance = 1e-3;
    op_check(&halves); /* GPUs only */
    check("x: f32[2,20,30,40]\n" AFFINE(
              20) "y = GroupNormalization(x, @s, @b) {num_groups=4}\nreturn y\n",
          4e-6, 500, 501, 0);
    check("x: f32[2,8,50,70]\n@e = f32[8,50,70] random 6\n" AFFINE(
              8) "y = InstanceNormalization(x, @s, @b | @e) then \"add x $0; silu %0\"\nreturn y\n",
          4e-6, -1, 1, 0);
    check("x: f32[3,8,50,42]\n" AFFINE(8) "y = InstanceNormalization(x, @s, @b)\nreturn y\n", 4e-6,
          -1, 1, 20);
    check("x: f32[1,4,50,42]\n" AFFINE(4) "y = InstanceNormalization(x, @s, @b)\nreturn y\n", 4e-6,
          -1e30, 1e30, 0);
}

/* Kept by a block or a cluster of them: all neighbours, in vectors that lie in two elements' too, or a slab; threads that have nothing, the last
 * slab cut; more slabs than blocks. */
static void long_rows_side_by_side(void **state)
{
    (void)state;
    check("x: f32[2,40,36]\ny = Softmax(x) {axis=1}\nreturn y\n", 4e-6, -90, 90, 200);
    check("x: f32[1,333,20]\n@e = f32[20] random 3\n"
          "y = LogSoftmax(x | @e) {axis=1} then \"mul x $0\"\nreturn y\n",
          4e-6, -3, 3, 0);
    check("x: f32[100,4,140]\ny = Softmax(x) {axis=0}\nreturn y\n", 4e-6, -3, 3, 900);
    check("x: f16[2,700,196]\ny = Softmax(x) {axis=1}\nreturn y\n", 1e-3, -4, 4, 3000);
    check("x: bf16[1,130,578]\ny = LogSoftmax(x) {axis=1}\nreturn y\n", 8e-3, -4, 4, 0);
    check("x: f16[1,60,2,344]\ny = Softmax(x) {axis=1}\nreturn y\n", 1e-3, -4, 4, 0);
    check("x: f16[3,1000,49]\ny = Softmax(x) {axis=1}\nreturn y\n", 1e-3, -4, 4, 5000);
    check("x: f16[2,136,49]\n@e = f16[136,49] random 3\n"
          "y = LogSoftmax(x | @e) {axis=1} then \"mul x $0\"\nreturn y\n",
          1e-3, -4, 4, 0);
    check("x: bf16[2,48,6]\ny = Softmax(x) {axis=1}\nreturn y\n", 8e-3, -4, 4, 20);
    check("x: f32[2,1040,3]\ny = LogSoftmax(x) {axis=1}\nreturn y\n", 4e-6, -90, 90, 100);
    check("x: f32[1,40,130]\ny = Softmax(x) {axis=1}\nreturn y\n", 4e-6, -90, 90, 50);
    check("x: f16[1100,33,16]\ny = Softmax(x) {axis=1}\nreturn y\n", 1e-3, -4, 4, 9000);
}

#define AFFINE_HALVES(n) "@s = f16[" #n "] random 1\n@b = f16[" #n "] random 2\n"

/* Of several units each, whole ones or not, in fewer and in more of them than there are blocks. */
static void groups_of_many_blocks(void **state)
{
    (void)state;
    static const char *const halves[] = {
        "x: f16[3,4,60,96]\n" AFFINE_HALVES(
            4) "y = GroupNormalization(x, @s, @b) {num_groups=2}\nreturn y\n",
        "x: f16[1,3,67,1240]\n" AFFINE_HALVES(3) "y = InstanceNormalization(x, @s, @b)\nreturn y\n",
        "x: f16[5,31,17,40]\n" AFFINE_HALVES(
            40) "y = com.microsoft.GroupNorm(x, @s, @b) {activation=1, groups=4}\nreturn y\n",
        "x: f16[2,50,53,320]\n" AFFINE_HALVES(
            320) "y = com.microsoft.GroupNorm(x, @s, @b) {activation=0, groups=32}\nreturn y\n",
        "x: f16[3,19,7,48]\n" AFFINE_HALVES(
            48) "y = com.microsoft.GroupNorm(x, @s, @b) {activation=0, groups=16}\nreturn y\n",
        "x: f16[300,5,7,32]\n" AFFINE_HALVES(
            32) "y = com.microsoft.GroupNorm(x, @s, @b) {activation=1, groups=4}\nreturn y\n",
        "x: f16[2,40,41,40]\n" AFFINE_HALVES(
            40) "y = com.microsoft.GroupNorm(x, @s, @b) {activation=0, groups=8}\nreturn y\n",
        "x: f16[2,29,31,24]\n" AFFINE_HALVES(
            24) "y = com.microsoft.GroupNorm(x, @s, @b) {activation=0, groups=24}\nreturn y\n",
    };
    for (int i = 0; i < CM_COUNT(halves); i++) {
        op_case c = op_case_of(halves[i]);
        c.tolerance = 1e-3;
        op_check(&c); /* GPUs only */
        c = op_case_of(halves[i]);
        c.tolerance = 1e-3;
        c.hurt = 30000;
        op_check(&c);
    }
    static const char *const floats[] = {
        "x: f32[3,6,50,42]\n" AFFINE(
            6) "y = GroupNormalization(x, @s, @b) {num_groups=2}\nreturn y\n",
        "x: f32[1,2,131,300]\n@e = f32[2,131,300] random 6\n" AFFINE(
            2) "y = InstanceNormalization(x, @s, @b | @e) then \"add x $0; silu %0\"\nreturn y\n",
        "x: f32[3,9,70,24]\n" AFFINE(
            24) "y = com.microsoft.GroupNorm(x, @s, @b) {activation=1, groups=1}\nreturn y\n",
        "x: f32[2,11,13,128]\n" AFFINE(
            128) "y = com.microsoft.GroupNorm(x, @s, @b) {activation=0, groups=64}\nreturn y\n",
    };
    for (int i = 0; i < CM_COUNT(floats); i++) {
        check(floats[i], 4e-6, -1, 1, 0);
        check(floats[i], 4e-6, 500, 501, 0);
        check(floats[i], 4e-6, -1, 1, 10000);
        check(floats[i], 4e-6, -1e30, 1e30, 0);
    }
}

/* An image in two bands, which have more units than there are blocks. */
static void image_in_bands(void **state)
{
    (void)state;
    op_case c = op_case_of("x: f16[1,113,119,256]\n" AFFINE_HALVES(
        256) "y = com.microsoft.GroupNorm(x, @s, @b) {activation=0, groups=32}\nreturn y\n");
    c.tolerance = 1e-3;
    op_check(&c); /* GPUs only */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(softmax_rows),
        cmocka_unit_test(softmax_values),
        cmocka_unit_test(softmax_halves),
        cmocka_unit_test(layer_norms),
        cmocka_unit_test(norms_with_large_means),
        cmocka_unit_test(norms_of_hurting_values),
        cmocka_unit_test(skip_norms),
        cmocka_unit_test(embed_norms),
        cmocka_unit_test(embedding_out_of_range),
        cmocka_unit_test(group_norms),
        cmocka_unit_test(norms_of_halves),
        cmocka_unit_test(long_rows),
        cmocka_unit_test(large_groups),
        cmocka_unit_test(groups_of_many_blocks),
        cmocka_unit_test(image_in_bands),
        cmocka_unit_test(long_rows_side_by_side),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
