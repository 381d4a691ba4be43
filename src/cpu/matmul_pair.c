/* matmul_pair.c -- products whose right operand is computed: activations times activations, and constant
 * weights on the left.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A worker takes a few panels of columns at a time, as many as half of the second-level cache holds, packs
 * them (or reads them as they lie, where there are only few rows) and multiplies all its rows with them.
 * Where several workers share one product, or A would be packed again and again, operands are packed first.
 * matmul_left has A in tiles from the beginning; matmul_pair packs it where that pays. */
#include "base/cpu.h"
#include "base/size.h"
#include "cpu/matmul.h"

typedef struct {
    cm_matmul_view v;
    const cm_gemm_f32_kernel *g;
    cm_matmul_grid grid;
    int64_t tiles, panels;
    bool left;     /* A is packed beforehand */
    bool in_place; /* B is read as it lies, but for the last panel where that is not whole */
    bool shared;   /* all operands are packed first, for all workers and groups */
    int64_t group; /* panels at a time */
    size_t b_bytes, a_bytes; /* scratch, of each worker or shared */
} layout;

static const char *reject(const cm_problem *p, cm_matmul_view *v)
{
    if (p->in[0]->dtype != CM_F32 || p->in[1]->dtype != CM_F32)
        return "the operands are not float32";
    if (!cm_matmul_view_of(p, v))
        return "the output is strided along both axes";
    return cm_matmul_out_reject(p, v, false);
}

const char *cm_cpu_matmul_pair_reject(const cm_problem *p)
{
    cm_matmul_view v;
    return reject(p, &v);
}

const char *cm_cpu_matmul_left_reject(const cm_problem *p)
{
    cm_matmul_view v;
    const char *why = reject(p, &v);
    if (why)
        return why;
    if (!p->constant[v.a])
        return "the operand that gives the rows is not constant";
    const cm_matmul *s = &v.s;
    bool by_rows = (s->a.col == 1 || s->k == 1) && (s->a.row == s->k || s->m == 1);
    bool by_cols = (s->a.row == 1 || s->m == 1) && (s->a.col == s->m || s->k == 1);
    if (!cm_tensor_is_dense(p->in[v.a]) || !(by_rows || by_cols))
        return "the constant's matrices are interleaved";
    for (int i = 0; i < s->n_batch; i++)
        if (s->a.batch[i] % (s->m * s->k) != 0)
            return "the constant's matrices are interleaved";
    return NULL;
}

static const cm_gemm_f32_kernel *kernel(const cm_problem *p)
{
    return cm_gemm_f32_kernel_of(p->target.level);
}

