/* recurrent.c -- RNN, GRU and LSTM against their reference.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Tolerance: gates are sums of up to 400 products in float32, 400^(1/2) * 2^-24 of their magnitudes. Random
 * weights between -1 and 1 make large states chaotic, each step enlarging what the one before was off by, so
 * sequences are short where states are large. 1e-5 of the largest output. */
#include "op/harness.h"

static void check_with(const char *text, int low, int high)
{
    op_case c = op_case_of(text);
    c.tolerance = 1e-5;
    c.int_low = low;
    c.int_high = high;
    op_check(&c);
    if (c.ran == 0)
        fail_msg("no tactic ran\n%s", text);
}

static void check(const char *text)
{
    check_with(text, 0, 1);
}

#define WEIGHTS(d, rows, in, h, rows2)                                                             \
    "@w = f32[" #d "," #rows "," #in "] random 1\n@r = f32[" #d "," #rows "," #h                   \
    "] random 2\n@b = f32[" #d "," #rows2 "] random 3\n"

static void lstms(void **state)
{
    (void)state;
    check("x: f32[7,3,10]\n" WEIGHTS(1, 20, 10, 5,
                                     40) "y, h, c = LSTM(x, @w, @r, @b)\nreturn y, h, c\n");
    check("x: f32[1,1,10]\nh0: f32[1,1,16]\nc0: f32[1,1,16]\n" WEIGHTS(
        1, 64, 10, 16, 128) "y, h, c = LSTM(x, @w, @r, @b, _, h0, c0)\nreturn y, h, c\n");
    check("x: f32[9,2,12]\nh0: f32[2,2,40]\nc0: f32[2,2,40]\n" WEIGHTS(
        2, 160, 12, 40,
        320) "y, h, c = LSTM(x, @w, @r, @b, _, h0, c0) {direction=\"bidirectional\"}\n"
             "return y, h, c\n");
    check("x: f32[5,9,30]\n" WEIGHTS(
        1, 68, 30, 17, 136) "y = LSTM(x, @w, @r, @b) {direction=\"reverse\"}\nreturn y\n");
    check("x: f32[4,6,8]\n" WEIGHTS(1, 20, 8, 5,
                                    40) "y, _, c = LSTM(x, @w, @r, @b) {layout=1}\nreturn y, c\n");
    check("x: f32[5,40,8]\n" WEIGHTS(1, 36, 8, 9, 72) "_, h, _ = LSTM(x, @w, @r, @b)\nreturn h\n");
    check("x: f32[5,2,8]\n@w = f32[1,36,8] random 1\n@r = f32[1,36,9] random 2\n"
          "y = LSTM(x, @w, @r) {clip=0.2}\nreturn y\n");
    check("x: f32[5,2,8]\n@w = f32[1,36,8] random 1\n@r = f32[1,36,9] random 2\n"
          "y = LSTM(x, @w, @r) {input_forget=1, "
          "activations=[\"sigmoid\",\"Tanh\",\"Tanh\"]}\nreturn y\n");
    check("x: f32[10,1,20]\n" WEIGHTS(1, 512, 20, 128,
                                      1024) "y, h, c = LSTM(x, @w, @r, @b)\nreturn y, h, c\n");
    check("x: f32[3,1,64]\n" WEIGHTS(1, 1280, 64, 320,
                                     2560) "y, h, c = LSTM(x, @w, @r, @b)\nreturn y, h, c\n");
    check("x: f32[30,8,64]\n" WEIGHTS(
        2, 256, 64, 64,
        512) "y, h, c = LSTM(x, @w, @r, @b) {direction=\"bidirectional\"}\nreturn y, h, c\n");
}

/* Kernels of the CPU leave these to the reference. */
static void check_rare(const char *text)
{
    op_case c = op_case_of(text);
    c.tolerance = 1e-5;
    op_check(&c);
    if (!c.is_problem)
        fail_msg("no problem was made of\n%s", text);
}

