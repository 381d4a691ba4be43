/* matmul.c -- every tactic for matrix products against the reference.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Sums of k products in float32 against the reference's double: each step rounds by at most 2^-24 of the partial
 * sum, and errors add up like a random walk. Operands are uniform in [-1, 1], so that partial sums are about
 * sqrt(k) / 3 and their errors k / 3 * 2^-24; three times that is allowed, whatever is left of the sum after
 * cancelling or clipping, and 2e-6 of the output's scale for the rounding of the epilogue's functions. */
#include "base/cpu.h"
#include "op/harness.h"

static uint32_t seed = 7;

static int64_t pick(int64_t low, int64_t high)
{
    return low + (int64_t)(op_random(&seed) % (uint32_t)(high - low + 1));
}
static bool maybe(int one_in)
{
    return pick(1, one_in) == 1;
}
/* Sizes: often small, often beside a multiple of a tile's. */
static int64_t size(int64_t most)
{
    static const int64_t usual[] = {1, 2, 3, 4, 6, 8, 14, 16, 32, 64, 96, 128};
    int64_t n = maybe(3) ? pick(1, most)
                         : usual[pick(0, CM_COUNT(usual) - 1)] + (maybe(2) ? pick(-1, 1) : 0);
    return n < 1 ? 1 : n > most ? most : n;
}

typedef struct {
    int rank;
    int64_t dims[8];
} shape;

static int put_shape(char *to, const shape *s)
{
    int at = sprintf(to, "[");
    for (int i = 0; i < s->rank; i++)
        at += sprintf(to + at, "%s%lld", i ? "," : "", (long long)s->dims[i]);
    return at + sprintf(to + at, "]");
}

/* A random shape that broadcasts to `out`. */
static shape broadcasting(const shape *out)
{
    shape s = {.rank = (int)pick(0, out->rank)};
    for (int i = 0; i < s.rank; i++)
        s.dims[i] = maybe(3) ? 1 : out->dims[out->rank - s.rank + i];
    return s;
}

static const char *const programs[] = {
    "relu x",
    "add x $0",
    "add $0 x; clip %0 -0.5 0.75",
    "add x $0; add %0 $1; relu %1",
    "add x $0; gelu %0",
    "mul x $0; silu %0; add %1 $1",
};

typedef struct {
    const char *op, *attributes, *type;
    shape a, b, c, out;
    bool a_constant, b_constant, has_c;
    int64_t k;
    int program; /* -1: none */
} product;

static void put_operand(char **to, const char *name, const char *type, const shape *s,
                        bool constant, int random)
{
    *to += sprintf(*to, constant ? "@%s = %s" : "%s: %s", name, type);
    *to += put_shape(*to, s);
    *to += constant ? sprintf(*to, " random %d\n", random) : sprintf(*to, "\n");
}

/* share: of the bound that the head of this file allows sums. */
static void check_sums(product *p, double tolerance, double share, int hurt, const char *only,
                       bool must_run)
{
    static char text[4000];
    char *to = text, name[16];
    const char *program = p->program >= 0 ? programs[p->program] : NULL;
    int operands = !program ? 0 : strstr(program, "$1") ? 2 : strchr(program, '$') ? 1 : 0;
    put_operand(&to, "a", p->type, &p->a, p->a_constant, 1);
    put_operand(&to, "b", p->type, &p->b, p->b_constant, 2);
    if (p->has_c)
        put_operand(&to, "c", p->type, &p->c, maybe(2), 3);
    bool c_constant = p->has_c && strstr(text, "@c = ");
    bool constant[2] = {maybe(2), maybe(2)};
    for (int i = 0; i < operands; i++) {
        shape s = maybe(3) ? p->out : broadcasting(&p->out);
        snprintf(name, sizeof name, "o%d", i);
        put_operand(&to, name, p->type, &s, constant[i], 4 + i);
    }
    to += sprintf(to, "y = %s(%sa, %sb", p->op, p->a_constant ? "@" : "", p->b_constant ? "@" : "");
    if (p->has_c)
        to += sprintf(to, ", %sc", c_constant ? "@" : "");
    for (int i = 0; i < operands; i++)
        to += sprintf(to, "%s%so%d", i ? ", " : " | ", constant[i] ? "@" : "", i);
    to += sprintf(to, ")%s", p->attributes);
    if (program)
        to += sprintf(to, " then \"%s\"", program);
    sprintf(to, "\nreturn y\n");
    op_case c = op_case_of(text);
    c.tolerance = tolerance;
    c.absolute = share * (double)p->k * 0x1p-24;
    c.seed = seed;
    c.hurt = hurt;
    c.only = only;
    op_check(&c);
    if (must_run && c.ran == 0)
        fail_msg("no tactic takes\n%s", text);
}

