/* matmul_packed.c -- products with constant weights, packed once: from one row (a decoding step) to any number.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Weights lie in panels of as many columns as a tile has, each read from end to end: with few rows the
 * product takes as long as memory takes to deliver them. */
#include "base/size.h"
#include "cpu/matmul.h"

const char *cm_cpu_matmul_packed_reject(const cm_problem *p)
{
    cm_matmul_view v;
    if (p->in[0]->dtype != CM_F32 || p->in[1]->dtype != CM_F32)
        return "the operands are not float32";
    if (!cm_matmul_view_of(p, &v))
        return "the output is strided along both axes";
    if (!p->constant[v.b])
        return v.exchanged ? "the left operand, which gives the columns here, is not constant"
                           : "the right operand is not constant";
    if (!cm_matmul_is_regular(p, &v))
        return "the constant's matrices are interleaved";
    return cm_matmul_out_reject(p, &v, false);
}

static const cm_gemm_f32_kernel *kernel(const cm_problem *p)
{
    return cm_gemm_f32_kernel_of(p->target.level);
}

static int64_t n_matrices(const cm_problem *p, const cm_matmul_view *v)
{
    return cm_tensor_elems(p->in[v->b]) / (v->s.k * v->s.n);
}

size_t cm_cpu_matmul_packed_pack_bytes(const cm_problem *p, const cm_knobs *k, int input)
{
    (void)k;
    cm_matmul_view v;
    if (!cm_matmul_view_of(p, &v) || input != v.b)
        return 0;
    return (size_t)(n_matrices(p, &v) * cm_gemm_f32_packed_b(kernel(p), v.s.k, v.s.n)) *
           sizeof(float);
}

typedef struct {
    const cm_gemm_f32_kernel *g;
    const cm_matmul *s;
    const float *from;
    float *to;
    int64_t panels;
} pack_job;

static void pack_panels(void *arg, int64_t begin, int64_t end)
{
    const pack_job *j = arg;
    const cm_matmul *s = j->s;
    int64_t nr = j->g->nr;
    for (int64_t i = begin; i < end; i++) {
        int64_t matrix = i / j->panels, col = i % j->panels * nr;
        j->g->pack_b(s->k, cm_min_i64(nr, s->n - col),
                     j->from + matrix * s->k * s->n + col * s->b.col, s->b.row, s->b.col,
                     j->to + i * nr * s->k, nr * s->k);
    }
}

void cm_cpu_matmul_packed_pack(const cm_problem *p, const cm_knobs *k, int input, const void *from,
                               void *to, cm_threads *threads)
{
    (void)k;
    (void)input;
    cm_matmul_view v;
    cm_matmul_view_of(p, &v);
    pack_job j = {kernel(p), &v.s, from, to, cm_ceil_div(v.s.n, kernel(p)->nr)};
    cm_parallel(threads, n_matrices(p, &v) * j.panels, 1 + 20000 / (j.g->nr * v.s.k), pack_panels,
                &j);
}

/* How the work is cut, and what each worker has beside it. */
typedef struct {
    cm_matmul_view v;
    const cm_gemm_f32_kernel *g;
    cm_matmul_grid grid;
    int64_t tiles, panels;
    bool pack_a;    /* A is packed: */
    bool share_a;   /* once for all workers, or by each for itself */
    size_t scratch; /* bytes of each worker, or of all */
} layout;

