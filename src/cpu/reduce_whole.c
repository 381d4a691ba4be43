/* reduce_whole.c -- sums, means and extremes of whole numbers.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Sums keep the lower bits, as the reference's do, so they are of the elements' own width. Means need all of the sum: of
 * 32 bits it fits an int64; of int64 it is kept as two, of the upper and the lower halves. Where the innermost
 * axis is reduced, runs of it are folded; else a run of outputs is folded row by row in the L1 cache. */
#include <string.h>

#include "base/size.h"
#include "cpu/pointwise.h"
#include "cpu/pointwise_typed.h"
#include "cpu/reduce.h"

enum {
    CHUNK = 512, /* outputs beside each other, at a time */
    THREAD_NS = 8000,
};

typedef struct {
    const cm_typed_kernels *k;
    cm_pointwise op;
    cm_typed type;
    bool mean, inner;
    int64_t outer, cols, rows, run, count, chunks;
    size_t size;
    cm_tile_view in, out;
} job;

static void set_up(job *j, const cm_problem *p)
{
    const cm_reduce *r = &p->as.reduce;
    int last = r->loop.rank - 1;
    int64_t end = r->loop.dims[last];
    j->type = cm_typed_of(p->in[0]->dtype);
    j->size = cm_dtype_size(p->in[0]->dtype);
    j->mean = r->kind == CM_REDUCE_MEAN;
    j->op = r->kind == CM_REDUCE_MAX ? CM_PW_MAX : r->kind == CM_REDUCE_MIN ? CM_PW_MIN : CM_PW_ADD;
    j->inner = r->axes[last];
    j->outer = j->rows = 1;
    for (int a = 0; a < last; a++)
        *(r->axes[a] ? &j->rows : &j->outer) *= r->loop.dims[a];
    j->cols = j->inner ? 1 : end;
    j->run = j->inner ? end : 1;
    j->count = j->rows * j->run;
    j->chunks = cm_ceil_div(j->cols, CHUNK);
}

const char *cm_cpu_reduce_whole_reject(const cm_problem *p)
{
    const cm_reduce *r = &p->as.reduce;
    int last = r->loop.rank - 1;
    cm_tile_view v;
    job j = {0};
    if (p->program || p->epilogue)
        return "there is a program";
    if (r->kind > CM_REDUCE_MIN)
        return "neither a sum nor a mean nor an extreme";
    set_up(&j, p);
    if (j.type > CM_TYPED_U64 || j.size == 2 || p->out[0]->dtype != p->in[0]->dtype)
        return "not of whole numbers of 8, 32 or 64 bits";
    if (j.op == CM_PW_ADD && (j.size == 1 || (j.mean && j.type == CM_TYPED_U64)))
        return "a sum of bytes, or a mean of uint64";
    if (r->loop.in[0][last] != 1 && r->loop.dims[last] != 1)
        return "the innermost axis is strided";
    if (!cm_reduce_view(&v, r, r->loop.in[0], p->in[0]->dtype, NULL, true) ||
        !cm_reduce_view(&v, r, r->loop.out[0], p->in[0]->dtype, NULL, false))
        return "strided over too many axes";
    return NULL;
}

static double total_ns(const cm_problem *p, const job *j)
{
    double n = (double)(j->outer * j->cols) * (double)j->count, bytes = n * (double)j->size;
    double each = p->target.level == CM_ISA_GENERIC ? 0.03 : 0.01;
    double starts = (double)(j->outer * j->rows) * (double)j->chunks;
    return n * each * (double)j->size * (j->mean ? 2 : 1) + 40 * starts +
           bytes / cm_pointwise_bytes_per_ns(&p->target, bytes);
}

double cm_cpu_reduce_whole_cost(const cm_problem *p, const cm_knobs *k)
{
    job j = {0};
    (void)k;
    set_up(&j, p);
    double ns = total_ns(p, &j);
    return 150 + ns / cm_cpu_speedup(p, ns / THREAD_NS);
}

/* What folding begins with. */
static int64_t start(const job *j)
{
    int bits = 8 * (int)j->size;
    bool is_signed = j->type <= CM_TYPED_I64;
    uint64_t most = UINT64_MAX >> (64 - bits + is_signed);
    if (j->op == CM_PW_MAX)
        return is_signed ? (int64_t)~most : 0;
    return j->op == CM_PW_MIN ? (int64_t)most : 0;
}

