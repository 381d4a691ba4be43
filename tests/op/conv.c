/* conv.c -- the direct tactics for convolutions (Winograd has its own test) against the reference.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Sums of k products, in float32 against the reference's double: each product and each addition rounds by at
 * most 2^-24, errors add up like a random walk, so sqrt(k) * 2^-24 of the largest partial sum; outputs are
 * sums of uniform numbers of both signs whose largest is about that: 1e-5 leaves a factor of ten and more
 * up to k = 5000. An activation may bring the output's scale down to 1 from sums of about sqrt(k): then an
 * error of k * 2^-24, with a factor of two above it. */
#include "base/cpu.h"
#include "base/size.h"
#include "op/harness.h"

static uint32_t seed = 1;

static int64_t pick(int64_t low, int64_t high)
{
    return low + (int64_t)(op_random(&seed) % (uint32_t)(high - low + 1));
}

typedef struct {
    int axes;
    int64_t n, groups, c_in, c_out, in[3], kernel[3], stride[3], dilation[3], begin[3], end[3];
    int64_t extra[3]; /* output_padding */
    bool transposed, bias, constant;
    int epilogue;
    const char *dtype;
} shape;

static const char *const epilogues[] = {
    "",
    "relu x",
    "clip x -0.5 0.75",
    "add x $0; relu %0",
    "silu x",
    "add x $0; sigmoid %0; mul %0 %1",
};

static bool has_operand(int epilogue)
{
    return strchr(epilogues[epilogue], '$') != NULL;
}

/* Spatial sizes of the output. */
static void out_sizes(const shape *s, int64_t *out)
{
    for (int d = 0; d < s->axes; d++) {
        int64_t extent = (s->kernel[d] - 1) * s->dilation[d] + 1;
        int64_t pads = s->begin[d] + s->end[d];
        out[d] = s->transposed ? (s->in[d] - 1) * s->stride[d] + extent + s->extra[d] - pads
                               : (s->in[d] + pads - extent) / s->stride[d] + 1;
    }
}

static int put_list(char *to, const char *name, int n, const int64_t *v, const int64_t *w)
{
    int at = sprintf(to, ", %s=[", name);
    for (int d = 0; d < n; d++)
        at += sprintf(to + at, "%s%lld", d ? "," : "", (long long)v[d]);
    for (int d = 0; w && d < n; d++)
        at += sprintf(to + at, ",%lld", (long long)w[d]);
    return at + sprintf(to + at, "]");
}

static int put_dims(char *to, int64_t a, int64_t b, int n, const int64_t *v)
{
    int at = sprintf(to, "[%lld,%lld", (long long)a, (long long)b);
    for (int d = 0; d < n; d++)
        at += sprintf(to + at, ",%lld", (long long)v[d]);
    return at + sprintf(to + at, "]");
}

static void text_of(const shape *s, char *to)
{
    int64_t out[3], one[3] = {1, 1, 1};
    const char *mark = s->constant ? "@" : "", *t = s->dtype;
    out_sizes(s, out);
    to += sprintf(to, "x: %s", t);
    to += put_dims(to, s->n, s->c_in, s->axes, s->in);
    int64_t w0 = s->transposed ? s->c_in : s->c_out;
    int64_t w1 = (s->transposed ? s->c_out : s->c_in) / s->groups;
    to += sprintf(to, s->constant ? "\n@w = %s" : "\nw: %s", t);
    to += put_dims(to, w0, w1, s->axes, s->kernel);
    to += sprintf(to, s->constant ? " random 1\n" : "\n");
    if (s->bias)
        to += sprintf(to, "@b = %s[%lld] random 2\n", t, (long long)s->c_out);
    bool operand = has_operand(s->epilogue), whole = s->c_in % 2;
    if (operand) {
        to += sprintf(to, "r: %s", t);
        to += put_dims(to, whole ? s->n : 1, s->c_out, s->axes, whole ? out : one);
        to += sprintf(to, "\n");
    }
    to += sprintf(to, "y = Conv%s(x, %sw%s%s) {group=%lld", s->transposed ? "Transpose" : "", mark,
                  s->bias ? ", @b" : "", operand ? " | r" : "", (long long)s->groups);
    to += put_list(to, "strides", s->axes, s->stride, NULL);
    to += put_list(to, "dilations", s->axes, s->dilation, NULL);
    to += put_list(to, "pads", s->axes, s->begin, s->end);
    if (s->transposed)
        to += put_list(to, "output_padding", s->axes, s->extra, NULL);
    to += sprintf(to, "}");
    if (s->epilogue)
        to += sprintf(to, " then \"%s\"", epilogues[s->epilogue]);
    sprintf(to, "\nreturn y\n");
}

