/* attention.c -- attention in tiles against its reference.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Tolerance: scores of d products carry sqrt(d) * 2^-24 of their magnitudes, weights the same times the score's
 * size, sums of weighted values a few units more; scores here stay below 10, so 1e-5 of the largest output is
 * ample. float16 and bfloat16 results are rounded to 2^-11 and 2^-8. */
#include "op/harness.h"

static void check_with(const char *text, double tolerance, double low, double high, int hurt)
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

static void check(const char *text)
{
    check_with(text, 1e-5, -1, 1, 0);
    check_with(text, 1e-5, -1, 3, 0);
}

#define HEADS(q, k, d, dv)                                                                         \
    "q_num_heads=" #q ", kv_num_heads=" #k ", head_size=" #d ", v_head_size=" #dv
#define QKV "q: f32[2,20,24]\nk: f32[2,30,24]\nv: f32[2,30,24]\n"

static void layouts(void **state)
{
    (void)state;
    check(QKV "y = cameo.Attention(q, k, v) {" HEADS(3, 3, 8, 8) ", scale=0.4}\nreturn y\n");
    check("x: f32[2,128,576]\ny = cameo.Attention(x, x, x) {" HEADS(
        3, 3, 64, 64) ", scale=0.125, offsets=[0,192,384]}\nreturn y\n");
    check("x: f32[1,197,192]\ny = cameo.Attention(x, x, x) {" HEADS(
        1, 1, 64, 64) ", scale=0.125, offsets=[0,64,128]}\nreturn y\n");
    check("x: f32[20,2,72]\ny = cameo.Attention(x, x, x) {" HEADS(
        3, 3, 8, 8) ", q_layout=\"sbhd\", k_layout=\"sbhd\", v_layout=\"sbhd\", y_layout=\"sbhd\", "
                    "offsets=[0,8,16], head_steps=[24,24,24]}\nreturn y\n");
    check("q: f32[2,3,20,5]\nk: f32[2,3,5,33]\nv: f32[2,3,33,7]\ny = cameo.Attention(q, k, v) "
          "{" HEADS(3, 3, 5, 7) ", q_layout=\"bhsd\", k_layout=\"bhds\", v_layout=\"bhsd\", "
                                "y_layout=\"bhsd\"}\nreturn y\n");
    check(
        "q: f32[2,3,2,5]\nk: f32[2,3,5,33]\nv: f32[2,3,33,7]\ny = cameo.Attention(q, k, v) {" HEADS(
            3, 3, 5, 7) ", q_layout=\"bhsd\", k_layout=\"bhds\", v_layout=\"bhsd\", "
                        "y_layout=\"sbhd\"}\nreturn y\n");
    check("q: f32[1,1,4]\nk: f32[1,1,4]\nv: f32[1,1,3]\ny = cameo.Attention(q, k, v) {" HEADS(
        1, 1, 4, 3) "}\nreturn y\n");
    check("q: f32[1,300,16]\nk: f32[1,700,16]\nv: f32[1,700,40]\ny = cameo.Attention(q, k, v) "
          "{" HEADS(1, 1, 16, 40) "}\nreturn y\n");
}

static void groups(void **state)
{
    (void)state;
    check("q: f32[2,20,48]\nk: f32[2,30,16]\nv: f32[2,30,16]\ny = cameo.Attention(q, k, v) {" HEADS(
        6, 2, 8, 8) "}\nreturn y\n");
    check("q: f32[2,3,96]\nk: f32[2,30,16]\nv: f32[2,30,16]\ny = cameo.Attention(q, k, v) {" HEADS(
        12, 2, 8, 8) ", is_causal=1}\nreturn y\n");
    check(
        "q: f32[2,1,48]\nk: f32[2,300,16]\nv: f32[2,300,16]\ny = cameo.Attention(q, k, v) {" HEADS(
            6, 2, 8, 8) "}\nreturn y\n");
    check("q: f32[2,1,160]\nk: f32[2,30,8]\nv: f32[2,30,8]\ny = cameo.Attention(q, k, v) {" HEADS(
        20, 1, 8, 8) "}\nreturn y\n");
}