static size_t round_up(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

static void lay_out(const cm_problem *p, int threads, layout *l)
{
    cm_matmul_view_of(p, &l->v);
    const cm_matmul *s = &l->v.s;
    l->g = kernel(p);
    l->tiles = cm_gemm_tiles(s->m, l->g->mr);
    l->panels = cm_ceil_div(s->n, l->g->nr);
    l->grid = cm_matmul_cut(l->v.n_batch, l->tiles, l->panels, s->m > s->n, cm_matmul_ns(p, 0.9),
                            threads);
    cm_gemm_f32_args x = {.m = s->m, .n = s->n, .k = s->k, .a_row = s->a.row, .a_col = s->a.col};
    l->pack_a = cm_gemm_f32_packs_a(l->g, &x);
    l->share_a = l->pack_a && l->v.n_batch == 1 && l->grid.workers > 1;
    l->scratch = !l->pack_a   ? 0
                 : l->share_a ? (size_t)(s->m * s->k) * sizeof(float)
                              : round_up(cm_gemm_f32_scratch(l->g, s->m, s->k));
}

size_t cm_cpu_matmul_packed_workspace(const cm_problem *p, const cm_knobs *k)
{
    (void)k;
    layout l;
    lay_out(p, p->threads, &l);
    return l.share_a ? l.scratch : l.scratch * (size_t)l.grid.workers;
}

double cm_cpu_matmul_packed_cost(const cm_problem *p, const cm_knobs *k)
{
    (void)k;
    layout l;
    lay_out(p, p->threads, &l);
    const cm_matmul *s = &l.v.s;
    /* Lanes of the last panel that are not used are computed all the same. */
    double waste = (double)(l.panels * l.g->nr) / (double)s->n;
    double pieces = (double)(l.grid.batch * l.grid.rows * l.grid.cols);
    return 300 +
           cm_matmul_ns(p, 0.9) * waste / (l.grid.workers > 1 ? cm_cpu_speedup(p, pieces) : 1);
}

typedef struct {
    const float *a, *b;
    float *c;
    void *workspace;
    layout l;
    cm_matmul_out out;
} job;

static void piece(void *arg, int64_t worker, int64_t batch, int64_t row, int64_t col)
{
    const job *j = arg;
    const layout *l = &j->l;
    const cm_matmul *s = &l->v.s;
    int64_t nr = l->g->nr, tile = row * l->tiles / l->grid.rows;
    int64_t i = cm_gemm_tile_begin(s->m, l->tiles, tile);
    int64_t i_end = cm_gemm_tile_begin(s->m, l->tiles, (row + 1) * l->tiles / l->grid.rows);
    int64_t c = col * l->panels / l->grid.cols * nr;
    int64_t c_end = cm_min_i64(s->n, (col + 1) * l->panels / l->grid.cols * nr);
    cm_matmul_at at = cm_matmul_batch_at(&l->v, batch);
    const float *b = j->b + at.b / (s->k * s->n) * l->panels * nr * s->k + c * s->k;
    float *to = j->c + at.c + i * s->c.row + c;
    cm_matmul_part part = {&j->out, to, s->c.row, at.row, i, c};
    cm_gemm_f32_args x = {.m = i_end - i,
                          .n = c_end - c,
                          .k = s->k,
                          .a = j->a + at.a + i * s->a.row,
                          .a_row = s->a.row,
                          .a_col = s->a.col,
                          .b = b,
                          .b_panel = nr * s->k,
                          .ldb = nr,
                          .c = to,
                          .ldc = s->c.row,
                          .alpha = s->alpha,
                          .e = j->out.simple ? &j->out.e : NULL,
                          .row = at.row + i,
                          .col = c,
                          .done = j->out.simple ? NULL : cm_matmul_part_done,
                          .done_arg = &part};
    if (l->share_a) {
        x.a_packed = j->workspace;
        x.a_packed_m = s->m;
        x.a_tile = tile;
    } else if (l->pack_a) {
        x.scratch = (char *)j->workspace + (size_t)worker * l->scratch;
    }
    cm_gemm_f32(l->g, &x);
}

static void pack_tiles(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    const cm_matmul *s = &j->l.v.s;
    for (int64_t t = begin; t < end; t++) {
        int64_t i = cm_gemm_tile_begin(s->m, j->l.tiles, t);
        j->l.g->pack_a(cm_gemm_tile_begin(s->m, j->l.tiles, t + 1) - i, s->k, j->a + i * s->a.row,
                       s->a.row, s->a.col, (float *)j->workspace + i * s->k);
    }
}

cm_status cm_cpu_matmul_packed_run(const cm_run *r)
{
    job j; /* not cleared: it is large */
    lay_out(r->p, r->p->threads, &j.l);
    j.a = r->in[j.l.v.a];
    j.b = r->in[j.l.v.b];
    j.c = r->out[0];
    j.workspace = r->workspace;
    cm_matmul_out_init(&j.out, r, &j.l.v, false);
    if (j.l.share_a)
        cm_parallel(r->threads, j.l.tiles, 1 + 10000 / (j.l.g->mr * j.l.v.s.k), pack_tiles, &j);
    cm_matmul_run_grid(r->threads, &j.l.grid, piece, &j);
    return CM_OK;
}