/* Sizes of the axes; small, so that the reference is quick. The window fits. */
static void random_axes(shape *s, int64_t size, int64_t kernel)
{
    for (int d = 0; d < s->axes; d++) {
        s->kernel[d] = pick(1, kernel);
        s->stride[d] = pick(0, 2) ? 1 : pick(1, 3);
        s->dilation[d] = pick(0, 3) ? 1 : pick(1, 3);
        int64_t reach = (s->kernel[d] - 1) * s->dilation[d];
        s->begin[d] = pick(0, 2) ? reach / 2 : pick(0, reach + 1);
        s->end[d] = pick(0, 2) ? reach / 2 : pick(0, reach + 1);
        s->in[d] = pick(1, size);
        s->extra[d] = s->stride[d] > 1 ? pick(0, s->stride[d] - 1) : 0;
        int64_t lack = reach + 1 - s->in[d] - s->begin[d] - s->end[d];
        if (!s->transposed && lack > 0)
            s->in[d] += lack;
        int64_t whole = (s->in[d] - 1) * s->stride[d] + reach + 1 + s->extra[d];
        if (s->transposed && s->begin[d] + s->end[d] >= whole)
            s->begin[d] = s->end[d] = 0;
    }
}

static shape random_shape(int axes)
{
    return (shape){.axes = axes,
                   .n = pick(1, 2),
                   .groups = 1,
                   .bias = pick(0, 1),
                   .constant = pick(0, 7) != 0,
                   .epilogue = (int)pick(0, CM_COUNT(epilogues) - 1),
                   .dtype = "f32"};
}

/* Runs compared. Only activations hurt: padding is skipped by some tactics and multiplied by others, which
 * an infinite weight would tell apart. */
static int check_shape(const shape *s, const char *only, double tolerance, int hurt)
{
    char text[2000];
    double k = (double)(s->c_in / s->groups);
    for (int d = 0; d < s->axes; d++)
        k *= (double)s->kernel[d];
    if (s->epilogue)
        tolerance += k * ldexp(1, -23);
    text_of(s, text);
    op_case c = op_case_of(text);
    c.tolerance = tolerance;
    c.only = only;
    c.without = "winograd"; /* other tolerances, and a NaN goes to a whole tile: conv_winograd.c */
    c.hurt = s->constant ? hurt : 0;
    c.seed = seed;
    op_check(&c);
    return c.ran;
}

static void depthwise(void **state)
{
    (void)state;
    int ran = 0;
    for (int i = 0; i < 1000; i++) {
        shape s = random_shape((int)pick(1, 3));
        s.groups = s.c_in = s.c_out = pick(0, 3) ? pick(1, 40) : pick(1, 600);
        random_axes(&s, s.axes == 1 ? 60 : s.axes == 2 && s.c_in < 100 ? 20 : 6, 7);
        ran += check_shape(&s, "_f32", 1e-5, i % 16 == 0 ? 50 : 0);
    }
    assert_true(ran > 4000);
}

/* Square windows that are done two rows at a time: borders of all widths on each side, odd and even rows, vectors that are
 * not full, more channels than a chunk has, rows longer than a piece. */
static void depthwise_squares(void **state)
{
    (void)state;
    int ran = 0;
    for (int i = 0; i < 400; i++) {
        shape s = random_shape(2);
        int64_t k = pick(0, 1) ? 3 : 5, stride = pick(1, 2);
        s.groups = s.c_in = s.c_out = pick(0, 3) ? pick(1, 40) : pick(250, 300);
        for (int d = 0; d < 2; d++) {
            s.kernel[d] = k;
            s.stride[d] = stride;
            s.dilation[d] = 1;
            s.begin[d] = pick(0, 2) ? k / 2 : pick(0, k);
            s.end[d] = pick(0, 2) ? k / 2 : pick(0, k);
            s.in[d] = cm_max_i64(pick(1, s.c_in > 40 ? 9 : d ? 70 : 13), k - s.begin[d] - s.end[d]);
        }
        ran += check_shape(&s, "conv_depthwise_f32", 1e-5, i % 4 == 0 ? 200 : 0);
    }
    assert_true(ran > 1000);
}

