/* cuda_products.c -- the kernels of products and convolutions: compiled for classes of GPUs, run where there is one.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Kernels take sizes as arguments: many sizes, few texts, so that little time goes into compiling. Results in 16 bits
 * are rounded once: half a step, 2^-12 of the largest (float16) or 2^-9 (bfloat16), and sums' errors beside that. */
#include "op/harness.h"

static void check(const char *text, double tolerance)
{
    op_case c = op_case_of(text);
    c.tolerance = tolerance;
    op_check(&c);
    assert_true(c.ran > 0);
}

static void compiles(const char *text)
{
    check(text, 2e-3);
}

/* Does what is compiled run too? Else a few cases do. */
static bool runs(void)
{
    return op_targets()->stream != NULL;
}

static const int64_t products[][3] = {
    /* m, n, k */
    {1, 8, 8},      {3, 5, 7},       {16, 16, 16},   {64, 64, 64},  {65, 72, 136}, {127, 129, 63},
    {128, 256, 64}, {200, 136, 264}, {300, 40, 999}, {1, 768, 768}, {24, 8, 2048}, {513, 520, 72},
};

static void product_sizes(const char *type, double tolerance)
{
    char text[512];
    for (int i = 0; i < CM_COUNT(products) && runs(); i++) {
        long long m = products[i][0], n = products[i][1], k = products[i][2];
        for (int way = 0; way < 4; way++) {
            /* Rows or columns adjacent in either operand. */
            bool ta = way & 1, tb = way & 2;
            snprintf(text, sizeof text,
                     "a: %s[%lld,%lld]\n@b = %s[%lld,%lld] random 1\n@c = %s[%lld] random 2\n"
                     "y = Gemm(a, @b, @c) {transA=%d, transB=%d}\nreturn y\n",
                     type, ta ? k : m, ta ? m : k, type, tb ? n : k, tb ? k : n, type, n, ta, tb);
            check(text, tolerance);
        }
        snprintf(text, sizeof text,
                 "a: %s[2,3,%lld,%lld]\nb: %s[3,%lld,%lld]\ny = MatMul(a, b)\nreturn y\n", type, m,
                 k, type, k, n);
        check(text, tolerance);
    }
}

static void products_of_any_size_in_float16(void **state)
{
    (void)state;
    product_sizes("f16", 2e-3);
}
static void products_of_any_size_in_bfloat16(void **state)
{
    (void)state;
    product_sizes("bf16", 8e-3);
}
static void products_of_any_size_in_float32(void **state)
{
    (void)state;
    product_sizes("f32", 1e-5);
}

/* Operands keep 10 bits behind the point. */
static void products_of_shortened_floats(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "a: f32[70,36]\n@b = f32[36,50] random 1\ny = MatMul(a, @b)\nreturn y\n",
        "a: f32[333,332]\n@b = f32[332,520] random 1\n@o = f32[520] random 2\n"
        "y = MatMul(a, @b | @o) then \"add x $0; relu %0\"\nreturn y\n",
        "a: f32[66,35]\n@b = f32[40,35] random 1\n@c = f32[40] random 2\n"
        "y = Gemm(a, @b, @c) {transB=1}\nreturn y\n",
        "a: f32[2,40,36]\nb: f32[2,36,44]\ny = MatMul(a, b)\nreturn y\n",
        /* Large enough for warp groups that have two blocks of rows. */
        "a: f32[2600,96]\n@b = f32[96,512] random 1\nr: f32[2600,512]\n"
        "y = MatMul(a, @b | r) then \"add x $0\"\nreturn y\n",
    };
    for (int i = 0; i < CM_COUNT(texts) && (runs() || i < 2); i++) {
        op_case c = op_case_of(texts[i]);
        c.tf32 = true;
        c.tolerance = 3e-3;
        op_check(&c);
    }
}