static void causal(void **state)
{
    (void)state;
    check("x: f32[1,128,192]\ny = cameo.Attention(x, x, x) {" HEADS(
        2, 2, 32, 32) ", scale=0.2, is_causal=1, offsets=[0,64,128]}\nreturn y\n");
    check("x: f32[1,128,192]\ny = cameo.Attention(x, x, x) {" HEADS(
        2, 2, 32,
        32) ", scale=0.2, is_causal=1, mask_value=-10000, offsets=[0,64,128]}\nreturn y\n");
    /* a mask value so near the scores that forbidden keys weigh something */
    check("x: f32[1,128,192]\ny = cameo.Attention(x, x, x) {" HEADS(
        2, 2, 32, 32) ", scale=0.2, is_causal=1, mask_value=-2, offsets=[0,64,128]}\nreturn y\n");
    check(QKV "y = cameo.Attention(q, k, v) {" HEADS(3, 3, 8, 8) ", is_causal=1}\nreturn y\n");
    /* more queries than keys: the first see nothing */
    check("q: f32[2,40,24]\nk: f32[2,30,24]\nv: f32[2,30,24]\ny = cameo.Attention(q, k, v) {" HEADS(
        3, 3, 8, 8) ", is_causal=1}\nreturn y\n");
    check("q: f32[2,90,24]\nk: f32[2,3,24]\nv: f32[2,3,24]\ny = cameo.Attention(q, k, v) {" HEADS(
        3, 3, 8, 8) ", is_causal=1}\nreturn y\n");
    check("q: f32[2,40,24]\nk: f32[2,30,24]\nv: f32[2,30,24]\ny = cameo.Attention(q, k, v) {" HEADS(
        3, 3, 8, 8) ", is_causal=1, mask_value=-3e38}\nreturn y\n");
    check("x: f32[1,600,48]\ny = cameo.Attention(x, x, x) {" HEADS(
        1, 1, 16, 16) ", is_causal=1, offsets=[0,16,32]}\nreturn y\n");
    check("q: f32[1,4,24]\nk: f32[1,30,24]\nv: f32[1,30,24]\ny = cameo.Attention(q, k, v) {" HEADS(
        3, 3, 8, 8) ", is_causal=1}\nreturn y\n");
}

static void masks(void **state)
{
    (void)state;
    static const char *const forms[] = {
        "b: f32[2,1,1,30]\n", "b: f32[1,3,20,30]\n", "b: f32[20,30]\n",   "b: f32[2,3,20,30]\n",
        "b: f32[1,1,20,1]\n", "b: f32[30]\n",        "b: f32[1,3,1,1]\n", "b: f16[2,1,20,30]\n",
    };
    char text[512];
    for (int i = 0; i < CM_COUNT(forms); i++) {
        snprintf(text, sizeof text,
                 QKV "%sy = cameo.Attention(q, k, v, b) {" HEADS(3, 3, 8, 8) "}\nreturn y\n",
                 forms[i]);
        check(text);
    }
    static const char *const bools[] = {"m: bool[2,1,1,30]\n", "m: bool[20,30]\n",
                                        "m: bool[2,3,20,30]\n", "m: bool[1,1,20,1]\n"};
    static const char *const ways[] = {"",
                                       ", mask_value=-10000",
                                       ", mask_value=-1",
                                       ", is_causal=1",
                                       ", mask_value=-1, is_causal=1",
                                       ", softcap=2"};
    for (int i = 0; i < CM_COUNT(bools); i++)
        for (int k = 0; k < CM_COUNT(ways); k++) {
            snprintf(text, sizeof text,
                     QKV
                     "%sy = cameo.Attention(q, k, v, _, m) {" HEADS(3, 3, 8, 8) "%s}\nreturn y\n",
                     bools[i], ways[k]);
            check(text);
        }
    check(QKV "b: f32[1,3,20,30]\nm: bool[2,1,1,30]\ny = cameo.Attention(q, k, v, b, m) {" HEADS(
        3, 3, 8, 8) ", mask_value=-1, bias_last=1, is_causal=1}\nreturn y\n");
    check(QKV "b: f32[1,3,20,30]\nm: bool[2,1,1,30]\ny = cameo.Attention(q, k, v, b, m) {" HEADS(
        3, 3, 8, 8) ", softcap=1.5}\nreturn y\n");
    /* fewer biases than batches repeat */
    check("q: f32[4,2,16]\nk: f32[4,9,16]\nv: f32[4,9,16]\nb: f32[2,1,2,9]\ny = cameo.Attention(q, "
          "k, "
          "v, b) {" HEADS(2, 2, 8, 8) "}\nreturn y\n");
}