static void check_within(product *p, double tolerance, int hurt, const char *only, bool must_run)
{
    check_sums(p, tolerance, 1, hurt, only, must_run);
}

static void check(product *p, int hurt, const char *only, bool must_run)
{
    check_within(p, 2e-6, hurt, only, must_run);
}

static int some_program(void)
{
    return maybe(2) ? -1 : (int)pick(0, CM_COUNT(programs) - 1);
}

/* Two matrices, either constant. */
static product matrices(int64_t m, int64_t n, int64_t k)
{
    int constant = (int)pick(0, 2);
    product p = {.op = "MatMul",
                 .attributes = "",
                 .type = "f32",
                 .k = k,
                 .a = {2, {m, k}},
                 .b = {2, {k, n}},
                 .out = {2, {m, n}},
                 .a_constant = constant == 1,
                 .b_constant = constant == 2,
                 .program = some_program()};
    return p;
}

static void test_sizes(void **state)
{
    (void)state;
    for (int i = 0; i < 700; i++) {
        product p = matrices(size(130), size(130), size(130));
        check(&p, 0, NULL, true);
    }
}

static void test_large(void **state)
{
    (void)state;
    for (int i = 0; i < 25; i++) {
        product p = matrices(pick(1, 300), pick(1, 300), pick(1, 300));
        check(&p, 0, NULL, true);
    }
    /* Several blocks of k, rows that meet in one set of the cache, many threads' worth of columns. */
    static const int64_t wide[][3] = {
        {1, 1000, 512}, {5, 200, 1500}, {33, 70, 2100}, {20, 600, 1024}, {260, 40, 1030}};
    for (size_t i = 0; i < CM_COUNT(wide); i++) {
        product p = matrices(wide[i][0], wide[i][1], wide[i][2]);
        p.a_constant = false;
        p.b_constant = true;
        check(&p, 0, NULL, true);
    }
}

/* A scheme of fewer multiplications, at AVX-512: items, rows, sums and columns, with every program. What it adds up makes
 * twice the error of plain sums. */
static void check_fewer(const int64_t size[4], const char *tactic)
{
    int64_t items = size[0], m = size[1], k = size[2], n = size[3];
    for (int program = -1; program < (int)CM_COUNT(programs); program++) {
        product p = {.op = "MatMul",
                     .attributes = "",
                     .type = "f32",
                     .k = k,
                     .a = {3, {items, m, k}},
                     .b = {2, {k, n}},
                     .out = {3, {items, m, n}},
                     .b_constant = true,
                     .program = program};
        check_sums(&p, 2e-6, 2, 0, tactic, cm_cpu_info()->isa >= CM_ISA_AVX512);
        if (program < 1) /* a NaN stays in its row */
            check_sums(&p, 2e-6, 2, 20000, tactic, false);
    }
}

/* Strassen's scheme: odd and even halves of rows, several items, several blocks of rows and of sums. It multiplies sums of
 * two elements, of twice the square, and adds up to four such products: twice the error of plain sums. */
static void test_strassen(void **state)
{
    (void)state;
    static const int64_t sizes[][4] = {{1, 56, 256, 71},   {1, 57, 258, 128},  {3, 61, 530, 64},
                                       {1, 128, 768, 576}, {1, 300, 512, 64},  {5, 257, 512, 97},
                                       {2, 64, 2100, 225}, {1, 197, 1030, 384}};
    for (size_t i = 0; i < CM_COUNT(sizes); i++)
        check_fewer(sizes[i], "strassen");
}

/* By pairs: rows of all tiles, sums that are no multiples of 8, columns that fill no panel, more rows than a strip has.
 * Pairs multiply sums of two elements, half of all: again twice the error at most. */
static void test_pairs(void **state)
{
    (void)state;
    static const int64_t sizes[][4] = {{1, 24, 64, 64},    {1, 57, 67, 128},   {3, 61, 530, 71},
                                       {1, 128, 768, 320}, {1, 300, 512, 97},  {5, 257, 90, 95},
                                       {2, 64, 2101, 225}, {1, 197, 1030, 384}};
    for (size_t i = 0; i < CM_COUNT(sizes); i++)
        check_fewer(sizes[i], "pairs");
}