static const struct {
    int n, c_in, c_out, groups, height, width, kernel, stride, dilation;
} convolutions[] = {
    {1, 3, 24, 1, 17, 19, 7, 2, 1},
    {2, 16, 40, 1, 9, 9, 3, 1, 1},
    {1, 64, 64, 1, 14, 14, 3, 2, 1},
    {3, 72, 24, 1, 8, 8, 1, 1, 1},
    {1, 32, 48, 2, 10, 7, 3, 1, 2},
    {2, 32, 32, 32, 9, 11, 3, 1, 1},
    {1, 40, 40, 40, 12, 12, 5, 2, 1},
    {1, 512, 64, 1, 7, 7, 3, 1, 1},
    {2, 12, 20, 4, 6, 6, 3, 1, 1},
    /* One kernel position: few channels, odd numbers of 16 bytes, columns that end anywhere. */
    {2, 16, 16, 1, 9, 7, 1, 1, 1},
    {1, 24, 72, 1, 11, 13, 1, 1, 1},
    {1, 8, 137, 1, 5, 5, 1, 1, 1},
    {3, 40, 5, 1, 6, 6, 1, 1, 1},
    {2, 64, 256, 1, 15, 20, 1, 1, 1},
    {1, 200, 80, 1, 40, 60, 1, 1, 1},
    {1, 64, 128, 1, 9, 12, 1, 2, 1},
    {2, 136, 72, 1, 12, 11, 3, 2, 1},
    /* Images of few channels: tiles that end anywhere, rows of kernels that end within 32 bytes. */
    {2, 3, 64, 1, 37, 41, 7, 2, 1},
    {1, 4, 33, 1, 20, 23, 3, 2, 1},
    {1, 1, 8, 1, 33, 9, 5, 2, 1},
    {1, 2, 100, 1, 40, 70, 4, 2, 1},
    /* Depthwise: every size of window, every stride. */
    {2, 24, 24, 24, 13, 17, 5, 1, 1},
    {1, 12, 12, 12, 10, 10, 3, 2, 1},
    {1, 16, 16, 16, 15, 15, 7, 1, 1},
    {1, 8, 8, 8, 20, 21, 3, 1, 2},
    {2, 20, 20, 20, 9, 9, 3, 3, 1},
    {1, 16, 16, 16, 70, 7, 5, 1, 9},
    {1, 58, 58, 58, 13, 12, 3, 2, 1},
    {2, 29, 29, 29, 9, 14, 3, 1, 1},
    {1, 7, 7, 7, 20, 20, 7, 1, 1},
    {1, 10, 10, 10, 11, 18, 5, 1, 1},
    /* Groups of few channels; one group of them. */
    {2, 64, 64, 16, 15, 17, 3, 1, 1},
    {1, 64, 64, 8, 13, 13, 3, 2, 1},
    {1, 96, 64, 4, 7, 7, 3, 1, 2},
    {2, 64, 64, 2, 9, 10, 3, 1, 1},
    {1, 24, 40, 1, 21, 23, 3, 1, 1},
    {1, 24, 96, 1, 22, 70, 3, 2, 1},
    /* Images whose windows begin at any pixel. */
    {2, 3, 64, 1, 19, 35, 3, 1, 1},
    {1, 4, 40, 1, 17, 18, 5, 1, 1},
    {1, 1, 8, 1, 20, 37, 7, 3, 1},
};

static void convolution_sizes(const char *type, bool tf32, double tolerance)
{
    char text[512];
    for (int i = 0; i < CM_COUNT(convolutions) && runs(); i++) {
        int c_in = convolutions[i].c_in, c_out = convolutions[i].c_out, k = convolutions[i].kernel;
        int pad = k / 2 * convolutions[i].dilation, s = convolutions[i].stride;
        snprintf(text, sizeof text,
                 "x: %s[%d,%d,%d,%d]\n@w = %s[%d,%d,%d,%d] random 1\n@b = %s[%d] random 2\n"
                 "y = Conv(x, @w, @b) {group=%d, strides=[%d,%d], dilations=[%d,%d],"
                 " pads=[%d,%d,%d,%d]} then \"relu x\"\nreturn y\n",
                 type, convolutions[i].n, c_in, convolutions[i].height, convolutions[i].width, type,
                 c_out, c_in / convolutions[i].groups, k, k, type, c_out, convolutions[i].groups, s,
                 s, convolutions[i].dilation, convolutions[i].dilation, pad, pad, pad, pad);
        op_case c = op_case_of(text);
        c.tf32 = tf32;
        c.tolerance = tolerance;
        op_check(&c);
    }
}