static void caches(void **state)
{
    (void)state;
    check("x: f32[2,1,72]\npk: f32[2,3,127,8]\npv: f32[2,3,127,8]\n"
          "y, nk, nv = cameo.Attention(x, x, x, _, _, pk, pv) {" HEADS(
              3, 3, 8, 8) ", scale=0.5, offsets=[0,24,48]}\nreturn y, nk, nv\n");
    check("x: f32[1,1,24]\npk: f32[1,1,1000,8]\npv: f32[1,1,1000,8]\n"
          "y, nk, nv = cameo.Attention(x, x, x, _, _, pk, pv) {" HEADS(
              1, 1, 8, 8) ", scale=0.5, offsets=[0,8,16]}\nreturn y, nk, nv\n");
    check("x: f32[2,1,72]\npk: f32[2,3,50,8]\npv: f32[2,3,50,8]\n"
          "y = cameo.Attention(x, x, x, _, _, pk, pv) {" HEADS(
              3, 3, 8, 8) ", scale=0.5, offsets=[0,24,48], is_causal=1}\nreturn y\n");
    check(
        "x: f32[2,9,72]\npk: f32[2,3,50,8]\npv: f32[2,3,50,8]\n"
        "y, nk, nv = cameo.Attention(x, x, x, _, _, pk, pv) {" HEADS(
            3, 3, 8,
            8) ", scale=0.5, offsets=[0,24,48], is_causal=1, mask_value=-1e4}\nreturn y, nk, nv\n");
    check("x: f32[2,9,72]\ny, nk, nv = cameo.Attention(x, x, x) {" HEADS(
        3, 3, 8, 8) ", scale=0.5, offsets=[0,24,48], is_causal=1}\nreturn y, nk, nv\n");
    check("x: f32[2,9,72]\npk: f32[2,3,0,8]\npv: f32[2,3,0,8]\n"
          "y, _, nv = cameo.Attention(x, x, x, _, _, pk, pv) {" HEADS(
              3, 3, 8, 8) ", scale=0.5, offsets=[0,24,48]}\nreturn y, nv\n");
    check("q: f32[1,2,3,5]\nk: f32[1,2,5,3]\nv: f32[1,2,3,7]\npk: f32[1,2,9,5]\npv: f32[1,2,9,7]\n"
          "y, nk, nv = cameo.Attention(q, k, v, _, _, pk, pv) {" HEADS(
              2, 2, 5, 7) ", q_layout=\"bhsd\", k_layout=\"bhds\", v_layout=\"bhsd\", "
                          "y_layout=\"bhsd\"}\nreturn y, nk, nv\n");
}

static void epilogues(void **state)
{
    (void)state;
    check(QKV
          "@e = f32[24] random 3\nr: f32[2,20,24]\ny = cameo.Attention(q, k, v | @e, r) {" HEADS(
              3, 3, 8, 8) "} then \"mul x $0; add %0 $1\"\nreturn y\n");
    check("q: f32[2,3,20,8]\nk: f32[2,3,30,8]\nv: f32[2,3,30,8]\ny = cameo.Attention(q, k, v) "
          "{" HEADS(
              3, 3, 8,
              8) ", q_layout=\"bhsd\", k_layout=\"bhsd\", v_layout=\"bhsd\", y_layout=\"bhsd\"} "
                 "then \"relu x\"\nreturn y\n");
}