static void peepholes(void **state)
{
    (void)state;
    check_rare("x: f32[7,3,10]\n@p = f32[1,15] random 4\n" WEIGHTS(
        1, 20, 10, 5, 40) "y, h, c = LSTM(x, @w, @r, @b, _, _, _, @p)\nreturn y, h, c\n");
    check_rare("x: f32[6,9,4]\nc0: f32[2,9,8]\n@p = f32[2,24] random 4\n" WEIGHTS(
        2, 32, 4, 8,
        64) "y, h, c = LSTM(x, @w, @r, @b, _, _, c0, @p) {direction=\"bidirectional\", clip=0.7}\n"
            "return y, h, c\n");
    check_rare("x: f32[5,2,8]\n@p = f32[1,27] random 4\n" WEIGHTS(
        1, 36, 8, 9, 72) "y = LSTM(x, @w, @r, @b, _, _, _, @p) {input_forget=1}\nreturn y\n");
}

static void activations(void **state)
{
    (void)state;
    check_rare("x: f32[5,2,8]\n" WEIGHTS(
        2, 9, 8, 9, 18) "y, h = RNN(x, @w, @r, @b) {direction=\"bidirectional\", "
                        "activations=[\"Relu\",\"Relu\"], clip=3.0}\nreturn y, h\n");
    check_rare("x: f32[5,2,8]\n" WEIGHTS(
        1, 27, 8, 9, 54) "y = GRU(x, @w, @r, @b) {activations=[\"HardSigmoid\",\"Softsign\"], "
                         "activation_alpha=[0.25], activation_beta=[0.4]}\nreturn y\n");
    check_rare("x: f32[5,2,8]\n" WEIGHTS(
        1, 27, 8, 9,
        54) "y = GRU(x, @w, @r, @b) {activations=[\"HardSigmoid\",\"LeakyRelu\"], "
            "activation_alpha=[0.3,0.1], linear_before_reset=1, clip=2.0}\nreturn y\n");
    check_rare("x: f32[5,2,8]\n" WEIGHTS(
        1, 36, 8, 9, 72) "y, _, c = LSTM(x, @w, @r, @b) {activations=[\"Sigmoid\",\"Relu\","
                         "\"Tanh\"], clip=2.0}\nreturn y, c\n");
}

/* More steps than the inputs' product is taken for at once. */
static void chunks(void **state)
{
    (void)state;
    check("x: f32[10,600,4]\n" WEIGHTS(
        2, 128, 4, 32, 256) "y, h, c = LSTM(x, @w, @r, @b) {direction=\"bidirectional\"}\n"
                            "return y, h, c\n");
    check("x: f32[600,10,4]\n" WEIGHTS(
        1, 96, 4, 32, 192) "y, h = GRU(x, @w, @r, @b) {direction=\"reverse\", layout=1}\n"
                           "return y, h\n");
}

/* One sequence: inputs are multiplied beside the steps, 8 at a time, by the same thread or by others; panels that are
 * not full, pieces that have no panel beside them. */
static void single_sequences(void **state)
{
    (void)state;
    check("x: f32[17,1,60]\nh0: f32[2,1,52]\n" WEIGHTS(
        2, 208, 60, 52, 416) "y, h, c = LSTM(x, @w, @r, @b, _, h0) {direction=\"bidirectional\"}\n"
                             "return y, h, c\n");
    check("x: f32[1,11,200]\n" WEIGHTS(
        1, 200, 200, 50, 400) "y, h, c = LSTM(x, @w, @r, @b) {direction=\"reverse\", layout=1}\n"
                              "return y, h, c\n");
    check("x: f32[16,1,50]\n" WEIGHTS(
        1, 150, 50, 50, 300) "y, h = GRU(x, @w, @r, @b) {linear_before_reset=1}\nreturn y, h\n");
    check("x: f32[9,1,3]\n@w = f32[1,147,3] random 1\n@r = f32[1,147,49] random 2\n"
          "y, h = GRU(x, @w, @r) {direction=\"reverse\"}\nreturn y, h\n");
    check("x: f32[9,1,3]\n@w = f32[1,48,3] random 1\n@r = f32[1,48,48] random 2\n"
          "y, h = RNN(x, @w, @r)\nreturn y, h\n");
    check("x: f32[9,2,64]\n" WEIGHTS(1, 128, 64, 32,
                                     256) "y, h, c = LSTM(x, @w, @r, @b)\nreturn y, h, c\n");
}

/* States that all threads share, each some elements of it: odd and even numbers of steps, several rows, more steps than
 * the inputs' product is taken for at once. Clipped gates do not enlarge what a step is off by. */