/* Axes in any order: batch, rows and columns by their letters. */
static void test_einsum(void **state)
{
    (void)state;
    static const product cases[] = {
        {.op = "Einsum",
         .attributes = " {equation=\"bxaz,byaz->baxy\"}",
         .type = "f32",
         .k = 9,
         .a = {4, {2, 7, 3, 9}},
         .b = {4, {2, 5, 3, 9}},
         .out = {4, {2, 3, 7, 5}}},
        {.op = "Einsum",
         .attributes = " {equation=\"bxaz,qyaz->bxay\"}",
         .type = "f32",
         .k = 9,
         .a = {4, {2, 7, 3, 9}},
         .b = {4, {1, 35, 3, 9}},
         .out = {4, {2, 7, 3, 35}}},
        {.op = "Einsum",
         .attributes = " {equation=\"zxa, azy -> axy\"}",
         .type = "f32",
         .k = 40,
         .a = {3, {40, 7, 3}},
         .b = {3, {3, 40, 17}},
         .out = {3, {3, 7, 17}}},
        {.op = "Einsum",
         .attributes = " {equation=\"ixz,jzy->ijxy\"}",
         .type = "f32",
         .k = 8,
         .a = {3, {2, 7, 8}},
         .b = {3, {3, 8, 17}},
         .out = {4, {2, 3, 7, 17}}},
        {.op = "Einsum",
         .attributes = " {equation=\"az,az->a\"}",
         .type = "f32",
         .k = 30,
         .a = {2, {5, 30}},
         .b = {2, {5, 30}},
         .out = {1, {5}}},
    };
    for (int i = 0; i < CM_COUNT(cases); i++)
        for (int program = -1; program < 3; program++) {
            product p = cases[i];
            p.program = program;
            check(&p, 0, NULL, program < 0);
        }
}

/* Sizes of 0 are for the reference; they must not reach a tactic. */
static void test_empty(void **state)
{
    (void)state;
    for (int zero = 0; zero < 3; zero++) {
        product p = matrices(zero == 0 ? 0 : 3, zero == 1 ? 0 : 5, zero == 2 ? 0 : 7);
        p.program = -1;
        check(&p, 0, NULL, false);
    }
}

/* numpy's rules: vectors, and batch axes that broadcast; FusedMatMul's order of axes. */
static void batched(product *p, char *attributes)
{
    bool fused = maybe(2);
    int rank_a = (int)pick(1, 5), rank_b = (int)pick(1, 5);
    int64_t m = size(40), n = size(70), k = size(40), batch[3];
    bool trans_a = fused && maybe(2), trans_b = fused && maybe(2);
    bool batch_a = fused && maybe(4), batch_b = fused && maybe(4);
    int out_rank = (rank_a > rank_b ? rank_a : rank_b) - 2;
    *p = (product){.op = fused ? "com.microsoft.FusedMatMul" : "MatMul",
                   .attributes = attributes,
                   .type = "f32",
                   .k = k,
                   .a = {.rank = rank_a},
                   .b = {.rank = rank_b},
                   .program = some_program()};
    for (int i = 0; i < 3; i++)
        batch[i] = pick(1, 3);
    shape *in[2] = {&p->a, &p->b};
    bool trans[2] = {trans_a, trans_b}, by_batch[2] = {batch_a, batch_b};
    int64_t rows[2] = {m, k}, cols[2] = {k, n};
    int64_t got[3] = {1, 1, 1};
    for (int o = 0; o < 2; o++) {
        int64_t order[8]; /* batch..., row, column */
        int r = in[o]->rank;
        if (r == 1) {
            in[o]->dims[0] = k;
            continue;
        }
        for (int i = 0; i < r - 2; i++) {
            int from_end = r - 2 - 1 - i;
            order[i] = maybe(3) ? 1 : batch[from_end];
            if (order[i] > 1)
                got[from_end] = order[i];
        }
        order[r - 2] = trans[o] ? cols[o] : rows[o];
        order[r - 1] = trans[o] ? rows[o] : cols[o];
        if (by_batch[o] && r > 2) {
            in[o]->dims[0] = order[r - 2];
            for (int i = 0; i < r - 2; i++)
                in[o]->dims[i + 1] = order[i];
            in[o]->dims[r - 1] = order[r - 1];
        } else {
            memcpy(in[o]->dims, order, sizeof order);
        }
    }
    for (int i = 0; i < out_rank; i++)
        p->out.dims[p->out.rank++] = got[out_rank - 1 - i];
    if (rank_a > 1)
        p->out.dims[p->out.rank++] = m;
    if (rank_b > 1)
        p->out.dims[p->out.rank++] = n;
    int constant = (int)pick(0, 2);
    p->a_constant = constant == 1;
    p->b_constant = constant == 2;
    attributes[0] = 0;
    if (fused)
        sprintf(attributes, " {alpha=%s, transA=%d, transB=%d, transBatchA=%d, transBatchB=%d}",
                maybe(2) ? "0.125" : "1.0", trans_a, trans_b, batch_a && rank_a > 2,
                batch_b && rank_b > 2);
}