static void halves(void **state)
{
    (void)state;
    check_with("x: f16[1,40,72]\ny = cameo.Attention(x, x, x) {" HEADS(
                   3, 3, 8, 8) ", offsets=[0,24,48]}\nreturn y\n",
               1e-3, -1, 1, 0);
    check_with("x: bf16[2,1,72]\npk: bf16[2,3,50,8]\npv: bf16[2,3,50,8]\n"
               "y, nk, nv = cameo.Attention(x, x, x, _, _, pk, pv) {" HEADS(
                   3, 3, 8, 8) ", offsets=[0,24,48]}\nreturn y, nk, nv\n",
               8e-3, -1, 1, 0);
    check_with("x: f16[1,1,72]\ny = cameo.Attention(x, x, x) {" HEADS(
                   3, 3, 8, 8) ", offsets=[0,24,48]}\nreturn y\n",
               1e-3, -1, 1, 0);
}

/* What matrix units do: several tiles of rows and of keys, none of them full, and all that may become of scores. */
static void halves_in_tiles(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "x: f16[1,150,192]\ny = cameo.Attention(x, x, x) {" HEADS(
            1, 1, 64, 64) ", scale=0.125, offsets=[0,64,128]}\nreturn y\n",
        "x: bf16[1,150,192]\ny = cameo.Attention(x, x, x) {" HEADS(
            1, 1, 64, 64) ", scale=0.125, is_causal=1, offsets=[0,64,128]}\nreturn y\n",
        "q: f16[1,2,70,128]\nk: f16[1,1,90,128]\nv: f16[1,1,90,104]\ny = cameo.Attention(q, k, v) "
        "{" HEADS(2, 1, 128, 104) ", scale=0.09, is_causal=1, q_layout=\"bhsd\", "
                                  "k_layout=\"bhsd\", v_layout=\"bhsd\", y_layout=\"bhsd\"}\n"
                                  "return y\n",
        "q: f16[1,2,20,256]\nk: f16[1,2,256,40]\nv: f16[1,2,40,200]\ny = cameo.Attention(q, k, v) "
        "{" HEADS(2, 2, 256, 200) ", scale=0.06, q_layout=\"bhsd\", k_layout=\"bhds\", "
                                  "v_layout=\"bhsd\", y_layout=\"bhsd\"}\nreturn y\n",
        "x: f16[2,75,72]\nb: f16[1,3,75,75]\nm: bool[2,1,1,75]\ny = cameo.Attention(x, x, x, b, m) "
        "{" HEADS(3, 3, 8, 8) ", scale=0.4, mask_value=-1, is_causal=1, offsets=[0,24,48]}\nreturn "
                              "y\n",
        "x: f16[2,75,72]\nm: bool[2,3,75,75]\ny = cameo.Attention(x, x, x, _, m) {" HEADS(
            3, 3, 8, 8) ", scale=0.4, softcap=2, offsets=[0,24,48]}\nreturn y\n",
        /* few queries, many keys */
        "q: f16[1,2,64]\nk: f16[1,700,16]\nv: f16[1,700,16]\ny = cameo.Attention(q, k, v) {" HEADS(
            4, 1, 16, 16) ", scale=0.3}\nreturn y\n",
        "x: f16[1,2,96]\npk: f16[1,2,600,16]\npv: f16[1,2,600,16]\n"
        "y, nk, nv = cameo.Attention(x, x, x, _, _, pk, pv) {" HEADS(
            2, 2, 16, 16) ", scale=0.3, is_causal=1, offsets=[0,32,64]}\nreturn y, nk, nv\n",
    };
    for (int i = 0; i < CM_COUNT(texts); i++)
        check_with(texts[i], strstr(texts[i], "bf16") ? 8e-3 : 2e-3, -1, 1, 0);
}

