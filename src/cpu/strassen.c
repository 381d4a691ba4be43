/* strassen.c -- which quarters each of Strassen's products takes and gives, and in which order they are made.
 * SPDX-License-Identifier: Apache-2.0
 *
 * k is cut into blocks, short enough that the seven sums of A of one block stay in the second-level cache while a group of pairs
 * of panels meets them. For a pair and a block all seven products are made, one after the other, and what the next
 * pair will want of the weights is asked for. */
#include "cpu/strassen.h"

#include "base/size.h"

enum {
    GROUP = 2,      /* pairs of panels */
    LONGEST = 384,  /* a block of k / 2 */
    MOST_ROWS = 128 /* of a block of rows */
};

typedef struct {
    int b[2]; /* quarters 11, 12, 21, 22 by number */
    cm_strassen_how mix;
    int c[2];
    cm_strassen_how how[2];
} product;

#define STORE CM_STRASSEN_STORE
#define ADD   CM_STRASSEN_ADD
#define LESS  CM_STRASSEN_LESS
#define NONE  CM_STRASSEN_NONE
/* In an order in which each quarter of C is stored before it is added to. */
static const product products[CM_STRASSEN_PRODUCTS] = {
    {{0, 3}, ADD, {0, 3}, {STORE, STORE}}, {{0, 0}, NONE, {2, 3}, {STORE, LESS}},
    {{1, 3}, LESS, {1, 3}, {STORE, ADD}},  {{2, 0}, LESS, {0, 2}, {ADD, ADD}},
    {{3, 3}, NONE, {0, 1}, {LESS, ADD}},   {{0, 1}, ADD, {3, 3}, {ADD, NONE}},
    {{2, 3}, ADD, {0, 0}, {ADD, NONE}},
};

static const cm_strassen_kernel *kernel(void)
{
    return &cm_strassen_f32__avx512;
}

static int64_t block_of(int64_t k)
{
    return cm_ceil_div(cm_ceil_div(k / 2, cm_ceil_div(k / 2, LONGEST)), 16) * 16;
}

/* Where the seven begin for the block of k / 2 from l on: [product][row][element]. */
static int64_t mixed_at(int64_t m, int64_t l)
{
    return CM_STRASSEN_PRODUCTS * cm_strassen_half(m) * l;
}

/* NaN and infinities fail one comparison or the other. */
bool cm_strassen_alike(const float size[2])
{
    const float most = 16; /* times as large: rounding takes four more bits of the smaller */
    return size[0] <= most * size[1] && size[1] <= most * size[0] && size[0] - size[0] == 0 &&
           size[1] - size[1] == 0;
}

void cm_strassen_mix(float *mixed, int64_t m, int64_t k, int64_t i, int64_t at, int64_t n,
                     const float *const upper[2], const float *const lower[2], float size[2])
{
    int64_t block = block_of(k), half = cm_strassen_half(m);
    for (int64_t j = 0; j < n;) {
        int64_t l = (at + j) / block * block, kc = cm_min_i64(block, k / 2 - l);
        int64_t some = cm_min_i64(n - j, l + kc - at - j);
        const float *quarter[4] = {upper[0] + j, upper[1] + j, lower[0] + j, lower[1] + j};
        kernel()->mix(some, quarter, mixed + mixed_at(m, l) + i * kc + at + j - l, half * kc, size);
        j += some;
    }
}

void cm_strassen_finish(const cm_simple_epilogue *e, cm_pointwise act, int64_t row, int64_t col,
                        int64_t m, int64_t n, const float *x, int64_t ld, float *y, int64_t ldy)
{
    kernel()->finish(e, act, row, col, m, n, x, ld, y, ldy);
}

/* Floats from a row of results to the next: some lines more than a power of two. */
static int64_t row_of(const cm_gemm_f32_kernel *g)
{
    return 2 * GROUP * g->nr + 32;
}

int64_t cm_strassen_scratch_floats(const cm_gemm_f32_kernel *g, int64_t m)
{
    return LONGEST * g->nr + 2 * cm_strassen_half(m) * row_of(g);
}

/* A pair of panels and a block of k / 2. */
typedef struct {
    int64_t pair, l, kc;
} unit;

/* What a thread has for itself. */
typedef struct {
    float *sum; /* of two panels, as long as one product takes */
    float *c;   /* results of a group of pairs */
} room;

/* A quarter of the weights. */
static const float *quarter_of(const cm_strassen *s, const unit *u, int quarter)
{
    int64_t panel = u->pair + quarter % 2 * s->pairs, row = quarter / 2 * (s->k / 2) + u->l;
    return s->b + (panel * s->k + row) * s->g->nr;
}

/* The rows of a unit's panels that are still to be asked for. */
typedef struct {
    unit u;
    int64_t asked;
} later;

