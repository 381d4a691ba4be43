/* matmul_strassen.c -- products of many rows with constant weights by Strassen's scheme: an eighth fewer multiply-adds.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Row i meets row i + half of its block in sums, and rounding is relative to the larger of the two: so blocks are made of
 * rows of one matrix of A alone, never of two items of a batch, and a block with rows that are not alike, or not finite,
 * is multiplied as usual. docs/numerics.md has the errors. Weights are packed as matmul_packed packs them. */
#include <stdatomic.h>

#include "base/size.h"
#include "cpu/matmul.h"
#include "cpu/strassen.h"

enum { LEAST_SUMS = 256 }; /* shorter ones spend too much on visits to results */

static const cm_gemm_f32_kernel *kernel(const cm_problem *p)
{
    return cm_gemm_f32_kernel_of(p->target.level);
}

/* Rows that belong together: those of the innermost matrices of A; 0: unknown. */
static int64_t rows_together(const cm_problem *p, const cm_matmul *s)
{
    const cm_tensor *a = p->in[0];
    int axis = a->rank - 2;
    bool known = a->rank >= 3 && a->strides[axis] == s->a.row && s->m % a->dims[axis] == 0;
    return known ? a->dims[axis] : 0;
}

const char *cm_cpu_matmul_strassen_reject(const cm_problem *p)
{
    cm_matmul_view v;
    const char *reason = cm_cpu_matmul_packed_reject(p);
    if (reason)
        return reason;
    cm_matmul_view_of(p, &v);
    const cm_matmul *s = &v.s;
    const cm_gemm_f32_kernel *g = kernel(p);
    if (v.exchanged || s->n_batch > 0 || s->a.col != 1 || s->alpha != 1)
        return "not one matrix of adjacent columns, as it is, times one of weights";
    if (rows_together(p, s) == 0)
        return "rows may be of different items, which must not meet in one sum";
    if (rows_together(p, s) < CM_STRASSEN_LEAST_ROWS || s->k < LEAST_SUMS)
        return "too few rows, or too short sums, for sums of quarters to pay";
    if (s->k % 2 != 0 || s->n < 2 * g->nr)
        return "there are no equal halves";
    return NULL;
}

typedef struct {
    cm_matmul_view v;
    const cm_gemm_f32_kernel *g;
    cm_strassen_cut cut;
    int64_t pairs, rest; /* of panels; columns that are left, done as usual */
} layout;

static void lay_out(const cm_problem *p, layout *l)
{
    cm_matmul_view_of(p, &l->v);
    const cm_matmul *s = &l->v.s;
    int64_t together = rows_together(p, s);
    l->g = kernel(p);
    l->pairs = s->n / l->g->nr / 2;
    l->rest = s->n - l->pairs * 2 * l->g->nr;
    l->cut = cm_strassen_cut_of(l->g, s->m / together, together, s->k, p->threads);
    int64_t usual = (int64_t)(cm_gemm_f32_scratch(l->g, l->cut.most, s->k) / sizeof(float));
    l->cut.scratch = cm_max_i64(l->cut.scratch, cm_ceil_div(usual, 16) * 16);
}

size_t cm_cpu_matmul_strassen_workspace(const cm_problem *p, const cm_knobs *k)
{
    (void)k;
    layout l;
    lay_out(p, &l);
    return (size_t)cm_strassen_floats(&l.cut) * sizeof(float) +
           (size_t)l.cut.blocks * sizeof(atomic_bool);
}

double cm_cpu_matmul_strassen_cost(const cm_problem *p, const cm_knobs *k)
{
    (void)k;
    layout l;
    lay_out(p, &l);
    const cm_matmul *s = &l.v.s;
    double extra = cm_strassen_extra_ns((double)s->m, (double)s->n, (double)s->k);
    double pieces = (double)(l.cut.blocks * (l.cut.own ? 1 : l.pairs));
    return 600 + (cm_matmul_ns(p, 0.9) * 7 / 8 + extra) / cm_cpu_speedup(p, pieces);
}

typedef struct {
    const float *a, *b;
    float *c, *scratch, *mixed;
    atomic_bool *usual; /* by block: has it rows that are not alike? */
    layout l;
    cm_matmul_out out;
    bool simple; /* `e` and `act` are all that is done to sums; `out` knows it as well */
    cm_simple_epilogue e;
    cm_pointwise act;
} job;

/* Rows [i, i + m) of the product. */
typedef struct {
    const job *j;
    int64_t i, m;
} block;

static block block_at(const job *j, int64_t index)
{
    block b = {.j = j};
    b.i = cm_strassen_block(&j->l.cut, index, &b.m);
    return b;
}

static void part_done(void *arg, float *x, int64_t ld, int64_t col, int64_t n)
{
    const block *b = arg;
    const job *j = b->j;
    if (j->simple) {
        cm_strassen_finish(&j->e, j->act, b->i, col, b->m, n, x, ld, j->c, j->l.v.s.c.row);
        return;
    }
    cm_matmul_part part = {&j->out, x, ld, 0, b->i, col};
    cm_matmul_part_done(&part, 0, 0, b->m, n);
}

/* Rows [begin, end) of the sums of a block's upper and lower half. */
static void mix_rows(const job *j, int64_t index, float *mixed, int64_t begin, int64_t end)
{
    const cm_matmul *s = &j->l.v.s;
    block b = block_at(j, index);
    int64_t half = cm_strassen_half(b.m);
    for (int64_t i = begin; i < cm_min_i64(end, half); i++) {
        const float *upper = j->a + (b.i + i) * s->a.row;
        const float *lower = i + half < b.m ? upper + half * s->a.row : upper;
        float size[2] = {0, 0};
        cm_strassen_mix(mixed, b.m, s->k, i, 0, s->k / 2,
                        (const float *const[]){upper, upper + s->k / 2},
                        (const float *const[]){lower, lower + s->k / 2}, size);
        if (!cm_strassen_alike(size))
            atomic_store_explicit(&j->usual[index], true, memory_order_relaxed);
    }
}