/* What warp groups do: heads in whole vectors; many tiles of keys, and ends of all kinds. */
#define FOUR(q, k, d, dv)                                                                          \
    HEADS(q, k, d, dv)                                                                             \
    ", q_layout=\"bhsd\", k_layout=\"bhsd\", v_layout=\"bhsd\", y_layout=\"bhsd\""

static const char *const by_groups[] = {
    "x: f16[1,1,192]\ny = cameo.Attention(x, x, x) {" HEADS(
        1, 1, 64, 64) ", scale=0.125, offsets=[0,64,128]}\nreturn y\n",
    "x: f16[2,384,384]\ny = cameo.Attention(x, x, x) {" HEADS(
        2, 2, 64, 64) ", scale=0.125, offsets=[0,128,256]}\nreturn y\n",
    "x: bf16[1,700,384]\ny = cameo.Attention(x, x, x) {" HEADS(
        2, 2, 64, 64) ", scale=0.125, is_causal=1, offsets=[0,128,256]}\nreturn y\n",
    "q: bf16[1,4,300,128]\nk: bf16[1,2,333,128]\nv: bf16[1,2,333,128]\n"
    "y = cameo.Attention(q, k, v) {" FOUR(4, 2, 128, 128) ", scale=0.09}\nreturn y\n",
    /* more queries than keys, and the other way round */
    "q: f16[1,4,333,128]\nk: f16[1,2,200,128]\nv: f16[1,2,200,128]\n"
    "y = cameo.Attention(q, k, v) {" FOUR(4, 2, 128, 128) ", scale=0.09, is_causal=1}\nreturn y\n",
    "q: f16[1,2,130,64]\nk: f16[1,1,400,64]\nv: f16[1,1,400,128]\n"
    "y = cameo.Attention(q, k, v) {" FOUR(2, 1, 64, 128) ", scale=0.09, is_causal=1}\nreturn y\n",
    "q: f16[1,2,3,64]\nk: f16[1,1,129,64]\nv: f16[1,1,129,64]\n"
    "y = cameo.Attention(q, k, v) {" FOUR(2, 1, 64, 64) ", scale=0.1, is_causal=1}\nreturn y\n",
    "q: f16[1,2,70,80]\nk: f16[1,2,90,80]\nv: f16[1,2,90,40]\n"
    "y = cameo.Attention(q, k, v) {" FOUR(2, 2, 80, 40) ", scale=0.1}\nreturn y\n",
    /* rows that see nothing; lengths; biases */
    "x: f16[2,150,384]\nm: bool[1,1,150,1]\ny = cameo.Attention(x, x, x, _, m) {" HEADS(
        2, 2, 64, 64) ", scale=0.125, offsets=[0,128,256]}\nreturn y\n",
    "x: f16[2,150,384]\nm: bool[2,1,1,150]\ny = cameo.Attention(x, x, x, _, m) {" HEADS(
        2, 2, 64, 64) ", scale=0.125, mask_value=-10000, offsets=[0,128,256]}\nreturn y\n",
    "x: f16[2,150,384]\nb: f16[1,2,150,150]\ny = cameo.Attention(x, x, x, b) {" HEADS(
        2, 2, 64, 64) ", scale=0.125, is_causal=1, offsets=[0,128,256]}\nreturn y\n",
    "x: f16[2,150,384]\nb: f32[2,1,1,150]\ny = cameo.Attention(x, x, x, b) {" HEADS(
        2, 2, 64, 64) ", scale=0.125, offsets=[0,128,256]}\nreturn y\n",
    "x: f16[1,150,384]\ny = cameo.Attention(x, x, x) {" HEADS(
        2, 2, 64,
        64) ", scale=0.125, is_causal=1, mask_value=-1e4, offsets=[0,128,256]}\nreturn y\n",
    "x: f16[1,150,384]\ny = cameo.Attention(x, x, x) {" HEADS(
        2, 2, 64, 64) ", scale=0.125, is_causal=1, mask_value=-2, offsets=[0,128,256]}\nreturn y\n",
    "x: f16[1,150,384]\nr: f16[1,150,128]\ny, nk, nv = cameo.Attention(x, x, x | r) {" HEADS(
        2, 2, 64, 64) ", scale=0.125, offsets=[0,128,256]} then \"add x $0\"\nreturn y, nk, nv\n",
    /* what is the same for all queries, over several tiles of keys */
    "x: f16[1,500,384]\nm: bool[1,1,1,500]\ny = cameo.Attention(x, x, x, _, m) {" HEADS(
        2, 2, 64, 64) ", scale=0.125, offsets=[0,128,256]}\nreturn y\n",
    "x: bf16[1,500,384]\nm: bool[1,1,1,500]\nb: f16[1,2,1,500]\ny = cameo.Attention(x, x, x, b, m) "
    "{" HEADS(2, 2, 64,
              64) ", scale=0.125, softcap=1.5, is_causal=1, offsets=[0,128,256]}\nreturn y\n",
    "x: f16[1,300,384]\nm: bool[1,1,1,300]\ny = cameo.Attention(x, x, x, _, m) {" HEADS(
        2, 2, 64, 64) ", scale=0.125, is_causal=1, mask_value=-2, offsets=[0,128,256]}\nreturn y\n",
    /* more shares than there are multiprocessors */
    "q: f16[36,4,20,16]\nk: f16[36,4,100,16]\nv: f16[36,4,100,16]\n"
    "y = cameo.Attention(q, k, v) {" FOUR(4, 4, 16, 16) ", scale=0.3}\nreturn y\n",
};