/* Where the next n of them begin; when there are none, rows that are near. */
static const char *ask(const cm_strassen *s, later *x, int64_t n)
{
    int quarter = (int)cm_min_i64(x->asked / x->u.kc, 3);
    int64_t row = cm_min_i64(x->asked - quarter * x->u.kc, x->u.kc - 1);
    x->asked += n;
    return (const char *)(quarter_of(s, &x->u, quarter) + row * s->g->nr);
}

static void run_product(const cm_strassen *s, const unit *u, int which, const room *r, later *next)
{
    const product *q = &products[which];
    int64_t half = cm_strassen_half(s->m), tiles = cm_gemm_tiles(half, s->g->mr);
    cm_strassen_tile t = {
        .k = u->kc, .a_row = u->kc, .mix = q->mix, .keep = r->sum, .ldc = row_of(s->g)};
    float *to[2];
    for (int i = 0; i < 2; i++) {
        t.b[i] = quarter_of(s, u, q->b[i]);
        t.how[i] = u->l > 0 && q->how[i] == STORE ? ADD : q->how[i];
        to[i] = r->c + q->c[i] / 2 * half * t.ldc + q->c[i] % 2 * GROUP * s->g->nr;
    }
    for (int64_t i = 0; i < tiles; i++) {
        int64_t begin = cm_gemm_tile_begin(half, tiles, i);
        t.a = s->mixed + mixed_at(s->m, u->l) + (which * half + begin) * u->kc;
        t.c[0] = to[0] + begin * t.ldc;
        t.c[1] = to[1] + begin * t.ldc;
        t.ahead = ask(s, next, u->kc / 4);
        kernel()->tile[cm_gemm_tile_begin(half, tiles, i + 1) - begin](&t);
        if (t.mix != NONE)
            t.b[0] = t.keep;
        t.mix = NONE;
    }
}

/* The unit after u in pairs [first, last) of a group, or the first of the group behind it. */
static unit unit_after(const cm_strassen *s, unit u, int64_t first, int64_t last)
{
    int64_t block = block_of(s->k);
    if (u.pair + 1 < last) {
        u.pair++;
    } else if (u.l + block < s->k / 2) {
        u.pair = first;
        u.l += block;
    } else {
        u.pair = last % s->pairs;
        u.l = 0;
    }
    u.kc = cm_min_i64(block, s->k / 2 - u.l);
    return u;
}

static void run_group(const cm_strassen *s, int64_t first, int64_t last, const room *all)
{
    unit u = {first, 0, cm_min_i64(block_of(s->k), s->k / 2)};
    for (int64_t n = (last - first) * cm_ceil_div(s->k / 2, block_of(s->k)); n > 0; n--) {
        unit after = unit_after(s, u, first, last);
        later next = {after, 0};
        room r = {all->sum, all->c + (u.pair - first) * s->g->nr};
        for (int q = 0; q < CM_STRASSEN_PRODUCTS; q++)
            run_product(s, &u, q, &r, &next);
        u = after;
    }
}

void cm_strassen_pairs(const cm_strassen *s, int64_t begin, int64_t end, float *scratch)
{
    int64_t nr = s->g->nr, ld = row_of(s->g);
    room r = {scratch, scratch + LONGEST * nr};
    for (int64_t first = begin; first < end; first += GROUP) {
        int64_t n = cm_min_i64(end - first, GROUP);
        run_group(s, first, first + n, &r);
        s->done(s->arg, r.c, ld, first * nr, n * nr);
        s->done(s->arg, r.c + GROUP * nr, ld, (s->pairs + first) * nr, n * nr);
    }
}

/* As many blocks for each thread, where they do not become too small. */
cm_strassen_cut cm_strassen_cut_of(const cm_gemm_f32_kernel *g, int64_t items, int64_t together,
                                   int64_t k, int threads)
{
    cm_strassen_cut c = {.together = together, .threads = threads > 1 ? threads : 1};
    c.each = cm_ceil_div(together, MOST_ROWS);
    int64_t more = c.each;
    while (items * more % c.threads != 0 && items * more < 8 * c.threads)
        more++;
    if (together / more >= CM_STRASSEN_LEAST_ROWS)
        c.each = more;
    c.blocks = items * c.each;
    c.most = cm_ceil_div(together, c.each);
    c.own = c.blocks % c.threads == 0 || c.blocks >= 8 * c.threads;
    c.mixed = cm_strassen_mixed_floats(c.most, k);
    c.scratch = cm_strassen_scratch_floats(g, c.most);
    return c;
}

int64_t cm_strassen_block(const cm_strassen_cut *c, int64_t index, int64_t *m)
{
    int64_t item = index / c->each, part = index % c->each;
    int64_t begin = c->together * part / c->each;
    *m = c->together * (part + 1) / c->each - begin;
    return item * c->together + begin;
}

int64_t cm_strassen_floats(const cm_strassen_cut *c)
{
    return c->threads * c->scratch + (c->own ? c->threads : c->blocks) * c->mixed;
}

double cm_strassen_extra_ns(double m, double n, double k)
{
    return 0.17 * m * k + (0.33 + 0.13 * k / (2 * LONGEST)) * m * n;
}