static void convolutions_of_any_size_in_float16(void **state)
{
    (void)state;
    convolution_sizes("f16", false, 2e-3);
}
static void convolutions_of_any_size_in_float32(void **state)
{
    (void)state;
    convolution_sizes("f32", false, 1e-5);
}
static void convolutions_of_shortened_floats(void **state)
{
    (void)state;
    convolution_sizes("f32", true, 3e-3);
}

static void products_of_halves_with_an_epilogue(void **state)
{
    (void)state;
    compiles("a: f16[9,40]\n@b = f16[40,24] random 1\n@o = f16[24] random 2\nr: f16[9,24]\n"
             "y = MatMul(a, @b | @o, r) then \"add x $0; gelu %0; add %1 $1\"\nreturn y\n");
}

/* Large enough that every setting is worth trying; rows and columns end inside tiles. */
static const char *const whole_lines[] = {
    "a: f16[333,392]\n@b = f16[392,520] random 1\n@o = f16[520] random 2\n"
    "y = MatMul(a, @b | @o) then \"add x $0; gelu %0\"\nreturn y\n",
    "a: f16[333,392]\n@b = f16[392,520] random 1\n@o = f16[520] random 2\nr: f16[333,520]\n"
    "y = MatMul(a, @b | @o, r) then \"add x $0; add %0 $1\"\nreturn y\n",
    "a: bf16[2,200,264]\nb: bf16[2,264,648]\n@o = bf16[648] random 2\nr: bf16[200,648]\n"
    "@s = f32[1] random 3\n"
    "y = MatMul(a, b | @o, r, @s) then \"mul x $2; add %0 $0; relu %1; add %2 $1\"\nreturn y\n",
    "a: f16[3,130,264]\n@b = f16[264,520] random 1\n@g = f16[520] random 2\n@o = f16[520] random "
    "3\n"
    "y = MatMul(a, @b | @g, @o) then \"mul x $0; add %0 $1; hardswish %1\"\nreturn y\n",
    "a: f16[1100,72]\n@b = f16[72,1032] random 1\n@o = f16[1032] random 2\nr: f16[1100,1032]\n"
    "y = MatMul(a, @b | @o, r) then \"add x $0; add %0 $1\"\nreturn y\n",
    "a: f16[137,1032]\n@b = f16[1032,400] random 1\n@o = f16[400] random 2\nr: f16[137,400]\n"
    "y = Gemm(a, @b, r | @o) {alpha=0.5, beta=2.0} then \"add x $0; silu %0\"\nreturn y\n",
};

static void products_in_whole_lines(void **state)
{
    (void)state;
    for (int i = 0; i < CM_COUNT(whole_lines) && (runs() || i < 3); i++)
        check(whole_lines[i], i == 2 ? 8e-3 : 2e-3);
}

/* Tiles that are finished while the next ones are multiplied: blocks with one tile, with an odd and an even number of them, results of 16 and 32
 * bits, what is added, tails. The last has several tiles for every multiprocessor of a real GPU. */
static const struct {
    const char *text;
    bool tf32, large;
    double tolerance;
} late_tiles[] = {
    {"a: f16[333,456]\n@b = f16[456,392] random 1\n@o = f16[392] random 2\n"
     "y = MatMul(a, @b | @o) then \"add x $0; gelu %0\"\nreturn y\n",
     false, false, 2e-3},
    {"a: f16[301,904]\n@b = f16[904,208] random 1\n@o = f16[208] random 2\nr: f16[301,208]\n"
     "y = MatMul(a, @b | @o, r) then \"add x $0; add %0 $1\"\nreturn y\n",
     false, false, 2e-3},
    {"a: bf16[3,130,456]\nb: bf16[3,456,200]\nr: bf16[3,130,200]\n@s = f32[1] random 3\n"
     "y = MatMul(a, b | r, @s) then \"mul x $1; add %0 $0; silu %1\"\nreturn y\n",
     false, false, 8e-3},
    {"a: f32[140,500]\n@b = f32[500,392] random 1\n@o = f32[392] random 2\n"
     "y = MatMul(a, @b | @o) then \"add x $0; relu %0\"\nreturn y\n",
     true, false, 3e-3},
    {"a: f16[2600,456]\n@b = f16[456,2888] random 1\n@o = f16[2888] random 2\nr: f16[2600,2888]\n"
     "y = MatMul(a, @b | @o, r) then \"add x $0; gelu %0; add %1 $1\"\nreturn y\n",
     false, true, 2e-3},
};