static void dense(void **state)
{
    (void)state;
    int ran = 0;
    for (int i = 0; i < 1500; i++) {
        shape s = random_shape((int)pick(1, 3));
        s.groups = pick(0, 3) ? 1 : pick(1, 5);
        int64_t most = pick(0, 3) ? 12 : pick(0, 3) ? 40 : 150;
        s.c_in = s.groups * pick(1, most);
        s.c_out = s.groups * pick(1, most);
        random_axes(&s, (s.axes == 1 ? 60 : s.axes == 2 ? 14 : 5) / (most > 100 ? 3 : 1), 5);
        ran += check_shape(&s, "_f32", 1e-5, i % 16 == 0 ? 200 : 0);
    }
    assert_true(ran > 8000);
}

/* Several tiles of pixels and then some, whole and half vectors of channels. */
static void points(void **state)
{
    (void)state;
    int ran = 0;
    for (int i = 0; i < 100; i++) {
        shape s = random_shape(1);
        s.groups = pick(1, 2);
        s.c_in = s.groups * pick(1, 40);
        s.c_out = s.groups * (pick(0, 3) ? 4 * pick(1, 25) : pick(1, 100));
        s.in[0] = pick(1, 100);
        s.kernel[0] = s.stride[0] = s.dilation[0] = 1;
        ran += check_shape(&s, "_f32", 1e-5, i % 16 == 0 ? 200 : 0);
    }
    assert_true(ran > 500);
}

/* Pixels of many tiles packed from windows with strides and borders; sums of any length. */
static void products(void **state)
{
    (void)state;
    int ran = 0;
    for (int i = 0; i < 100; i++) {
        shape s = random_shape(2);
        s.groups = 1;
        s.c_in = pick(1, 70);
        s.c_out = pick(1, 100);
        random_axes(&s, 14, 3);
        ran += check_shape(&s, "conv_product_f32", 1e-5, i % 16 == 0 ? 200 : 0);
    }
    assert_true(ran > 300);
}

/* A scheme of fewer multiplications, at AVX-512, with every epilogue; `hurt` as check_shape has it. */
static void check_fewer(const shape *of, const char *tactic, int hurt)
{
    for (int e = 0; e < 2 * CM_COUNT(epilogues); e++) {
        shape s = *of;
        s.bias = e % 2;
        s.constant = true;
        s.epilogue = e / 2;
        s.dtype = "f32";
        int ran = check_shape(&s, tactic, 1e-5, e % 4 == 3 ? hurt : 0);
        assert_true(ran > 0 || cm_cpu_info()->isa < CM_ISA_AVX512);
    }
}

