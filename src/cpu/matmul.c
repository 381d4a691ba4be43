/* matmul.c -- the table of matrix-product tactics, and what they share: roles, results, splitting.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/matmul.h"

#include <math.h>

#include "base/size.h"

/* Best guess first. */
/* clang-format off */
#define BOTH(stem) CM_HAS_WORKSPACE(stem), CM_HAS_PACK(stem)
static const cm_tactic rows[] = {
    CM_ROW(matmul_dot, GENERIC),
    CM_ROW(matmul_packed, GENERIC, BOTH(matmul_packed)),
    CM_ROW(matmul_strassen, AVX512, CM_HAS_WORKSPACE(matmul_strassen), CM_HAS_PACK(matmul_packed)),
    CM_ROW(matmul_by_pairs, AVX512, CM_HAS_WORKSPACE(matmul_by_pairs), CM_HAS_PACK(matmul_packed)),
    CM_ROW(matmul_left, GENERIC, BOTH(matmul_left)),
    CM_ROW(matmul_pair, GENERIC, CM_HAS_WORKSPACE(matmul_pair)),
    CM_ROW(matmul_amx, AMX, BOTH(matmul_amx)),
    CM_ROW(matmul_bf16, AVX512, BOTH(matmul_bf16)),
    CM_ROW(matmul_half, GENERIC, BOTH(matmul_half)),
};
/* clang-format on */

const cm_cpu_table cm_cpu_matmul = {rows, CM_COUNT(rows)};

/* The transposed product: c^T = b^T a^T. */
static void exchange(cm_matmul_view *v)
{
    cm_matmul_transpose(&v->s);
    v->exchanged = true;
    v->a = 1;
    v->b = 0;
}

/* How many of the output's innermost axes are the n columns; -1: they are not together. */
static int column_axes(const cm_tensor *y, int64_t n)
{
    bool used[CM_MAX_RANK] = {false};
    int64_t product = 1;
    for (int q = 0; q <= y->rank; q++) {
        if (product == n)
            return q;
        int next = -1;
        for (int i = 0; i < y->rank; i++) {
            bool inside = next < 0 || y->strides[i] < y->strides[next] ||
                          (y->strides[i] == y->strides[next] && y->dims[i] == 1);
            if (!used[i] && inside)
                next = i;
        }
        if (next < 0)
            break;
        used[next] = true;
        product *= y->dims[next];
    }
    return -1;
}

/* How many rows lie inside an axis of rows with this stride. */
static int64_t rows_inside(const cm_matmul *s, int64_t stride)
{
    int64_t n = s->m > 1 && s->c.row < stride ? s->m : 1;
    for (int i = 0; i < s->n_batch; i++)
        n *= s->c.batch[i] < stride ? s->batch[i] : 1;
    return n;
}

bool cm_matmul_view_of(const cm_problem *p, cm_matmul_view *v)
{
    *v = (cm_matmul_view){.s = p->as.matmul, .a = 0, .b = 1, .n_batch = 1};
    bool cols = v->s.n == 1 || v->s.c.col == 1, by_rows = v->s.m == 1 || v->s.c.row == 1;
    if (!cols && !by_rows)
        return false;
    if (!cols || (v->s.n == 1 && v->s.m > 1 && v->s.c.row == 1))
        exchange(v);
    v->n_col_axes = column_axes(p->out[0], v->s.n);
    v->row = v->s.m > 1 ? rows_inside(&v->s, v->s.c.row) : 1;
    for (int i = 0; i < v->s.n_batch; i++) {
        v->batch[i] = rows_inside(&v->s, v->s.c.batch[i]);
        v->n_batch *= v->s.batch[i];
    }
    return v->n_col_axes >= 0;
}

bool cm_matmul_is_regular(const cm_problem *p, const cm_matmul_view *v)
{
    const cm_matmul *s = &v->s;
    bool by_rows = (s->b.col == 1 || s->n == 1) && (s->b.row == s->n || s->k == 1);
    bool by_cols = (s->b.row == 1 || s->k == 1) && (s->b.col == s->k || s->n == 1);
    if (!cm_tensor_is_dense(p->in[v->b]) || !(by_rows || by_cols))
        return false;
    for (int i = 0; i < s->n_batch; i++)
        if (s->b.batch[i] % (s->k * s->n) != 0)
            return false;
    return true;
}

cm_matmul_at cm_matmul_batch_at(const cm_matmul_view *v, int64_t index)
{
    cm_matmul_at at = {0};
    for (int i = v->s.n_batch - 1; i >= 0; i--) {
        int64_t x = index % v->s.batch[i];
        index /= v->s.batch[i];
        at.a += x * v->s.a.batch[i];
        at.b += x * v->s.b.batch[i];
        at.c += x * v->s.c.batch[i];
        at.row += x * v->batch[i];
    }
    return at;
}

const char *cm_matmul_out_reject(const cm_problem *p, const cm_matmul_view *v, bool tiles)
{
    if (!tiles && p->out[0]->dtype != CM_F32)
        return "the output is not float32";
    if (v->s.bias >= 0 && (p->in[v->s.bias]->dtype != CM_F32 || p->out[0]->rank != 2))
        return "the bias is not float32";
    return cm_epilogue_reject(p, v->n_col_axes);
}

