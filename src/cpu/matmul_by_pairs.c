/* matmul_by_pairs.c -- products of many rows with constant weights by pairs: a quarter fewer multiplications (cpu/pairs.h).
 * SPDX-License-Identifier: Apache-2.0
 *
 * Weights are packed as matmul_packed packs them, so that both can have the same: rows are scaled to the size of the first
 * panel instead. A strip is some tiles of rows and a part of their sums, scaled copies that stay in the second-level cache
 * while panels go by; what tiles want to know of a panel is found out as it comes. */
#include "base/size.h"
#include "cpu/matmul.h"
#include "cpu/pairs.h"

enum {
    LEAST_ROWS = 24,
    LEAST_SUMS = 64,
    MOST_SUMS = 1024, /* of a part */
    MOST_TILES = 32   /* of a strip */
};

const char *cm_cpu_matmul_by_pairs_reject(const cm_problem *p)
{
    cm_matmul_view v;
    const char *reason = cm_cpu_matmul_packed_reject(p);
    if (reason)
        return reason;
    cm_matmul_view_of(p, &v);
    if (v.exchanged || v.s.n_batch > 0 || v.s.a.col != 1 || v.s.alpha != 1)
        return "not one matrix of adjacent columns, as it is, times one of weights";
    if (v.s.m < LEAST_ROWS || v.s.k < LEAST_SUMS || v.s.n < 2 * CM_PAIRS_NR)
        return "too few rows or columns, or too short sums, for pairs to pay";
    return NULL;
}

typedef struct {
    cm_matmul_view v;
    const cm_gemm_f32_kernel *g;
    int64_t panels, tiles, sums;   /* sums: of a part, the last may have fewer */
    int64_t strip, strips, splits; /* tiles of one; how many; parts of the panels */
    int64_t threads, room;         /* room: floats of each */
} layout;

/* Strips are as large as the cache allows; threads share panels, or strips where there are enough. */
static void lay_out(const cm_problem *p, layout *l)
{
    cm_matmul_view_of(p, &l->v);
    const cm_matmul *s = &l->v.s;
    l->sums = cm_ceil_div(cm_ceil_div(s->k, cm_ceil_div(s->k, MOST_SUMS)), 16) * 16;
    int64_t row = cm_pairs_copied(l->sums);
    l->g = cm_gemm_f32_kernel_of(p->target.level);
    l->threads = cm_max_i64(1, p->threads);
    l->panels = cm_ceil_div(s->n, CM_PAIRS_NR);
    l->tiles = cm_gemm_tiles(s->m, CM_PAIRS_MR);
    int64_t most = cm_min_i64(cm_cpu_l2_floats() / 2 / (row * CM_PAIRS_MR), MOST_TILES);
    l->strips = cm_ceil_div(l->tiles, cm_max_i64(1, most));
    l->strip = cm_ceil_div(l->tiles, l->strips);
    l->strips = cm_ceil_div(l->tiles, l->strip);
    bool even = cm_cpu_even(l->strips, l->threads);
    l->splits = even ? 1 : cm_min_i64(l->panels, l->threads);
    l->room = cm_ceil_div(l->strip * CM_PAIRS_MR * row, 16) * 16;
}

size_t cm_cpu_matmul_by_pairs_workspace(const cm_problem *p, const cm_knobs *k)
{
    (void)k;
    layout l;
    lay_out(p, &l);
    return (size_t)(l.threads * l.room) * sizeof(float);
}

double cm_cpu_matmul_by_pairs_cost(const cm_problem *p, const cm_knobs *k)
{
    (void)k;
    layout l;
    lay_out(p, &l);
    const cm_matmul *s = &l.v.s;
    double waste = (double)(l.panels * CM_PAIRS_NR) / (double)s->n;
    double fewer = cm_cpu_info()->adds_beside ? 0.78 : 1.3;
    double rows = 0.06 * (double)(s->m * s->k * l.splits);
    double columns = 0.012 * (double)(l.strips * s->n * s->k);
    return 600 + (cm_matmul_ns(p, 0.9) * waste * fewer + rows + columns) /
                     cm_cpu_speedup(p, (double)(l.strips * l.splits));
}

typedef struct {
    const float *a, *b;
    float *c, *room;
    float size; /* of weights; 0: all is multiplied as usual */
    layout l;
    cm_matmul_out out;
    cm_simple_epilogue e; /* what tiles do themselves */
} job;

/* Tiles of a strip, ready for any panel: elements [l, l + k) of their rows. */
typedef struct {
    int64_t n, l, k, row[MOST_TILES + 1];
    cm_pairs_rows rows[MOST_TILES];
} strip;

static bool is_last(const job *j, const strip *x)
{
    return x->l + x->k == j->l.v.s.k;
}