/* Strassen's scheme: odd halves of pixels, windows with borders, several images and blocks; NaNs stay in their pixels. */
static void strassen(void **state)
{
    (void)state;
    static const shape shapes[] = {
        {2, 1, 1, 256, 64, {7, 7}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
        {2, 2, 1, 258, 128, {8, 9}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
        {2, 1, 1, 32, 192, {17, 19}, {3, 3}, {1, 2}, {1, 1}, {1, 1}, {1, 0}},
        {2, 3, 1, 256, 64, {20, 21}, {1, 1}, {2, 2}, {1, 1}, {0, 0}, {0, 0}},
        {1, 1, 1, 90, 320, {61}, {5}, {1}, {2}, {4}, {4}},
        {2, 1, 1, 1024, 64, {14, 14}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
    };
    for (int i = 0; i < CM_COUNT(shapes); i++)
        check_fewer(&shapes[i], "strassen", 3000);
}

/* Products by pairs: sums of all lengths modulo 8, columns that fill no panel, panels that stay in the cache and more than
 * do, points that are copied, strips that differ by a tile; NaNs and infinities stay in their pixels. */
static void pairs(void **state)
{
    (void)state;
    static const shape shapes[] = {
        {2, 1, 1, 32, 32, {7, 7}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
        {2, 2, 1, 37, 112, {5, 9}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
        {2, 1, 1, 78, 97, {13, 1}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
        {1, 3, 1, 131, 64, {5}, {1}, {1}, {1}, {0}, {0}},
        {2, 1, 1, 512, 72, {9, 11}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
        {2, 1, 1, 700, 416, {6, 9}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
        {2, 1, 1, 96, 160, {13, 17}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
    };
    for (int i = 0; i < CM_COUNT(shapes); i++)
        check_fewer(&shapes[i], "pairs", 1000);
}

static void transposed(void **state)
{
    (void)state;
    int ran = 0;
    for (int i = 0; i < 800; i++) {
        shape s = random_shape((int)pick(1, 3));
        s.transposed = true;
        s.groups = pick(0, 3) ? 1 : pick(1, 5);
        int64_t most = pick(0, 3) ? 12 : 40;
        s.c_in = s.groups * pick(1, most);
        s.c_out = s.groups * pick(1, most);
        random_axes(&s, s.axes == 1 ? 60 : s.axes == 2 ? 9 : 3, s.axes == 1 ? 16 : 4);
        ran += check_shape(&s, "_f32", 1e-5, i % 16 == 0 ? 200 : 0);
    }
    assert_true(ran > 4000);
}

/* Transposed, each channel by itself: kernels smaller and larger than the stride, all numbers of axes. */
static void transposed_depthwise(void **state)
{
    (void)state;
    int ran = 0;
    for (int i = 0; i < 300; i++) {
        shape s = random_shape((int)pick(1, 3));
        s.transposed = true;
        s.groups = s.c_in = s.c_out = pick(0, 2) ? pick(1, 40) : pick(60, 130);
        random_axes(&s, s.axes == 1 ? 40 : s.axes == 2 ? 9 : 3, s.axes == 1 ? 16 : 5);
        for (int d = 0; d < s.axes; d++) {
            s.dilation[d] = 1;
            if (s.begin[d] + s.end[d] >= (s.in[d] - 1) * s.stride[d] + s.kernel[d])
                s.begin[d] = s.end[d] = 0;
        }
        ran += check_shape(&s, "transposed", 1e-5, i % 8 == 0 ? 200 : 0);
    }
    assert_true(ran > 1000);
}

/* Transposed, kernel and stride being equal: few and many output channels, all numbers of axes. */
static void apart(void **state)
{
    (void)state;
    int ran = 0;
    for (int i = 0; i < 200; i++) {
        shape s = random_shape((int)pick(1, 3));
        s.transposed = true;
        s.c_in = pick(1, 40);
        s.c_out = pick(0, 2) ? pick(1, 3) : pick(1, 70);
        for (int d = 0; d < s.axes; d++) {
            s.in[d] = pick(1, s.axes == 1 ? 60 : s.axes == 2 ? 17 : 4);
            s.kernel[d] = s.stride[d] = pick(1, 3);
            s.dilation[d] = 1;
        }
        ran += check_shape(&s, "transposed_apart", 1e-5, i % 16 == 0 ? 200 : 0);
    }
    assert_true(ran > 400);
}

/* Windows of more positions than pointers fit; pixels that meet in one set of the cache. */
static void unusual(void **state)
{
    (void)state;
    static const shape shapes[] = {
        {2, 1, 1, 3, 5, {40, 37}, {23, 19}, {1, 2}, {1, 1}, {11, 9}, {11, 9}},
        {2, 1, 1, 512, 70, {5, 6}, {3, 2}, {1, 1}, {1, 1}, {1, 1}, {1, 0}},
        {2, 1, 1, 600, 64, {5, 9}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
        {2, 1, 1, 1024, 96, {5, 9}, {1, 1}, {2, 2}, {1, 1}, {0, 0}, {0, 0}},
        {2, 2, 2, 1024, 192, {3, 4}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
        {1, 2, 1, 256, 300, {31}, {3}, {2}, {1}, {1}, {1}},
        {2, 1, 1, 1, 1, {30, 30}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
        {2, 1, 1, 64, 32, {40, 41}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
        {2, 1, 1, 3, 5, {9, 7}, {23, 19}, {1, 2}, {1, 1}, {9, 9}, {9, 9}, .transposed = true},
        {2, 2, 1, 64, 96, {9, 17}, {2, 2}, {2, 2}, {1, 1}, {0, 0}, {0, 0}, .transposed = true},
        {1, 1, 1, 20, 30, {150}, {16}, {8}, {1}, {4}, {4}, .transposed = true},
    };
    for (int i = 0; i < CM_COUNT(shapes); i++)
        for (int e = 0; e < CM_COUNT(epilogues); e++) {
            shape s = shapes[i];
            s.bias = e % 2;
            s.constant = e % 3;
            s.epilogue = e;
            s.dtype = "f32";
            assert_true(check_shape(&s, "_f32", 1e-5, 0) > 0);
        }
}

/* Windows that see little of the image or nothing: kernels larger than it, far apart, all of it in the padding. */
static void mostly_padding(void **state)
{
    (void)state;
    int ran = 0;
    for (int i = 0; i < 300; i++) {
        shape s = random_shape((int)pick(1, 3));
        s.groups = pick(0, 3) ? 1 : pick(2, 3);
        s.c_in = s.groups * (i % 20 ? pick(1, 40) : 512);
        s.c_out = s.groups * pick(1, 70);
        s.constant = true;
        for (int d = 0; d < s.axes; d++) {
            s.in[d] = pick(1, s.axes == 1 ? 30 : 7);
            s.kernel[d] = pick(1, s.axes == 3 ? 3 : 5);
            s.stride[d] = pick(0, 2) ? 1 : pick(2, 3);
            s.dilation[d] = pick(1, s.in[d] + 1);
            int64_t reach = (s.kernel[d] - 1) * s.dilation[d];
            s.begin[d] = pick(0, 3) ? reach / 2 : pick(0, reach + 2);
            s.end[d] = cm_max_i64(0, reach - s.begin[d]) + pick(0, 2);
        }
        ran += check_shape(&s, "conv_inside", 1e-5, i % 4 == 1 ? 50 : 0); /* not of long sums */
    }
    assert_true(ran > 500);
}

/* Padding that sizes tell. */
static void forms(void **state)
{
    (void)state;
    static const char *const nodes[] = {
        "Conv(x, @w) {auto_pad=\"SAME_UPPER\", strides=[2,2]}",
        "Conv(x, @w, @b) {auto_pad=\"SAME_LOWER\", strides=[2,3], dilations=[2,1]}",
        "Conv(x, @w) {auto_pad=\"VALID\"}",
        "Conv(x, @w)",
        "ConvTranspose(x, @w) {auto_pad=\"SAME_UPPER\", strides=[2,2]}",
        "ConvTranspose(x, @w) {auto_pad=\"SAME_LOWER\", strides=[3,2]}",
        "ConvTranspose(x, @w) {output_shape=[17,20], strides=[2,2]}",
        "ConvTranspose(x, @w) {output_shape=[16,19], strides=[2,2], auto_pad=\"SAME_UPPER\"}",
        "ConvTranspose(x, @w) {strides=[2,2], output_padding=[1,0], pads=[1,0,0,2]}",
    };
    for (int i = 0; i < CM_COUNT(nodes); i++) {
        char text[400];
        sprintf(text, "x: f32[2,6,8,9]\n@w = f32[6,6,3,4] random 1\n%sy = %s\nreturn y\n",
                strstr(nodes[i], "@b") ? "@b = f32[6] random 2\n" : "", nodes[i]);
        op_case c = op_case_of(text);
        c.only = "_f32";
        op_check(&c);
        assert_true(c.ran > 0);
    }
}

/* Both round once, to 8 or 11 bits; sums that differ by float32's error may go to different sides of a tie:
 * one unit in the last place, 2^-7 or 2^-10 of a number. The reference rounds before its epilogue too: no
 * additions there, which may cancel, and one unit more. */
static void halves(void **state)
{
    (void)state;
    int ran = 0;
    for (int i = 0; i < 300; i++) {
        shape s = random_shape((int)pick(1, 3));
        bool bf16 = i % 2;
        s.transposed = pick(0, 4) == 0;
        s.dtype = bf16 ? "bf16" : "f16";
        while (has_operand(s.epilogue))
            s.epilogue = (int)pick(0, CM_COUNT(epilogues) - 1);
        s.groups = pick(0, 2) ? 1 : pick(1, 20);
        s.c_in = s.groups * (pick(0, 2) ? pick(1, 20) : 1);
        s.c_out = s.groups * (s.c_in == s.groups ? 1 : pick(1, 20));
        if (bf16 && pick(0, 3) == 0) { /* whole tiles */
            s.groups = pick(1, 2);
            s.c_in = s.groups * 32 * pick(1, 2);
            s.c_out = s.groups * pick(1, 80);
        }
        random_axes(&s, s.axes == 1 ? 40 : s.axes == 2 ? 9 : 3, 3);
        ran += check_shape(&s, NULL, ldexp(1, bf16 ? -6 : -9), 0);
    }
    assert_true(ran > 1000);
}

/* Channels in whole chunks, rows longer than what is multiplied at once; what is not finite stays where it is seen. */
static void depthwise_halves(void **state)
{
    (void)state;
    int ran = 0;
    for (int i = 0; i < 200; i++) {
        shape s = random_shape((int)pick(0, 4) ? 2 : 1);
        bool bf16 = i % 4 == 3;
        s.dtype = bf16 ? "bf16" : "f16";
        s.groups = s.c_in = s.c_out = 8 * pick(1, 12);
        random_axes(&s, s.axes == 1 ? 90 : 36, 7);
        ran += check_shape(&s, NULL, ldexp(1, bf16 ? -6 : -9), i % 4 == 0 ? 300 : 0);
    }
    assert_true(ran > 200);
}

/* Groups of few channels, and one group of few: what is not finite stays in its group. Depthwise, of any number of channels. */
static void grouped_halves(void **state)
{
    (void)state;
    int ran = 0;
    for (int i = 0; i < 160; i++) {
        shape s = random_shape(2);
        bool bf16 = i % 4 == 3;
        int64_t columns = 4 << pick(0, 3), way = i % 4;
        s.dtype = bf16 ? "bf16" : "f16";
        s.constant = true;
        while (has_operand(s.epilogue))
            s.epilogue = (int)pick(0, CM_COUNT(epilogues) - 1);
        s.groups = 32 / columns * pick(columns == 32 ? 2 : 1, 3);
        s.c_in = s.groups * (pick(0, 1) ? columns : 4 * pick(1, 5));
        s.c_out = s.groups * columns;
        if (way == 1) { /* one group */
            s.groups = 1;
            s.c_in = 8 * pick(1, 6);
            s.c_out = pick(1, 100);
        } else if (way == 2) {
            s.groups = s.c_in = s.c_out = pick(1, 60);
        }
        random_axes(&s, 18, 3);
        /* one group may be done by Winograd's scheme in float32, where a NaN goes to a whole tile */
        bool hurt = i % 3 == 0 && way != 1;
        ran += check_shape(&s, NULL, ldexp(1, bf16 ? -6 : -9), hurt ? 300 : 0);
    }
    assert_true(ran > 200);
}

/* bfloat16 in whole blocks of 32 channels, several tiles high and wide; and lines of a few channels, as first layers have them. */
static void bfloat16(void **state)
{
    (void)state;
    int ran = 0;
    for (int i = 0; i < 60; i++) {
        shape s = random_shape(2);
        bool first = i % 4 == 0;
        s.dtype = "bf16";
        s.constant = true;
        while (has_operand(s.epilogue))
            s.epilogue = (int)pick(0, CM_COUNT(epilogues) - 1);
        s.c_in = first ? pick(1, 4) : 32 * pick(1, 3);
        s.c_out = pick(1, 80);
        random_axes(&s, first ? 30 : 20, first ? 7 : 3);
        ran += check_shape(&s, NULL, ldexp(1, -6), i % 8 == 0 ? 300 : 0);
    }
    assert_true(ran > 100);
}

int main(int argc, char **argv)
{
    if (argc > 1) /* one family */
        cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(depthwise),
        cmocka_unit_test(dense),
        cmocka_unit_test(unusual),
        cmocka_unit_test(transposed),
        cmocka_unit_test(transposed_depthwise),
        cmocka_unit_test(mostly_padding),
        cmocka_unit_test(forms),
        cmocka_unit_test(halves),
        cmocka_unit_test(depthwise_halves),
        cmocka_unit_test(grouped_halves),
        cmocka_unit_test(points),
        cmocka_unit_test(products),
        cmocka_unit_test(strassen),
        cmocka_unit_test(pairs),
        cmocka_unit_test(apart),
        cmocka_unit_test(bfloat16),
        cmocka_unit_test(depthwise_squares),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