/* Checks of a tactic with these settings: may they be forced? Then they are until forced_no_more. */
static bool forced(const char *tactic, const char *knobs)
{
    const char *one = getenv("CAMEO_TEST_TACTIC");
    if (getenv("CAMEO_TEST_KNOBS") || (one && strcmp(one, tactic) != 0))
        return false;
    setenv("CAMEO_TEST_KNOBS", knobs, 1);
    setenv("CAMEO_TEST_TACTIC", tactic, 1);
    return true;
}
static void forced_no_more(const char *one)
{
    unsetenv("CAMEO_TEST_KNOBS");
    if (!one)
        unsetenv("CAMEO_TEST_TACTIC");
}

static void tiles_that_are_finished_late(void **state)
{
    (void)state;
    const char *one = getenv("CAMEO_TEST_TACTIC");
    bool real = runs() && !getenv("FAKE_CUDA_RUN");
    if (!forced("matmul_wgmma", "192,5,1,1,128,2,1"))
        return;
    for (int i = 0; i < CM_COUNT(late_tiles); i++) {
        op_case c = op_case_of(late_tiles[i].text);
        c.tf32 = late_tiles[i].tf32;
        c.tolerance = late_tiles[i].tolerance;
        if ((runs() || i == 0) && (real || !late_tiles[i].large))
            op_check(&c);
    }
    forced_no_more(one);
}

/* Clusters of blocks that share k, or the copies of B, whose operands have their rows or columns adjacent and tiles more than 64 of them: a
 * block's addresses of shared memory have its rank in them, what products are told of operands must not. */
static void clusters_of_operands_that_lie_across(void **state)
{
    (void)state;
    const char *one = getenv("CAMEO_TEST_TACTIC");
    if (!forced("matmul_wgmma",
                "96,8,1,1,128,0,2 128,6,1,1,128,0,4 256,4,1,2,128,0,1 256,5,1,2,64,1,1"))
        return;
    check("a: bf16[2,200,264]\nb: bf16[2,264,328]\ny = MatMul(a, b)\nreturn y\n", 8e-3);
    if (runs())
        check("a: f16[264,136]\nb: f16[264,264]\nr: f16[136,264]\n"
              "y = Gemm(a, b, r) {transA=1}\nreturn y\n",
              2e-3);
    forced_no_more(one);
}

/* Of numbers that a matrix has, whatever the product is. Where the exact result is near the middle between two of 16 bits, it may
 * become the other one: a step, at most 2^-10 (2^-7) of the largest. */
static void activate(const char *type, const char *function, double low, double high, int hurt,
                     double tolerance)
{
    char text[512];
    snprintf(text, sizeof text,
             "a: %s[48,8]\n@b = %s[8,136] random 1\nr: %s[48,136]\n"
             "y = MatMul(a, @b | r) then \"mul x 0; %s $0; add %%1 %%0\"\nreturn y\n",
             type, type, type, function);
    op_case c = op_case_of(text);
    c.low = low;
    c.high = high;
    c.hurt = hurt;
    c.tolerance = tolerance;
    op_check(&c);
}

