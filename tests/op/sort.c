/* sort.c -- the first of rows, running sums.
 * SPDX-License-Identifier: Apache-2.0 */
#include "op/harness.h"

static void top_k(void **state)
{
    (void)state;
    static const int64_t sizes[][2] = {{1, 1},     {5, 0},     {5, 5},     {64, 2},
                                       {1000, 50}, {300, 100}, {777, 65},  {500, 500},
                                       {70, 64},   {4000, 1},  {9000, 50}, {6000, 5000}};
    for (int i = 0; i < CM_COUNT(sizes); i++)
        for (int form = 0; form < 8; form++) {
            char text[256];
            bool middle = form & 4;
            snprintf(text, sizeof text,
                     "x: f32[3,%d%s]\n@k = i64[1] {%d}\nv, i = TopK(x, @k) {axis=1, largest=%d}\n"
                     "return v, i\n",
                     (int)sizes[i][0], middle ? ",2" : "", (int)sizes[i][1], form & 1);
            op_case c = op_case_of(text);
            c.tolerance = 0;
            c.hurt = form & 2 ? 3 : 0;
            c.seed = (uint32_t)form + 1;
            op_check(&c);
            if (c.ran == 0)
                fail_msg("no tactic took\n%s", text);
        }
}

/* Rows in parts, of several types, with what is not a number in them. */
static void first_few(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "x: f32[2,40000]\n@k = i64[1] {100}\nv, i = TopK(x, @k)\nreturn v, i\n",
        "x: f16[3,9001]\n@k = i64[1] {20}\nv, i = TopK(x, @k) {largest=0}\nreturn v, i\n",
        "x: i32[2,20000]\n@k = i64[1] {256}\nv, i = TopK(x, @k)\nreturn v, i\n",
        "x: u8[5,3000]\n@k = i64[1] {9}\nv, i = TopK(x, @k) {largest=0}\nreturn v, i\n",
        "x: f32[1,150001]\n@k = i64[1] {50}\nv, i = TopK(x, @k)\nreturn v, i\n",
        "x: u8[1,70000]\n@k = i64[1] {100}\nv, i = TopK(x, @k)\nreturn v, i\n",
        "x: bf16[2,70001]\n@k = i64[1] {700}\nv, i = TopK(x, @k) {largest=0}\nreturn v, i\n",
        "x: f32[1,8400]\n@k = i64[1] {300}\nv, i = TopK(x, @k)\nreturn v, i\n",
        "x: f32[2,8401]\n@k = i64[1] {512}\nv, i = TopK(x, @k)\nreturn v, i\n",
        "x: f32[1,30000]\n@k = i64[1] {1000}\n_, i = TopK(x, @k)\nreturn i\n",
        "@x = f16[40000] fill 2\n@k = i64[1] {300}\nv, i = TopK(@x, @k) {largest=0}\nreturn v, i\n",
    };
    for (int i = 0; i < CM_COUNT(texts); i++)
        for (int hurt = 0; hurt < 12; hurt += 5) {
            op_case c = op_case_of(texts[i]);
            c.tolerance = 0;
            c.hurt = hurt;
            op_check(&c);
        }
}

/* Of equals, the lower index comes first. */
static void ties(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "@x = f32[300] fill 0.5\n@k = i64[1] {100}\nv, i = TopK(@x, @k)\nreturn v, i\n",
        "@x = f32[300] fill 0.5\n@k = i64[1] {7}\nv, i = TopK(@x, @k) {largest=0}\nreturn v, i\n",
        "@x = f32[6] {0, -0.0, 0, 1, -0.0, 1}\n@k = i64[1] {6}\nv, i = TopK(@x, @k)\nreturn v, i\n",
        "@x = f32[9000] fill 0.5\n@k = i64[1] {100}\nv, i = TopK(@x, @k)\nreturn v, i\n",
        "@x = f32[1,50000] fill -inf\n@k = i64[1] {90}\nv, i = TopK(@x, @k)\nreturn v, i\n",
        "@x = f32[40000] fill 2\n@k = i64[1] {300}\nv, i = TopK(@x, @k) {largest=0}\nreturn v, i\n",
        "x: f32[2,90]\n@k = i64[1] {70}\n_, i = TopK(x, @k)\nreturn i\n",
        "x: f32[2,90]\n@k = i64[1] {70}\nv, _ = TopK(x, @k)\nreturn v\n",
    };
    for (int i = 0; i < CM_COUNT(texts); i++) {
        op_case c = op_case_of(texts[i]);
        c.tolerance = 0;
        op_check(&c);
        assert_true(c.ran > 0);
    }
}