/* Columns [col, col + n) of a block, col a multiple of a panel's. */
static void run_usual(const job *j, const block *b, float *scratch, int64_t col, int64_t n)
{
    const cm_matmul *s = &j->l.v.s;
    int64_t nr = j->l.g->nr;
    cm_matmul_part part = {&j->out, j->c + b->i * s->c.row + col, s->c.row, 0, b->i, col};
    cm_gemm_f32_args x = {.m = b->m,
                          .n = n,
                          .k = s->k,
                          .a = j->a + b->i * s->a.row,
                          .a_row = s->a.row,
                          .a_col = 1,
                          .b = j->b + col * s->k,
                          .b_panel = nr * s->k,
                          .ldb = nr,
                          .c = part.x,
                          .ldc = s->c.row,
                          .alpha = 1,
                          .e = j->out.simple ? &j->out.e : NULL,
                          .row = b->i,
                          .col = col,
                          .done = j->out.simple ? NULL : cm_matmul_part_done,
                          .done_arg = &part,
                          .scratch = scratch};
    cm_gemm_f32(j->l.g, &x);
}

/* Units of a block are pairs of panels, and what is left of the columns. */
static int64_t units_of_block(const layout *l)
{
    return l->pairs + (l->rest > 0);
}

static void run_units(const job *j, int64_t index, const float *mixed, int worker, int64_t begin,
                      int64_t end)
{
    const cm_matmul *s = &j->l.v.s;
    block b = block_at(j, index);
    float *scratch = j->scratch + worker * j->l.cut.scratch;
    int64_t pairs = j->l.pairs, nr = j->l.g->nr, last = cm_min_i64(end, pairs);
    if (atomic_load_explicit(&j->usual[index], memory_order_relaxed)) {
        run_usual(j, &b, scratch, begin * nr, (last - begin) * nr);
        run_usual(j, &b, scratch, (pairs + begin) * nr, (last - begin) * nr);
    } else {
        cm_strassen x = {.g = j->l.g,
                         .m = b.m,
                         .k = s->k,
                         .pairs = pairs,
                         .mixed = mixed,
                         .b = j->b,
                         .done = part_done,
                         .arg = &b};
        cm_strassen_pairs(&x, begin, last, scratch);
    }
    if (end > pairs)
        run_usual(j, &b, scratch, 2 * pairs * nr, j->l.rest);
}

static void own_blocks(void *arg, int worker, int64_t begin, int64_t end)
{
    const job *j = arg;
    float *mixed = j->mixed + worker * j->l.cut.mixed;
    for (int64_t i = begin; i < end; i++) {
        mix_rows(j, i, mixed, 0, INT64_MAX);
        run_units(j, i, mixed, worker, 0, units_of_block(&j->l));
    }
}

/* Rows of the upper halves of all blocks, the largest's count for each. */
static int64_t rows_of_block(const layout *l)
{
    return cm_strassen_half(l->cut.most);
}

static void mix_shared(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    int64_t rows = rows_of_block(&j->l);
    for (int64_t i = begin; i < end; i++)
        mix_rows(j, i / rows, j->mixed + i / rows * j->l.cut.mixed, i % rows, i % rows + 1);
}

static void shared_units(void *arg, int worker, int64_t begin, int64_t end)
{
    const job *j = arg;
    int64_t each = units_of_block(&j->l);
    while (begin < end) {
        int64_t i = begin / each, first = begin % each;
        int64_t last = cm_min_i64(each, first + end - begin);
        run_units(j, i, j->mixed + i * j->l.cut.mixed, worker, first, last);
        begin += last - first;
    }
}

/* Is what is done to sums of the form that cm_strassen_finish knows? */
static void read_epilogue(job *j)
{
    const cm_matmul_view *v = &j->l.v;
    j->act = CM_PW_CLIP;
    j->e = j->out.e;
    j->simple =
        j->out.simple || (!j->out.bias && cm_epilogue_simple_act(&j->out.plan, &j->e, &j->act) &&
                          (!j->e.residual || v->row == 1));
}

cm_status cm_cpu_matmul_strassen_run(const cm_run *r)
{
    job j; /* not cleared: it is large */
    lay_out(r->p, &j.l);
    const cm_strassen_cut *cut = &j.l.cut;
    int threads = (int)cut->threads;
    j.a = r->in[j.l.v.a];
    j.b = r->in[j.l.v.b];
    j.c = r->out[0];
    j.scratch = r->workspace;
    j.mixed = j.scratch + threads * cut->scratch;
    j.usual = (atomic_bool *)(j.scratch + cm_strassen_floats(cut));
    for (int64_t i = 0; i < cut->blocks; i++)
        atomic_init(&j.usual[i], false);
    cm_matmul_out_init(&j.out, r, &j.l.v, false);
    read_epilogue(&j);
    if (cut->own) {
        cm_parallel_numbered(r->threads, threads, cut->blocks, own_blocks, &j);
        return CM_OK;
    }
    cm_parallel(r->threads, cut->blocks * rows_of_block(&j.l), 1 + 10000 / j.l.v.s.k, mix_shared,
                &j);
    cm_parallel_numbered(r->threads, threads, cut->blocks * units_of_block(&j.l), shared_units, &j);
    return CM_OK;
}