static void activations_of_halves(void **state)
{
    (void)state;
    static const char *const functions[] = {"gelu", "gelu_tanh", "silu",      "sigmoid",
                                            "tanh", "exp",       "hardswish", "relu"};
    for (int i = 0; i < CM_COUNT(functions) && (runs() || i < 2); i++) {
        activate("f16", functions[i], -6, 6, 0, 1e-3);
        activate("f16", functions[i], -2, 0, 0, 1e-3);
        activate("f16", functions[i], -0.5, 0.5, 0, 1e-3);
        activate("f16", functions[i], -8, -3, 0, 1e-3);
        activate("bf16", functions[i], -12, -3, 0, 8e-3);
        activate("bf16", functions[i], -1, 1, 50, 8e-3);
    }
}

/* GELU comes from -0.17 to nothing below zero: in small intervals every result is compared with its like. Two steps of float16, whose
 * results below -4.5 are a few of its least steps, and of bfloat16. */
static void gelu_below_zero(void **state)
{
    (void)state;
    for (double x = -4.5; x < 0 && runs(); x += 0.25)
        activate("f16", "gelu", x, x + 0.25, 0, 2e-3);
    for (double x = -8; x < 0 && runs(); x += 0.5)
        activate("bf16", "gelu", x, x + 0.25, 0, 1.6e-2);
}

/* All float16 there are: each result is the nearest, or where the exact one is near the middle its neighbour. */
static void gelu_of_every_half(void **state)
{
    (void)state;
    op_case c = op_case_of("a: f16[256,8]\n@b = f16[8,256] random 1\nr: f16[256,256]\n"
                           "y = MatMul(a, @b | r) then \"gelu $0\"\nreturn y\n");
    c.every = true;
    c.steps = 1;
    op_check(&c);
}

static void products_of_few_rows(void **state)
{
    (void)state;
    compiles("a: f16[1,48]\n@b = f16[48,24] random 1\n@o = f16[24] random 2\n"
             "y = MatMul(a, @b | @o) then \"add x $0; relu %0\"\nreturn y\n");
    compiles("a: f32[3,44]\n@b = f32[30,44] random 1\n@c = f32[30] random 2\n"
             "y = Gemm(a, @b, @c) {transB=1}\nreturn y\n");
    compiles("a: f16[8,1030]\nb: f16[1030,152]\ny = MatMul(a, b)\nreturn y\n");
    compiles("a: f16[2,5,520]\nb: f16[2,520,40]\ny = MatMul(a, b)\nreturn y\n");
    compiles("a: f16[2,2056]\n@b = f16[27,2056] random 1\n@c = f16[27] random 2\n"
             "y = Gemm(a, @b, @c) {transB=1}\nreturn y\n");
}

/* Rows and columns that end inside tiles, steps of k that some warps have and others have not, or none at all; both ways that B lies,
 * a batch, what is added, shortened floats. */
static const struct {
    const char *text;
    bool tf32;
    int hurt;
    double tolerance;
} some_rows[] = {
    {"a: f16[8,1032]\n@b = f16[1032,200] random 1\n@o = f16[200] random 2\nr: f16[8,200]\n"
     "y = MatMul(a, @b | @o, r) then \"add x $0; gelu %0; add %1 $1\"\nreturn y\n",
     false, 0, 2e-3},
    {"a: f16[1,72]\n@b = f16[131,72] random 1\n@c = f16[131] random 2\n"
     "y = Gemm(a, @b, @c) {transB=1, alpha=0.5, beta=2.0}\nreturn y\n",
     false, 0, 2e-3},
    {"a: bf16[2,13,520]\n@b = bf16[520,77] random 1\ny = MatMul(a, @b)\nreturn y\n", false, 0,
     8e-3},
    {"a: f16[20,136]\nb: f16[90,136]\ny = Gemm(a, b) {transB=1}\nreturn y\n", false, 0, 2e-3},
    {"a: f32[5,332]\n@b = f32[332,70] random 1\n@o = f32[70] random 2\n"
     "y = MatMul(a, @b | @o) then \"add x $0; relu %0\"\nreturn y\n",
     true, 0, 3e-3},
    {"a: f16[33,264]\n@b = f16[264,40] random 1\ny = MatMul(a, @b)\nreturn y\n", false, 0, 2e-3},
    {"a: f16[9,296]\n@b = f16[296,104] random 1\ny = MatMul(a, @b)\nreturn y\n", false, 400, 2e-3},
    {"a: f16[40,40]\n@b = f16[40,520] random 1\ny = MatMul(a, @b)\nreturn y\n", false, 0, 2e-3},
};