/* Numbers extended by their type. */
static int64_t fold_two(const job *j, int64_t a, int64_t b)
{
    uint64_t flip = j->type == CM_TYPED_U64 ? UINT64_C(1) << 63 : 0;
    bool above = (int64_t)((uint64_t)a ^ flip) > (int64_t)((uint64_t)b ^ flip);
    if (j->op == CM_PW_MAX)
        return above ? a : b;
    if (j->op == CM_PW_MIN)
        return above ? b : a;
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

/* The sum's two parts over the count, toward zero. */
static int64_t mean_of(const job *j, const int64_t *sum)
{
    if (j->count == 0)
        return 0;
    if (j->type != CM_TYPED_I64)
        return sum[0] / j->count;
    return (int64_t)(((__int128)sum[0] * ((__int128)1 << 32) + sum[1]) / j->count);
}

static void add_whole(const job *j, int64_t v, int64_t *sum)
{
    bool halves = j->type == CM_TYPED_I64;
    sum[0] += halves ? v >> 32 : v;
    sum[1] += halves ? v & UINT32_MAX : 0;
}

/* One output. */
static int64_t fold_runs(const job *j, int64_t output)
{
    int64_t all = start(j), sum[2] = {0}, blocks = j->run / CM_TYPED_BLOCK;
    int64_t done = blocks * CM_TYPED_BLOCK, rest[CM_TYPED_BLOCK];
    for (int64_t row = 0; row < j->rows; row++) {
        const char *x = cm_tile_address(&j->in, output * j->rows + row, 0);
        if (blocks && j->mean)
            j->k->fold_whole(j->type, x, blocks, sum);
        else if (blocks)
            all = fold_two(j, all, j->k->fold(j->op, j->type, x, blocks));
        cm_load_i64(j->in.dtype, x + (size_t)done * j->size, j->run - done, rest);
        for (int64_t i = 0; i < j->run - done; i++) {
            if (j->mean)
                add_whole(j, rest[i], sum);
            else
                all = fold_two(j, all, rest[i]);
        }
    }
    return j->mean ? mean_of(j, sum) : all;
}

static void run_outputs(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    for (int64_t u = begin; u < end; u++) {
        int64_t y = fold_runs(j, u);
        cm_store_i64(j->out.dtype, &y, 1, cm_tile_address(&j->out, u, 0));
    }
}

/* A chunk of outputs while rows are folded into it. */
typedef struct {
    char all[CHUNK * 8];             /* sums and extremes, of the elements' type */
    int64_t high[CHUNK], low[CHUNK]; /* means: the two parts of sums */
    char row[CHUNK * 8];
    int64_t part[CHUNK], shift[CHUNK], mask[CHUNK];
} columns;

static void apply(const job *j, cm_pointwise op, cm_typed type, void *to, const void *a,
                  const void *b, int64_t blocks)
{
    cm_typed_run r = {to, a, b, b, blocks};
    j->k->apply(op, type, &r);
}

/* A row to the sums of means. */
static void add_row(const job *j, columns *c, const void *x, int64_t blocks)
{
    cm_typed_run widened = {c->part, x, x, x, blocks};
    if (j->type != CM_TYPED_I64) {
        j->k->convert(j->type, CM_TYPED_I64, &widened);
        apply(j, CM_PW_ADD, CM_TYPED_I64, c->high, c->high, c->part, blocks);
        return;
    }
    apply(j, CM_PW_SHIFT_RIGHT, CM_TYPED_I64, c->part, x, c->shift, blocks);
    apply(j, CM_PW_ADD, CM_TYPED_I64, c->high, c->high, c->part, blocks);
    apply(j, CM_PW_BIT_AND, CM_TYPED_I64, c->part, x, c->mask, blocks);
    apply(j, CM_PW_ADD, CM_TYPED_I64, c->low, c->low, c->part, blocks);
}

/* All rows of outputs [col, col + n). Kernels take whole blocks: others are copied to where there is room. */
static void fold_rows(const job *j, columns *c, int64_t output, int64_t col, int64_t n)
{
    int64_t blocks = cm_ceil_div(n, CM_TYPED_BLOCK);
    for (int64_t row = 0; row < j->rows; row++) {
        const char *x = cm_tile_address(&j->in, output * j->rows + row, col);
        if (n % CM_TYPED_BLOCK)
            x = memcpy(c->row, x, (size_t)n * j->size);
        if (j->mean)
            add_row(j, c, x, blocks);
        else
            apply(j, j->op, j->type, c->all, c->all, x, blocks);
    }
}

static void start_columns(const job *j, columns *c)
{
    int64_t first[CHUNK];
    memset(c, 0, sizeof *c);
    for (int i = 0; i < CHUNK; i++) {
        first[i] = start(j);
        c->shift[i] = 32;
        c->mask[i] = UINT32_MAX;
    }
    cm_store_i64(j->in.dtype, first, CHUNK, c->all);
}

static void run_columns(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    columns c;
    for (int64_t u = begin; u < end; u++) {
        int64_t row = u / j->chunks, col = u % j->chunks * CHUNK, y[CHUNK];
        int64_t n = cm_min_i64(CHUNK, j->cols - col);
        start_columns(j, &c);
        fold_rows(j, &c, row, col, n);
        cm_load_i64(j->in.dtype, c.all, n, y);
        for (int64_t i = 0; j->mean && i < n; i++)
            y[i] = mean_of(j, (int64_t[]){c.high[i], c.low[i]});
        for (int64_t i = 0; i < n; i++)
            cm_store_i64(j->out.dtype, &y[i], 1, cm_tile_address(&j->out, row, col + i));
    }
}

cm_status cm_cpu_reduce_whole_run(const cm_run *r)
{
    const cm_problem *p = r->p;
    const cm_reduce *d = &p->as.reduce;
    job j = {0};
    set_up(&j, p);
    if (j.outer * j.cols == 0)
        return CM_OK;
    j.k = cm_typed_kernels_at(p->target.level);
    cm_reduce_view(&j.in, d, d->loop.in[0], p->in[0]->dtype, r->in[0], true);
    cm_reduce_view(&j.out, d, d->loop.out[0], p->out[0]->dtype, r->out[0], false);
    int64_t units = j.inner ? j.outer : j.outer * j.chunks;
    int64_t grain = (int64_t)(THREAD_NS * (double)units / (total_ns(p, &j) + 1)) + 1;
    cm_parallel(r->threads, units, grain, j.inner ? run_outputs : run_columns, &j);
    return CM_OK;
}