static size_t round_up(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

static void lay_out(const cm_problem *p, bool left, layout *l)
{
    cm_matmul_view_of(p, &l->v);
    const cm_matmul *s = &l->v.s;
    int64_t l2 = cm_cpu_info()->l2_bytes;
    l->g = kernel(p);
    l->left = left;
    l->tiles = cm_gemm_tiles(s->m, l->g->mr);
    l->panels = cm_ceil_div(s->n, l->g->nr);
    l->in_place = s->b.col == 1 && l->tiles <= 2;
    l->group = (l2 > 0 ? l2 : 256 << 10) / 2 / (int64_t)sizeof(float) / (s->k * l->g->nr);
    l->group = cm_max_i64(1, cm_min_i64(l->group, l->panels));
    /* Cut along columns, so that each is packed once; rows only where there are too few of them. */
    l->grid =
        cm_matmul_cut(l->v.n_batch, l->tiles, l->panels, false, cm_matmul_ns(p, 0.9), p->threads);
    cm_gemm_f32_args x = {.m = s->m, .n = s->n, .k = s->k, .a_row = s->a.row, .a_col = s->a.col};
    bool pack_a = !left && cm_gemm_f32_packs_a(l->g, &x);
    l->shared = l->v.n_batch == 1 && !l->in_place &&
                (l->grid.workers > 1 || (pack_a && l->group < l->panels));
    l->group = l->shared ? l->panels : cm_min_i64(l->group, cm_ceil_div(l->panels, l->grid.cols));
    size_t panel = (size_t)(s->k * l->g->nr) * sizeof(float);
    l->b_bytes = round_up(!l->in_place           ? panel * (size_t)l->group
                          : s->n % l->g->nr != 0 ? panel
                                                 : 0);
    l->a_bytes = !pack_a     ? 0
                 : l->shared ? round_up((size_t)(s->m * s->k) * sizeof(float))
                             : round_up(cm_gemm_f32_scratch(l->g, s->m, s->k));
}

static size_t workspace(const cm_problem *p, bool left)
{
    layout l;
    lay_out(p, left, &l);
    return (l.a_bytes + l.b_bytes) * (l.shared ? 1 : (size_t)l.grid.workers);
}
size_t cm_cpu_matmul_pair_workspace(const cm_problem *p, const cm_knobs *k)
{
    (void)k;
    return workspace(p, false);
}
size_t cm_cpu_matmul_left_workspace(const cm_problem *p, const cm_knobs *k)
{
    (void)k;
    return workspace(p, true);
}

static double cost(const cm_problem *p, bool left)
{
    layout l;
    lay_out(p, left, &l);
    const cm_matmul *s = &l.v.s;
    double waste = (double)(l.panels * l.g->nr) / (double)s->n;
    double pieces = (double)(l.grid.batch * l.grid.rows * l.grid.cols);
    double batch = (double)l.v.n_batch;
    /* Packing moves about 4 elements of B a nanosecond, half of that where it transposes. */
    double pack = l.in_place ? 0 : batch * (double)(s->k * s->n) / (s->b.col == 1 ? 8 : 4);
    pack += left ? 0 : batch * (double)(s->m * s->k) / 8;
    double ns = cm_matmul_ns(p, 0.88) * waste + pack;
    return 350 + ns / (l.grid.workers > 1 ? cm_cpu_speedup(p, pieces) : 1);
}
double cm_cpu_matmul_pair_cost(const cm_problem *p, const cm_knobs *k)
{
    (void)k;
    return cost(p, false);
}
double cm_cpu_matmul_left_cost(const cm_problem *p, const cm_knobs *k)
{
    (void)k;
    return cost(p, true);
}

size_t cm_cpu_matmul_left_pack_bytes(const cm_problem *p, const cm_knobs *k, int input)
{
    (void)k;
    cm_matmul_view v;
    if (!cm_matmul_view_of(p, &v) || input != v.a)
        return 0;
    return (size_t)cm_tensor_elems(p->in[v.a]) * sizeof(float);
}

void cm_cpu_matmul_left_pack(const cm_problem *p, const cm_knobs *k, int input, const void *from,
                             void *to, cm_threads *threads)
{
    (void)k;
    (void)threads;
    cm_matmul_view v;
    cm_matmul_view_of(p, &v);
    int64_t size = v.s.m * v.s.k, n = cm_tensor_elems(p->in[input]) / size;
    for (int64_t i = 0; i < n; i++)
        cm_gemm_f32_pack_a(kernel(p), v.s.m, v.s.k, (const float *)from + i * size, v.s.a.row,
                           v.s.a.col, (float *)to + i * size);
}

typedef struct {
    const cm_run *r;
    layout l;
    cm_matmul_out out;
} job;

/* Panels [panel, end) of one of the batch as x wants them. */
static void set_b(const job *j, cm_gemm_f32_args *x, const float *b, int64_t panel, int64_t end,
                  float *scratch)
{
    const layout *l = &j->l;
    const cm_matmul *s = &l->v.s;
    int64_t nr = l->g->nr, col = panel * nr;
    x->n = cm_min_i64(s->n, end * nr) - col;
    b += col * s->b.col;
    if (l->in_place) {
        int64_t whole = x->n / nr * nr;
        x->b = b;
        x->b_panel = nr;
        x->ldb = s->b.row;
        if (whole < x->n) {
            l->g->pack_b(s->k, x->n - whole, b + whole, s->b.row, 1, scratch, nr * s->k);
            x->b_tail = scratch;
        }
        return;
    }
    x->b = l->shared ? scratch + col * s->k : scratch;
    x->b_panel = nr * s->k;
    x->ldb = nr;
    if (!l->shared)
        l->g->pack_b(s->k, x->n, b, s->b.row, s->b.col, scratch, nr * s->k);
}

static void piece(void *arg, int64_t worker, int64_t batch, int64_t row, int64_t col)
{
    const job *j = arg;
    const layout *l = &j->l;
    const cm_matmul *s = &l->v.s;
    int64_t tile = row * l->tiles / l->grid.rows, i = cm_gemm_tile_begin(s->m, l->tiles, tile);
    int64_t i_end = cm_gemm_tile_begin(s->m, l->tiles, (row + 1) * l->tiles / l->grid.rows);
    int64_t panel = col * l->panels / l->grid.cols;
    int64_t end = (col + 1) * l->panels / l->grid.cols;
    cm_matmul_at at = cm_matmul_batch_at(&l->v, batch);
    size_t own = l->shared ? 0 : (size_t)worker * (l->a_bytes + l->b_bytes);
    char *scratch = (char *)j->r->workspace + own;
    const float *a = (const float *)j->r->in[l->v.a] + at.a;
    float *to = (float *)j->r->out[0] + at.c + i * s->c.row;
    cm_matmul_part part = {&j->out, NULL, s->c.row, at.row, i, 0};
    cm_gemm_f32_args x = {.m = i_end - i,
                          .k = s->k,
                          .ldc = s->c.row,
                          .alpha = s->alpha,
                          .e = j->out.simple ? &j->out.e : NULL,
                          .row = at.row + i,
                          .done = j->out.simple ? NULL : cm_matmul_part_done,
                          .done_arg = &part,
                          .scratch = l->a_bytes ? scratch + l->b_bytes : NULL};
    if (l->left || (l->shared && l->a_bytes)) {
        /* A packed constant keeps its size, so offsets are the same. */
        x.a_packed = l->left ? a : x.scratch;
        x.a_packed_m = s->m;
        x.a_tile = tile;
    } else {
        x.a = a + i * s->a.row;
        x.a_row = s->a.row;
        x.a_col = s->a.col;
    }
    for (; panel < end; panel += l->group) {
        x.col = part.j = panel * l->g->nr;
        x.c = part.x = to + x.col;
        set_b(j, &x, (const float *)j->r->in[l->v.b] + at.b, panel,
              cm_min_i64(end, panel + l->group), (float *)scratch);
        cm_gemm_f32(l->g, &x);
    }
}

/* For all workers: panels of B first, then tiles of A. */
static void pack_shared(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    const layout *l = &j->l;
    const cm_matmul *s = &l->v.s;
    float *to = j->r->workspace, *a_to = to + l->b_bytes / sizeof(float);
    for (int64_t u = begin; u < end; u++) {
        int64_t t = u - l->panels, col = u * l->g->nr;
        if (t < 0) {
            l->g->pack_b(s->k, cm_min_i64(l->g->nr, s->n - col),
                         (const float *)j->r->in[l->v.b] + col * s->b.col, s->b.row, s->b.col,
                         to + col * s->k, 0);
            continue;
        }
        int64_t i = cm_gemm_tile_begin(s->m, l->tiles, t);
        l->g->pack_a(cm_gemm_tile_begin(s->m, l->tiles, t + 1) - i, s->k,
                     (const float *)j->r->in[l->v.a] + i * s->a.row, s->a.row, s->a.col,
                     a_to + i * s->k);
    }
}

static cm_status run(const cm_run *r, bool left)
{
    job j; /* not cleared: it is large */
    j.r = r;
    lay_out(r->p, left, &j.l);
    cm_matmul_out_init(&j.out, r, &j.l.v, false);
    if (j.l.shared)
        cm_parallel(r->threads, j.l.panels + (j.l.a_bytes ? j.l.tiles : 0), 1, pack_shared, &j);
    cm_matmul_run_grid(r->threads, &j.l.grid, piece, &j);
    return CM_OK;
}
cm_status cm_cpu_matmul_pair_run(const cm_run *r)
{
    return run(r, false);
}
cm_status cm_cpu_matmul_left_run(const cm_run *r)
{
    return run(r, true);
}