/* As many as there may be: they leave no room for the widest settings. */
static const char *most_rows =
    "a: f16[64,200]\n@b = f16[200,520] random 1\ny = MatMul(a, @b)\nreturn y\n";

/* Blocks that share k are a cluster, which older GPUs do not have. */
static bool all_have_clusters(void)
{
    const op_targets_state *g = op_targets();
    bool all = true;
    for (int i = 0; i < g->n; i++)
        all = all && op_api()->target(g->devices[i]).level >= 900;
    return all;
}

static void products_of_some_rows(void **state)
{
    (void)state;
    const char *one = getenv("CAMEO_TEST_TACTIC");
    if (!forced("matmul_skinny", all_have_clusters() ? "4,8,1,4,4,2 2,4,2,3,2,1 1,1,4,8,1,1 "
                                                       "2,2,2,2,8,4 4,4,1,5,1,2"
                                                     : "1,1,4,8,1,1 4,4,1,5,1,2"))
        return;
    for (int i = 0; i < CM_COUNT(some_rows) && (runs() || i < 1); i++) {
        op_case c = op_case_of(some_rows[i].text);
        c.tf32 = some_rows[i].tf32;
        c.hurt = some_rows[i].hurt;
        c.tolerance = some_rows[i].tolerance;
        op_check(&c);
        assert_true(c.ran > 0);
    }
    forced_no_more(one);
    if (!forced("matmul_skinny", all_have_clusters() ? "2,2,2,2,8,4 1,1,4,8,1,1" : "1,1,4,8,1,1"))
        return;
    op_case c = op_case_of(most_rows);
    c.tolerance = 2e-3;
    op_check(&c);
    assert_true(c.ran > 0);
    forced_no_more(one);
}

static void products_of_floats_with_a_bias(void **state)
{
    (void)state;
    compiles("a: f32[30,17]\nb: f32[9,17]\n@c = f32[9] random 3\n"
             "y = Gemm(a, b, @c) {transB=1, alpha=0.5, beta=2.0}\nreturn y\n");
}

static void convolutions_of_both_readings(void **state)
{
    (void)state;
    compiles("x: f16[1,16,9,9]\n@w = f16[24,16,3,3] random 1\n@b = f16[24] random 2\n"
             "y = Conv(x, @w, @b) {pads=[1,1,1,1]} then \"relu x\"\nreturn y\n");
}

static void convolutions_that_add(void **state)
{
    (void)state;
    compiles("x: f16[2,24,9,11]\n@w = f16[40,24,1,1] random 1\n@b = f16[40] random 2\nr: "
             "f16[2,40,9,11]\n"
             "y = Conv(x, @w, @b | r) then \"add x $0; relu %0\"\nreturn y\n");
    compiles("x: f16[1,24,9,11]\n@w = f16[24,1,5,5] random 1\nr: f16[1,24,9,11]\ns: f16[1,24,1,1]\n"
             "y = Conv(x, @w | r, s) {group=24, pads=[2,2,2,2]} then \"mul x $1; add %0 "
             "$0\"\nreturn y\n");
    compiles("x: f16[2,3,33,40]\n@w = f16[40,3,5,5] random 1\nr: f16[2,40,15,18]\n"
             "y = Conv(x, @w | r) {strides=[2,2]} then \"add x $0\"\nreturn y\n");
}

/* What a window does not see, though it is loaded with it, may be infinite. */
static void images_with_infinities(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "x: f16[1,3,40,40]\n@w = f16[16,3,5,5] random 1\n"
        "y = Conv(x, @w) {strides=[2,2]}\nreturn y\n",
        "x: f16[2,3,19,40]\n@w = f16[24,3,3,3] random 1\n"
        "y = Conv(x, @w) {strides=[2,2], pads=[1,1,1,1]}\nreturn y\n",
        "x: f16[2,3,19,40]\n@w = f16[24,3,3,3] random 1\n"
        "y = Conv(x, @w) {pads=[1,1,1,1]}\nreturn y\n",
    };
    for (int i = 0; i < CM_COUNT(texts); i++) {
        op_case c = op_case_of(texts[i]);
        c.hurt = 40;
        c.tolerance = 2e-3;
        op_check(&c);
    }
}