/* The last panel, if it is not full. */
static void some_columns(const job *j, const strip *x, int64_t tile, int64_t panel)
{
    const cm_matmul *s = &j->l.v.s;
    int64_t i = x->row[tile], col = panel * CM_PAIRS_NR;
    const float *a = j->a + i * s->a.row;
    cm_gemm_tile t = {.runs = 1,
                      .k = s->k,
                      .rows = &a,
                      .rows_apart = s->a.row,
                      .b = j->b + col * s->k,
                      .ldb = CM_PAIRS_NR,
                      .c = j->c + i * s->c.row + col,
                      .ldc = s->c.row,
                      .n = (int)(s->n - col),
                      .alpha = 1,
                      .e = &j->e,
                      .row = i,
                      .col = col};
    j->l.g->lined[x->row[tile + 1] - i](&t);
}

/* Some of the next panel, for each of the first tiles of a strip. */
static const char *ahead_of(const job *j, const strip *x, int64_t tile, int64_t panel)
{
    const float *next = j->b + ((panel + 1) * j->l.v.s.k + x->l) * CM_PAIRS_NR;
    bool some = panel + 1 < j->l.panels && tile < 4;
    return some ? (const char *)(next + tile * (x->k / 4) * CM_PAIRS_NR) : NULL;
}

static void full_columns(const job *j, const strip *x, int64_t panel)
{
    static const cm_simple_epilogue nothing = {.lo = -__builtin_inff(), .hi = __builtin_inff()};
    const cm_matmul *s = &j->l.v.s;
    float start[CM_PAIRS_NR];
    int64_t col = panel * CM_PAIRS_NR;
    cm_pairs_tile t = {.k = x->k,
                       .b = j->b + (panel * s->k + x->l) * CM_PAIRS_NR,
                       .ldc = s->c.row,
                       .add = x->l > 0,
                       .e = is_last(j, x) ? &j->e : &nothing,
                       .col = col};
    if (j->size > 0 && cm_pairs_start(x->k, t.b, j->size, start))
        t.start = start;
    for (int64_t i = 0; i < x->n; i++) {
        t.rows = &x->rows[i];
        t.c = j->c + x->row[i] * s->c.row + col;
        t.row = x->row[i];
        t.ahead = ahead_of(j, x, i, panel);
        cm_pairs_f32__avx512.tile[x->row[i + 1] - x->row[i]](&t);
    }
}

static void one_panel(const job *j, const strip *x, int64_t panel)
{
    const cm_matmul *s = &j->l.v.s;
    int64_t col = panel * CM_PAIRS_NR, n = cm_min_i64(CM_PAIRS_NR, s->n - col);
    if (n == CM_PAIRS_NR)
        full_columns(j, x, panel);
    else if (is_last(j, x))
        for (int64_t i = 0; i < x->n; i++)
            some_columns(j, x, i, panel);
    if (j->out.simple || !is_last(j, x))
        return;
    cm_matmul_part part = {&j->out, j->c + x->row[0] * s->c.row + col, s->c.row, 0, x->row[0], col};
    cm_matmul_part_done(&part, 0, 0, x->row[x->n] - x->row[0], n);
}

/* All sums of a strip, part after part, by panels [begin, end). */
static void one_strip(const job *j, strip *x, float *room, int64_t begin, int64_t end)
{
    const cm_matmul *s = &j->l.v.s;
    for (x->l = 0; x->l < s->k; x->l += x->k) {
        x->k = cm_min_i64(j->l.sums, s->k - x->l);
        for (int64_t i = 0; i < x->n; i++)
            cm_pairs_rows_of(&x->rows[i], (int)(x->row[i + 1] - x->row[i]), x->k,
                             j->a + x->row[i] * s->a.row + x->l, s->a.row,
                             j->size > 0 ? j->size : 1, true,
                             room + i * CM_PAIRS_MR * cm_pairs_copied(x->k));
        for (int64_t panel = begin; panel < end; panel++)
            one_panel(j, x, panel);
    }
}

static void some_units(void *arg, int thread, int64_t begin, int64_t end)
{
    const job *j = arg;
    const layout *l = &j->l;
    for (int64_t u = begin; u < end; u++) {
        int64_t first = u / l->splits * l->strip, split = u % l->splits;
        strip x = {.n = cm_min_i64(l->strip, l->tiles - first)};
        for (int64_t i = 0; i <= x.n; i++)
            x.row[i] = cm_gemm_tile_begin(l->v.s.m, l->tiles, first + i);
        one_strip(j, &x, j->room + thread * l->room, split * l->panels / l->splits,
                  (split + 1) * l->panels / l->splits);
    }
}

cm_status cm_cpu_matmul_by_pairs_run(const cm_run *r)
{
    job j; /* not cleared: it is large */
    lay_out(r->p, &j.l);
    j.a = r->in[j.l.v.a];
    j.b = r->in[j.l.v.b];
    j.c = r->out[0];
    j.room = r->workspace;
    j.size = cm_pairs_size(cm_min_i64(j.l.sums, j.l.v.s.k), j.b);
    cm_matmul_out_init(&j.out, r, &j.l.v, false);
    j.e = (cm_simple_epilogue){.lo = -__builtin_inff(), .hi = __builtin_inff()};
    if (j.out.simple)
        j.e = j.out.e;
    cm_parallel_numbered(r->threads, (int)j.l.threads, j.l.strips * j.l.splits, some_units, &j);
    return CM_OK;
}