/* Gemm's bias along rows and columns of the view. */
static void read_bias(cm_matmul_out *o, const cm_run *r, const cm_matmul_view *v)
{
    const cm_tensor *t = r->p->in[v->s.bias];
    int64_t strides[2] = {0, 0};
    for (int i = 0; i < t->rank; i++)
        strides[2 - t->rank + i] = t->dims[i] == 1 ? 0 : t->strides[i];
    o->bias = r->in[v->s.bias];
    o->bias_row = strides[v->exchanged];
    o->bias_col = strides[!v->exchanged];
    o->beta = v->s.beta;
    if (o->simple && !o->e.bias && o->beta == 1 && (o->bias_row == 0 || v->s.m == 1) &&
        (o->bias_col == 1 || v->s.n == 1)) {
        o->e.bias = o->bias;
        o->bias = NULL;
    }
    o->simple = o->simple && !o->bias;
}

void cm_matmul_out_init(cm_matmul_out *o, const cm_run *r, const cm_matmul_view *v, bool tiles)
{
    o->v = v;
    o->bias = NULL;
    if (!tiles && !r->p->epilogue && v->s.bias < 0) {
        o->simple = true;
        o->e = (cm_simple_epilogue){.lo = -INFINITY, .hi = INFINITY};
        return;
    }
    cm_epilogue_view(&o->plan, r, v->n_col_axes);
    /* A tile's rows must be adjacent rows of the residual. */
    o->simple = !tiles && cm_epilogue_simple(&o->plan, &o->e) &&
                (!o->e.residual || v->row == 1 || v->s.m == 1);
    if (v->s.bias >= 0)
        read_bias(o, r, v);
    if (!o->simple)
        cm_epilogue_compile(&o->plan);
}

static void add_bias(const cm_matmul_part *p, int64_t i, int64_t j, int64_t m, int64_t n)
{
    const cm_matmul_out *o = p->out;
    for (int64_t q = i; q < i + m; q++) {
        const float *bias = o->bias + (p->i + q) * o->bias_row + p->j * o->bias_col;
        float *x = p->x + q * p->ld;
        for (int64_t c = j; c < j + n; c++)
            x[c] += o->beta * bias[c * o->bias_col];
    }
}

void cm_matmul_part_done(void *part, int64_t i, int64_t j, int64_t m, int64_t n)
{
    const cm_matmul_part *p = part;
    int64_t step = p->out->v->row, row = p->row + (p->i + i) * step;
    if (p->out->bias)
        add_bias(p, i, j, m, n);
    const float *x = p->x + i * p->ld + j;
    if (step == 1 || m == 1) {
        cm_epilogue_tile(&p->out->plan, row, p->j + j, m, n, x, p->ld);
        return;
    }
    for (int64_t q = 0; q < m; q++)
        cm_epilogue_tile(&p->out->plan, row + q * step, p->j + j, 1, n, x + q * p->ld, p->ld);
}

/* Of two threads each piece takes at least this long, or handing it out costs more than it gains. */
static const double PIECE_NS = 7500;
enum { PIECES_PER_THREAD = 4 }; /* so that a thread that is held up does not hold up the others */

cm_matmul_grid cm_matmul_cut(int64_t batch, int64_t m_units, int64_t n_units, bool rows_first,
                             double total_ns, int threads)
{
    cm_matmul_grid g = {batch, 1, 1, 1};
    double most = total_ns / cm_cpu_piece_ns(PIECE_NS, threads);
    if (threads <= 1 || total_ns < 2 * PIECE_NS)
        return g;
    int64_t want = (int64_t)threads * PIECES_PER_THREAD;
    if (most < (double)want)
        want = (int64_t)most;
    int64_t need = cm_ceil_div(want, batch);
    /* Threads that each have rows read what they wrote in the step before; columns, only to be handed out. */
    bool own_rows = batch == 1 && m_units >= 2 * threads && cm_cpu_even(m_units, threads);
    if (!rows_first && own_rows && need >= threads) {
        g.rows = threads;
        g.cols = cm_min_i64(cm_ceil_div(need, threads), n_units);
        g.workers = threads;
        return g;
    }
    int64_t *first = rows_first ? &g.rows : &g.cols, *second = rows_first ? &g.cols : &g.rows;
    *first = cm_min_i64(need, rows_first ? m_units : n_units);
    *second = cm_min_i64(cm_ceil_div(need, *first), rows_first ? n_units : m_units);
    g.workers = cm_min_i64(threads, batch * g.rows * g.cols);
    return g;
}

typedef struct {
    cm_threads *threads;
    const cm_matmul_grid *g;
    cm_matmul_piece_fn fn;
    void *arg;
} grid_job;

static void some_pieces(void *arg, int worker, int64_t begin, int64_t end)
{
    const grid_job *j = arg;
    const cm_matmul_grid *g = j->g;
    for (int64_t i = begin; i < end && !cm_threads_stopped(j->threads); i++)
        j->fn(j->arg, worker, i / (g->rows * g->cols), i / g->cols % g->rows, i % g->cols);
}

void cm_matmul_run_grid(cm_threads *t, const cm_matmul_grid *g, cm_matmul_piece_fn fn, void *arg)
{
    grid_job job = {.threads = t, .g = g, .fn = fn, .arg = arg};
    cm_parallel_numbered(t, (int)g->workers, g->batch * g->rows * g->cols, some_pieces, &job);
}

double cm_matmul_ns(const cm_problem *p, double efficiency)
{
    const cm_matmul *s = &p->as.matmul;
    double flops = 2.0 * (double)s->m * (double)s->n * (double)s->k;
    double bytes = 4.0 * (double)s->k * (double)s->n;
    for (int i = 0; i < s->n_batch; i++) {
        flops *= (double)s->batch[i];
        bytes *= s->b.batch[i] ? (double)s->batch[i] : 1;
    }
    double compute = flops / (cm_cpu_flops_per_ns(&p->target) * efficiency);
    double stream = bytes / (cm_cpu_bytes_per_ns(&p->target) * efficiency);
    return compute > stream ? compute : stream;
}