static void depthwise_convolutions(void **state)
{
    (void)state;
    compiles("x: f16[1,16,9,9]\n@w = f16[16,1,3,3] random 1\n"
             "y = Conv(x, @w) {pads=[1,1,1,1], group=16, strides=[2,2]}\nreturn y\n");
    compiles("x: f16[1,24,9,9]\n@w = f16[24,1,5,5] random 1\n"
             "y = Conv(x, @w) {pads=[2,2,2,2], group=24}\nreturn y\n");
    compiles("x: bf16[1,16,20,20]\n@w = bf16[16,1,7,7] random 1\n"
             "y = Conv(x, @w) {pads=[3,3,3,3], group=16} then \"relu x\"\nreturn y\n");
}

static void transposed_convolutions(void **state)
{
    (void)state;
    compiles("x: f32[1,6,5,5]\n@w = f32[6,4,3,3] random 1\n"
             "y = ConvTranspose(x, @w) {strides=[2,2]}\nreturn y\n");
}

/* Each brings its weights: groups, three axes, dilation, transposed. */
static void convolutions_with_weights_that_vary(void **state)
{
    (void)state;
    compiles("x: f16[2,8,9,9]\nw: f16[12,4,3,3]\n@b = f16[12] random 2\n"
             "y = Conv(x, w, @b) {group=2, pads=[1,1,1,1]} then \"relu x\"\nreturn y\n");
    compiles("x: f32[1,3,5,6,7]\nw: f32[5,3,3,2,3]\nb: f32[5]\n"
             "y = Conv(x, w, b) {dilations=[1,2,1], strides=[2,1,1]}\nreturn y\n");
    compiles("x: f32[2,6,30]\nw: f32[6,1,5]\ny = Conv(x, w) {group=6}\nreturn y\n");
    compiles("x: f32[1,6,5,5]\nw: f32[6,4,3,2]\n"
             "y = ConvTranspose(x, w) {group=2, strides=[2,2], dilations=[1,2]}\nreturn y\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_of_halves_with_an_epilogue),
        cmocka_unit_test(products_of_few_rows),
        cmocka_unit_test(products_of_some_rows),
        cmocka_unit_test(products_in_whole_lines),
        cmocka_unit_test(tiles_that_are_finished_late),
        cmocka_unit_test(clusters_of_operands_that_lie_across),
        cmocka_unit_test(activations_of_halves),
        cmocka_unit_test(gelu_below_zero),
        cmocka_unit_test(gelu_of_every_half),
        cmocka_unit_test(products_of_floats_with_a_bias),
        cmocka_unit_test(convolutions_of_both_readings),
        cmocka_unit_test(convolutions_that_add),
        cmocka_unit_test(images_with_infinities),
        cmocka_unit_test(depthwise_convolutions),
        cmocka_unit_test(transposed_convolutions),
        cmocka_unit_test(convolutions_with_weights_that_vary),
        cmocka_unit_test(products_of_shortened_floats),
        cmocka_unit_test(products_of_any_size_in_float16),
        cmocka_unit_test(products_of_any_size_in_bfloat16),
        cmocka_unit_test(products_of_any_size_in_float32),
        cmocka_unit_test(convolutions_of_any_size_in_float16),
        cmocka_unit_test(convolutions_of_any_size_in_float32),
        cmocka_unit_test(convolutions_of_shortened_floats),
    };
    setenv("CAMEO_TEST_TARGET", "sm_75,sm_90", 0);
    setenv("CAMEO_TEST_CASES", "4", 0); /* compiling is slow; on a GPU all of them run */
    return cmocka_run_group_tests_name("cuda_products", tests, NULL, NULL);
}