static void sums(void **state)
{
    (void)state;
    static const char *const types[] = {"f32", "i64", "i32"};
    static const char *const shapes[] = {"[7]", "[5,33]", "[9,4]", "[3,20,70]", "[2,0,3]"};
    for (int t = 0; t < 3; t++)
        for (int s = 0; s < CM_COUNT(shapes); s++)
            for (int form = 0; form < 8; form++) {
                char text[256];
                snprintf(text, sizeof text,
                         "x: %s%s\n@a = i64[] {%d}\ny = CumSum(x, @a) {exclusive=%d, reverse=%d}\n"
                         "return y\n",
                         types[t], shapes[s], form & 4 ? -1 : 0, form & 1, form / 2 & 1);
                op_case c = op_case_of(text);
                c.tolerance = 0; /* summed in double in the same order */
                c.int_low = -50;
                op_check(&c);
                if (c.ran == 0)
                    fail_msg("no tactic took\n%s", text);
            }
}

/* Chunks that carry sums on, that have a block each, and whose elements come one by one. Doubles round a few sums to the
 * other neighbour where they are added in another order. */
static void long_sums(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "x: f32[3,20000]\n@a = i64[] {1}\n",   "x: f32[2,9001]\n@a = i64[] {1}\n",
        "x: f16[600,9000]\n@a = i64[] {1}\n",  "x: f16[2,1100,38]\n@a = i64[] {1}\n",
        "x: f32[700,33]\n@a = i64[] {0}\n",    "x: i64[1,300,65]\n@a = i64[] {1}\n",
        "x: f16[2,520,5]\n@a = i64[] {1}\n",   "x: f64[5,5000]\n@a = i64[] {1}\n",
        "x: f32[300,3,600]\n@a = i64[] {2}\n",
    };
    for (int i = 0; i < CM_COUNT(texts); i++) {
        char text[256];
        snprintf(text, sizeof text, "%sy = CumSum(x, @a) {exclusive=%d, reverse=%d}\nreturn y\n",
                 texts[i], i % 2, i / 2 % 2);
        op_case c = op_case_of(text);
        c.tolerance = texts[i][4] == '1' ? 1e-3 : 1e-6; /* of f16 */
        c.int_low = -50;
        op_check(&c);
    }
}

/* What comes before an infinity is not touched by it. */
/* Of numbers near 1, so that neither grows out of range; integers wrap. */
static void products(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "x: f32[7]\n@a = i64[] {0}\n",      "x: f32[3,20,70]\n@a = i64[] {1}\n",
        "x: f64[3,9000]\n@a = i64[] {1}\n", "x: f16[5,40]\n@a = i64[] {1}\n",
        "x: i64[4,300]\n@a = i64[] {1}\n",  "x: i32[300,33]\n@a = i64[] {0}\n",
        "x: f32[700,33]\n@a = i64[] {0}\n", "x: f32[2,20000]\n@a = i64[] {1}\n",
    };
    for (int i = 0; i < 4 * CM_COUNT(texts); i++) {
        char text[256];
        snprintf(text, sizeof text, "%sy = CumProd(x, @a) {exclusive=%d, reverse=%d}\nreturn y\n",
                 texts[i / 4], i % 2, i / 2 % 2);
        op_case c = op_case_of(text);
        c.low = 0.999;
        c.high = 1.001;
        c.int_low = -3;
        c.tolerance = texts[i / 4][4] == '1' ? 1e-3 : texts[i / 4][3] == 'i' ? 0 : 1e-6;
        op_check(&c);
        if (!c.is_problem)
            fail_msg("no problem was made of\n%s", text);
    }
}

static void infinite_sums(void **state)
{
    (void)state;
    op_case c = op_case_of("x: f32[5,2000]\n@a = i64[] {1}\ny = CumSum(x, @a)\nreturn y\n");
    c.tolerance = 1e-6;
    c.hurt = 1500;
    op_check(&c);
    assert_true(c.ran > 0);
}

/* Elements that need all bits of a key; more than shared memory holds. */
static void whole_rows(void **state)
{
    (void)state;
    static const char *const types[] = {"i64", "u64", "f64", "i32", "f16", "u8"};
    static const struct {
        int n, k;
    } sizes[] = {{1, 1}, {5, 3}, {700, 700}, {4500, 4200}};
    for (int t = 0; t < CM_COUNT(types); t++)
        for (int i = 0; i < CM_COUNT(sizes); i++)
            for (int largest = 0; largest < 2; largest++) {
                char text[200];
                snprintf(
                    text, sizeof text,
                    "x: %s[2,%d,3]\n@k = i64[1] {%d}\nv, i = TopK(x, @k) {axis=1, largest=%d}\n"
                    "return v, i\n",
                    types[t], sizes[i].n, sizes[i].k, largest);
                op_case c = op_case_of(text);
                c.int_low = *types[t] == 'i' ? -100 : 0;
                c.int_high = 100;
                c.tolerance = 0;
                op_check(&c);
                assert_true(c.is_problem);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_rows), cmocka_unit_test(infinite_sums), cmocka_unit_test(products),
        cmocka_unit_test(long_sums),  cmocka_unit_test(top_k),         cmocka_unit_test(first_few),
        cmocka_unit_test(ties),       cmocka_unit_test(sums),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