static void teams(void **state)
{
    (void)state;
    check("x: f32[5,1,24]\nh0: f32[2,1,192]\n" WEIGHTS(
        2, 768, 24, 192,
        1536) "y, h, c = LSTM(x, @w, @r, @b, _, h0) {direction=\"bidirectional\", clip=0.2}\n"
              "return y, h, c\n");
    check("x: f32[3,6,24]\nh0: f32[3,1,192]\n" WEIGHTS(
        1, 576, 24, 192, 1152) "y, h = GRU(x, @w, @r, @b, _, h0) {linear_before_reset=1, layout=1, "
                               "clip=0.2, direction=\"reverse\"}\nreturn y, h\n");
    check("x: f32[2,2,24]\n@w = f32[1,320,24] random 1\n@r = f32[1,320,320] random 2\n"
          "_, h = RNN(x, @w, @r)\nreturn h\n");
    check("x: f32[37,12,3]\n" WEIGHTS(
        2, 1280, 3, 320,
        2560) "y, h, c = LSTM(x, @w, @r, @b) {direction=\"bidirectional\", clip=0.02}\n"
              "return y, h, c\n");
}

static void grus(void **state)
{
    (void)state;
    check("x: f32[7,3,10]\n" WEIGHTS(1, 15, 10, 5, 30) "y, h = GRU(x, @w, @r, @b)\nreturn y, h\n");
    check("x: f32[7,3,10]\n" WEIGHTS(
        1, 15, 10, 5, 30) "y, h = GRU(x, @w, @r, @b) {linear_before_reset=1}\nreturn y, h\n");
    check("x: f32[7,20,10]\nh0: f32[2,20,33]\n" WEIGHTS(
        2, 99, 10, 33, 198) "y, h = GRU(x, @w, @r, @b, _, h0) {linear_before_reset=1, "
                            "direction=\"bidirectional\"}\nreturn y, h\n");
    check("x: f32[7,20,10]\nh0: f32[7,2,33]\n@w = f32[2,99,10] random 1\n@r = f32[2,99,33] random "
          "2\n"
          "_, h = GRU(x, @w, @r, _, _, h0) {layout=1, direction=\"bidirectional\", "
          "clip=0.5}\nreturn h\n");
    check("x: f32[4,1,128]\n" WEIGHTS(
        1, 384, 128, 128, 768) "y, h = GRU(x, @w, @r, @b) {linear_before_reset=1}\nreturn y, h\n");
}

static void rnns(void **state)
{
    (void)state;
    check("x: f32[7,3,10]\n" WEIGHTS(1, 5, 10, 5, 10) "y, h = RNN(x, @w, @r, @b)\nreturn y, h\n");
    check("x: f32[7,3,10]\n" WEIGHTS(
        2, 19, 10, 19,
        38) "y, h = RNN(x, @w, @r, @b) {direction=\"bidirectional\"}\nreturn y, h\n");
}

static void lengths(void **state)
{
    (void)state;
    check_with(
        "x: f32[7,9,10]\nn: i32[9]\n" WEIGHTS(
            2, 20, 10, 5, 40) "y, h, c = LSTM(x, @w, @r, @b, n) {direction=\"bidirectional\"}\n"
                              "return y, h, c\n",
        0, 8);
    check_with(
        "x: f32[9,7,10]\nn: i32[9]\nh0: f32[9,1,5]\n" WEIGHTS(
            1, 15, 10, 5, 30) "y, h = GRU(x, @w, @r, @b, n, h0) {direction=\"reverse\", layout=1}\n"
                              "return y, h\n",
        0, 8);
    check_with(
        "x: f32[3,20,10]\nn: i32[20]\n" WEIGHTS(
            1, 15, 10, 5, 30) "y, h = GRU(x, @w, @r, @b, n) {linear_before_reset=1}\nreturn y, h\n",
        2, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lstms),       cmocka_unit_test(peepholes),
        cmocka_unit_test(activations), cmocka_unit_test(chunks),
        cmocka_unit_test(grus),        cmocka_unit_test(rnns),
        cmocka_unit_test(lengths),     cmocka_unit_test(single_sequences),
        cmocka_unit_test(teams),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