static void test_batches(void **state)
{
    (void)state;
    for (int i = 0; i < 700; i++) {
        product p;
        char attributes[200];
        batched(&p, attributes);
        check(&p, 0, NULL, false);
    }
}

/* The forms that passes make of attention and of convolutions over points. */
static void test_forms(void **state)
{
    (void)state;
    static const shape forms[][3] = {
        {{3, {2, 17, 24}}, {2, {24, 40}}, {3, {2, 17, 40}}},
        {{4, {2, 1, 9, 24}}, {3, {3, 24, 8}}, {4, {2, 3, 9, 8}}},
        {{2, {20, 12}}, {3, {2, 12, 49}}, {3, {2, 20, 49}}},
        {{4, {2, 4, 13, 16}}, {4, {2, 4, 16, 13}}, {4, {2, 4, 13, 13}}},
        {{3, {3, 1, 50}}, {3, {3, 50, 7}}, {3, {3, 1, 7}}},
        {{3, {3, 50, 20}}, {1, {20}}, {2, {3, 50}}},
    };
    for (size_t i = 0; i < CM_COUNT(forms); i++) {
        for (int variant = 0; variant < 12; variant++) {
            product p = {.op = "MatMul",
                         .attributes = "",
                         .type = "f32",
                         .k = forms[i][0].dims[forms[i][0].rank - 1],
                         .a = forms[i][0],
                         .b = forms[i][1],
                         .out = forms[i][2],
                         .a_constant = variant % 3 == 1,
                         .b_constant = variant % 3 == 2,
                         .program = some_program()};
            check(&p, 0, NULL, true);
        }
    }
}

static void test_gemm(void **state)
{
    (void)state;
    for (int i = 0; i < 250; i++) {
        int64_t m = size(50), n = size(70), k = size(50);
        bool trans_a = maybe(2), trans_b = maybe(2);
        char attributes[200];
        sprintf(attributes, " {alpha=%s, beta=%s, transA=%d, transB=%d}", maybe(2) ? "1.0" : "0.5",
                maybe(2)   ? "1.0"
                : maybe(3) ? "0.0"
                           : "-2.0",
                trans_a, trans_b);
        product p = {.op = "Gemm",
                     .attributes = attributes,
                     .type = "f32",
                     .k = k,
                     .a = {2, {trans_a ? k : m, trans_a ? m : k}},
                     .b = {2, {trans_b ? n : k, trans_b ? k : n}},
                     .out = {2, {m, n}},
                     .b_constant = maybe(2),
                     .has_c = !maybe(4),
                     .program = some_program()};
        p.c = maybe(3) ? (shape){1, {n}} : broadcasting(&p.out);
        check(&p, 0, NULL, true);
    }
}

/* NaN and infinities: where they come out, and that nothing else is touched. Sums of huge numbers keep
 * clear of float32's end, where the order of additions decides. */
static void test_hurt(void **state)
{
    (void)state;
    for (int i = 0; i < 150; i++) {
        product p = matrices(size(20), size(40), pick(1, 12));
        p.a_constant = false;
        p.b_constant = true;
        p.program = maybe(2) ? 0 : -1;
        check(&p, 60, NULL, true);
    }
}

/* 16-bit elements. Sums are float32 as above; the output's rounding is up to half a step of its type, once more
 * where the reference rounds the product before the epilogue: 2^-8 and 2^-11 of the scale, twice, and the
 * operands of the epilogue are of that type too. */
static void test_half(void **state)
{
    (void)state;
    for (int i = 0; i < 300; i++) {
        bool bf16 = maybe(2);
        product p;
        char attributes[200];
        if (maybe(3))
            batched(&p, attributes);
        else
            p = matrices(size(80), size(80), size(200));
        p.type = bf16 ? "bf16" : "f16";
        check_within(&p, bf16 ? 0x1p-6 : 0x1p-9, 0, NULL, false);
    }
    product wide = matrices(1, 300, 700);
    wide.type = "bf16";
    wide.b_constant = true;
    wide.a_constant = false;
    check_within(&wide, 0x1p-6, 0, NULL, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),   cmocka_unit_test(test_large),
        cmocka_unit_test(test_einsum),  cmocka_unit_test(test_empty),
        cmocka_unit_test(test_batches), cmocka_unit_test(test_forms),
        cmocka_unit_test(test_gemm),    cmocka_unit_test(test_hurt),
        cmocka_unit_test(test_half),    cmocka_unit_test(test_strassen),
        cmocka_unit_test(test_pairs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