static void halves_by_groups(void **state)
{
    (void)state;
    for (int i = 0; i < CM_COUNT(by_groups); i++) {
        double tolerance = strstr(by_groups[i], "bf16") ? 8e-3 : 2e-3;
        check_with(by_groups[i], tolerance, -1, 1, 0);
        check_with(by_groups[i], tolerance, -1, 3, 0);
    }
    check_with(by_groups[1], 2e-3, -1, 1, 400);
    check_with(by_groups[4], 2e-3, -1, 1, 400);
    check_with(by_groups[8], 2e-3, -1, 1, 400);
    check_with(by_groups[15], 2e-3, -1, 1, 400);
}

/* NaN and infinities come out where the reference has them, and nowhere else. */
static void hurting_values(void **state)
{
    (void)state;
    check_with(QKV "y = cameo.Attention(q, k, v) {" HEADS(3, 3, 8, 8) "}\nreturn y\n", 1e-5, -1, 1,
               400);
    check_with(QKV "m: bool[20,30]\ny = cameo.Attention(q, k, v, _, m) {" HEADS(3, 3, 8,
                                                                                8) "}\nreturn y\n",
               1e-5, -1, 1, 400);
    check_with(QKV "b: f32[20,30]\ny = cameo.Attention(q, k, v, b) {" HEADS(
                   3, 3, 8, 8) ", is_causal=1}\nreturn y\n",
               1e-5, -1, 1, 400);
    check_with("q: f32[2,1,24]\nk: f32[2,30,24]\nv: f32[2,30,24]\nm: bool[1,30]\n"
               "y = cameo.Attention(q, k, v, _, m) {" HEADS(3, 3, 8, 8) "}\nreturn y\n",
               1e-5, -1, 1, 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layouts),          cmocka_unit_test(groups),
        cmocka_unit_test(causal),           cmocka_unit_test(masks),
        cmocka_unit_test(caches),           cmocka_unit_test(epilogues),
        cmocka_unit_test(halves),           cmocka_unit_test(halves_in_tiles),
        cmocka_unit_test(halves_by_groups), cmocka_unit_test(hurting_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
