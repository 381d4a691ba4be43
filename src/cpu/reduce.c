/* reduce.c -- reductions along any axes, of a program's result or of an input itself.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Outputs are seen as a matrix: the innermost axis that is kept is its columns. Where the innermost axis
 * of all is reduced, an output is folded from runs of that axis (`one`); else a run of outputs is folded
 * row by row (`each`). What is folded is cut into segments of at most SEGMENT elements, which is also how
 * a few large sums are shared by threads: each thread folds some segments into a place of its own in the
 * workspace, and the parts are then folded in order. */
#include "cpu/reduce.h"

#include <math.h>

#include "cpu/pointwise.h"

enum {
    SEGMENT = 1024, /* elements folded at a time */
    OUTPUTS = 64,   /* outputs collected before they are stored, where each is a fold of its own */
    PARTS = 16,     /* that a fold is cut into for threads */
    THREAD_NS = 8000,
};

const cm_reduce_kernels *cm_reduce_kernels_at(int level)
{
    return level == CM_ISA_GENERIC ? &cm_cpu_reduce__generic
           : level == CM_ISA_AVX2  ? &cm_cpu_reduce__avx2
                                   : &cm_cpu_reduce__avx512;
}

double cm_fold_two(cm_fold f, double acc, double v)
{
    switch (f) {
    case CM_FOLD_MAX:
        return acc != acc || acc > v ? acc : v;
    case CM_FOLD_MIN:
        return acc != acc || acc < v ? acc : v;
    case CM_FOLD_PROD:
        return acc * v;
    default:
        return acc + v;
    }
}

double cm_fold_start(cm_fold f)
{
    return f == CM_FOLD_MAX ? -INFINITY : f == CM_FOLD_MIN ? INFINITY : f == CM_FOLD_PROD ? 1 : 0;
}

static cm_fold fold_of(cm_reduce_kind kind)
{
    switch (kind) {
    case CM_REDUCE_L1:
        return CM_FOLD_ABS;
    case CM_REDUCE_L2:
    case CM_REDUCE_SUM_SQUARE:
        return CM_FOLD_SQUARE;
    case CM_REDUCE_MAX:
        return CM_FOLD_MAX;
    case CM_REDUCE_MIN:
        return CM_FOLD_MIN;
    case CM_REDUCE_PROD:
        return CM_FOLD_PROD;
    default:
        return CM_FOLD_SUM;
    }
}

/* The nest as sizes: outer outputs x columns of outputs, each a fold of `steps` rows of `run`. */
typedef struct {
    bool inner;     /* the innermost axis is reduced */
    int64_t outer;  /* outputs but for the columns */
    int64_t cols;   /* inner: 1; else the innermost axis, which is kept */
    int64_t rows;   /* reduced, but for the innermost axis where that is */
    int64_t run;    /* inner: the innermost axis; else 1 */
    int64_t count;  /* elements folded into one */
    int64_t chunks; /* of the columns, or of the run: segments */
} sizes;

static void sizes_of(const cm_reduce *r, sizes *z)
{
    int last = r->loop.rank - 1;
    int64_t end = r->loop.dims[last];
    z->inner = r->axes[last];
    z->outer = z->rows = 1;
    for (int a = 0; a < last; a++)
        *(r->axes[a] ? &z->rows : &z->outer) *= r->loop.dims[a];
    z->cols = z->inner ? 1 : end;
    z->run = z->inner ? end : 1;
    z->count = z->rows * z->run;
    z->chunks = (end + SEGMENT - 1) / SEGMENT;
}

typedef struct {
    const cm_problem *p;
    const cm_reduce_kernels *k;
    const cm_tile_kernels *tile;
    cm_fold fold;
    sizes z;
    bool direct;        /* the input is float32 and read where it is */
    int64_t row_stride; /* from one reduced row to the next; 0: not the same everywhere */
    cm_tile_view
        in[CM_TILE_OPERANDS]; /* rows: outputs, then reduced rows; columns: the innermost axis */
    cm_tile_view out, operands[CM_TILE_OPERANDS]; /* rows: outer outputs; columns: `cols` */
    cm_tile_code program, finish;
    double *parts; /* NULL: whole folds */
    int64_t n_parts;
} job;

bool cm_reduce_view(cm_tile_view *v, const cm_reduce *r, const int64_t *strides, cm_dtype dtype,
                    const void *data, bool input)
{
    int last = r->loop.rank - 1;
    cm_tile_view_begin(v, dtype, data);
    for (int pass = 0; pass < 1 + input; pass++)
        for (int a = 0; a < last; a++)
            if (r->axes[a] == (pass == 1) && !cm_tile_view_row(v, r->loop.dims[a], strides[a]))
                return false;
    if ((input || !r->axes[last]) && !cm_tile_view_col(v, r->loop.dims[last], strides[last]))
        return false;
    cm_tile_view_end(v);
    return true;
}

static bool is_arg(cm_reduce_kind kind)
{
    return kind == CM_REDUCE_ARG_MAX || kind == CM_REDUCE_ARG_MIN;
}

static int n_data(const cm_problem *p)
{
    return p->program ? p->program->n_operands : 1;
}

static const char *reject(const cm_problem *p)
{
    const cm_reduce *r = &p->as.reduce;
    cm_tile_view v;
    if (p->program && (cm_tile_reject(p->program) || p->program->n_outputs != 1))
        return "the program cannot be compiled";
    if (n_data(p) > CM_TILE_OPERANDS || p->n_operands > CM_TILE_OPERANDS)
        return "there are too many operands";
    for (int i = 0; i < n_data(p); i++) {
        cm_dtype t = p->in[i]->dtype;
        if (!cm_tile_loads(t) || (!p->program && !cm_tile_stores(t) && !is_arg(r->kind)))
            return "an input's element type is not computed as float32";
        if (!cm_reduce_view(&v, r, r->loop.in[i], t, NULL, true))
            return "an input is strided over too many axes";
    }
    for (int i = 0; i < p->n_operands; i++)
        if (!cm_tile_loads(p->operands[i]->dtype) ||
            !cm_reduce_view(&v, r, r->operands[i], CM_F32, NULL, false))
            return "an operand of the epilogue cannot be read";
    if (!cm_reduce_view(&v, r, r->loop.out[0], CM_F32, NULL, false))
        return "the output is strided over too many axes";
    if (is_arg(r->kind))
        return p->out[0]->dtype == CM_I64 ? NULL : "indices are not of int64";
    if (!cm_tile_stores(p->out[0]->dtype))
        return "the output is not of float32, float16, bfloat16 or bool";
    return NULL;
}

static double total_ns(const cm_problem *p, const sizes *z)
{
    double n = (double)z->outer * (double)z->cols * (double)z->count;
    double each = p->program ? cm_tile_cost(p->program, p->target.level) : 0;
    double passes = p->as.reduce.kind == CM_REDUCE_LOG_SUM_EXP ? 3 : 1;
    each += p->target.level == CM_ISA_GENERIC ? 0.3 : 0.03;
    double bytes = 0;
    for (int i = 0; i < n_data(p); i++) {
        int64_t stride = p->as.reduce.loop.in[i][p->as.reduce.loop.rank - 1];
        double size = (double)cm_dtype_size(p->in[i]->dtype);
        bytes += (double)cm_tensor_elems(p->in[i]) * (stride > 1 ? 96 : size);
    }
    double starts = (double)z->outer * (double)z->rows * (double)z->chunks;
    return passes * (n * each + bytes / cm_pointwise_bytes_per_ns(&p->target, bytes) + 12 * starts);
}

static double cost(const cm_problem *p, const cm_knobs *k)
{
    sizes z;
    (void)k;
    sizes_of(&p->as.reduce, &z);
    double ns = total_ns(p, &z);
    return 150 + ns / cm_cpu_speedup(p, ns / THREAD_NS);
}

/* Are there too few outputs for the threads, and enough work to share? */
static bool in_parts(const cm_problem *p, const sizes *z)
{
    int64_t units = z->inner ? z->outer : z->outer * z->chunks;
    int64_t segments = z->inner ? z->rows * z->chunks : z->rows;
    return p->threads > 1 && units < 2 * p->threads && segments >= 2 * PARTS &&
           total_ns(p, z) > 4 * THREAD_NS && p->as.reduce.kind != CM_REDUCE_LOG_SUM_EXP &&
           !is_arg(p->as.reduce.kind);
}

static size_t workspace(const cm_problem *p, const cm_knobs *k)
{
    sizes z;
    (void)k;
    sizes_of(&p->as.reduce, &z);
    return in_parts(p, &z) ? (size_t)(z.outer * z.cols) * PARTS * sizeof(double) : 0;
}

/* Elements [col, col + n) of a row of what is reduced: where they are, or in buf. */
static const float *segment(const job *j, int64_t row, int64_t col, int64_t n, float *buf)
{
    if (j->p->program) {
        cm_tile_view to = {.dtype = CM_F32, .n_axes = 1, .dims = {1}, .n_col_axes = 1};
        to.col_dims[0] = col + n;
        to.col_strides[0] = 1;
        /* column `col` is the first that is written */
        to.data = (const void *)((uintptr_t)buf - (uintptr_t)col * sizeof *buf);
        cm_tile_job t = {&j->program, j->in, &to, col + n, true};
        cm_tile_run(&t, row, col, 1, n, NULL, 0);
        return buf;
    }
    const cm_tile_view *v = &j->in[0];
    const char *at = cm_tile_address(v, row, col);
    if (j->direct)
        return (const float *)at;
    j->tile->load[v->dtype](buf, at, v->col_strides[0], n);
    return buf;
}

/* One output, segments [begin, end) of it. */
static double fold_one(const job *j, cm_fold f, int64_t output, int64_t begin, int64_t end,
                       float shift)
{
    float buf[SEGMENT];
    double acc = cm_fold_start(f);
    if (j->z.run == 0)
        return acc;
    for (int64_t s = begin; s < end; s++) {
        int64_t row = s / j->z.chunks, col = s % j->z.chunks * SEGMENT;
        int64_t n = j->z.run - col < SEGMENT ? j->z.run - col : SEGMENT;
        const float *x = segment(j, output * j->z.rows + row, col, n, buf);
        acc = cm_fold_two(f, acc, j->k->one[f](x, n, shift));
    }
    return acc;
}

/* Outputs [col, col + n) of a row, n <= SEGMENT, rows [begin, end) of what is reduced. */
static void fold_each(const job *j, cm_fold f, int64_t output, int64_t col, int64_t n,
                      int64_t begin, int64_t end, const float *shift, double *acc)
{
    float buf[SEGMENT];
    int64_t first = output * j->z.rows, i = begin;
    for (int64_t l = 0; l < n; l++)
        acc[l] = cm_fold_start(f);
    if (f == CM_FOLD_SUM && j->direct && j->row_stride) {
        const float *x = (const float *)cm_tile_address(&j->in[0], first + begin, col);
        j->k->sum_rows(acc, x, j->row_stride, end - begin, n);
        return;
    }
    for (; i < end; i++)
        j->k->each[f](acc, segment(j, first + i, col, n, buf), shift, n);
}

/* libm's logarithm: once for each output, not for each element. */
static double finish_value(const job *j, double a, double shift)
{
    switch (j->p->as.reduce.kind) {
    case CM_REDUCE_MEAN:
        return a / (double)j->z.count;
    case CM_REDUCE_L2:
        return sqrt(a);
    case CM_REDUCE_LOG_SUM:
        return log(a);
    case CM_REDUCE_LOG_SUM_EXP: /* an infinity or NaN as it is */
        return fabs(shift) < INFINITY ? shift + log(a) : shift;
    default:
        return a;
    }
}

/* Folds to outputs: finished, through the epilogue, to their place. */
static void store(const job *j, int64_t row, int64_t col, int64_t n, const double *acc,
                  const float *shift)
{
    float y[SEGMENT];
    for (int64_t i = 0; i < n; i++)
        y[i] = (float)finish_value(j, acc[i], shift ? (double)shift[i] : 0);
    cm_tile_job t = {&j->finish, j->operands, &j->out, j->z.cols, false};
    if (j->z.inner) /* every output is a row */
        cm_tile_run(&t, row, 0, n, 1, y, 1);
    else
        cm_tile_run(&t, row, col, 1, n, y, n);
}

static void run_outputs(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    bool twice = j->p->as.reduce.kind == CM_REDUCE_LOG_SUM_EXP;
    int64_t segments = j->z.rows * j->z.chunks;
    for (int64_t first = begin; first < end; first += OUTPUTS) {
        double acc[OUTPUTS];
        float shift[OUTPUTS];
        int64_t n = end - first < OUTPUTS ? end - first : OUTPUTS;
        for (int64_t i = 0; i < n; i++) {
            if (twice)
                shift[i] = (float)fold_one(j, CM_FOLD_MAX, first + i, 0, segments, 0);
            acc[i] = fold_one(j, twice ? CM_FOLD_EXP : j->fold, first + i, 0, segments,
                              twice ? shift[i] : 0);
        }
        store(j, first, 0, n, acc, twice ? shift : NULL);
    }
}

static void run_columns(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    bool twice = j->p->as.reduce.kind == CM_REDUCE_LOG_SUM_EXP;
    for (int64_t u = begin; u < end; u++) {
        double acc[SEGMENT];
        float shift[SEGMENT];
        int64_t row = u / j->z.chunks, col = u % j->z.chunks * SEGMENT;
        int64_t n = j->z.cols - col < SEGMENT ? j->z.cols - col : SEGMENT;
        if (twice) {
            fold_each(j, CM_FOLD_MAX, row, col, n, 0, j->z.rows, NULL, acc);
            for (int64_t i = 0; i < n; i++)
                shift[i] = (float)acc[i];
        }
        fold_each(j, twice ? CM_FOLD_EXP : j->fold, row, col, n, 0, j->z.rows, shift, acc);
        store(j, row, col, n, acc, twice ? shift : NULL);
    }
}

/* Unit u: part u % PARTS of a fold, its result in the workspace. */
static void run_parts(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    const sizes *z = &j->z;
    int64_t all = z->inner ? z->rows * z->chunks : z->rows;
    for (int64_t u = begin; u < end; u++) {
        int64_t unit = u / PARTS, part = u % PARTS;
        int64_t from = all * part / PARTS, to = all * (part + 1) / PARTS;
        if (z->inner) {
            j->parts[u] = fold_one(j, j->fold, unit, from, to, 0);
            continue;
        }
        int64_t row = unit / z->chunks, col = unit % z->chunks * SEGMENT;
        int64_t n = z->cols - col < SEGMENT ? z->cols - col : SEGMENT;
        fold_each(j, j->fold, row, col, n, from, to, NULL,
                  j->parts + (part * z->outer + row) * z->cols + col);
    }
}

static void join_parts(const job *j)
{
    const sizes *z = &j->z;
    double acc[SEGMENT];
    for (int64_t row = 0; row < z->outer; row++) {
        for (int64_t col = 0; col < z->cols; col += SEGMENT) {
            int64_t n = z->cols - col < SEGMENT ? z->cols - col : SEGMENT;
            for (int64_t i = 0; i < n; i++) {
                acc[i] = cm_fold_start(j->fold);
                for (int64_t part = 0; part < PARTS; part++)
                    acc[i] = cm_fold_two(
                        j->fold, acc[i],
                        z->inner ? j->parts[row * PARTS + part]
                                 : j->parts[(part * z->outer + row) * z->cols + col + i]);
            }
            store(j, row, col, n, acc, NULL);
        }
    }
}

/* Does v take the place of best, which came before it? NaN counts as the extreme. */
static inline bool wins(float v, float best, float sign, bool last)
{
    if (best != best)
        return last && v != v;
    return v != v || v * sign > best * sign || (last && v == best);
}

static int64_t arg_of_run(const job *j, int64_t output, float sign)
{
    float buf[SEGMENT], best = 0;
    int64_t at = -1, most = j->direct ? j->z.run : SEGMENT;
    bool last = j->p->as.reduce.select_last_index;
    for (int64_t col = 0; col < j->z.run; col += most) {
        int64_t n = j->z.run - col < most ? j->z.run - col : most;
        const float *x = segment(j, output, col, n, buf);
        int64_t i = j->k->arg(x, n, sign, last);
        if (at < 0 || wins(x[i], best, sign, last)) {
            best = x[i];
            at = col + i;
        }
    }
    return at;
}

static void arg_of_columns(const job *j, int64_t output, int64_t col, int64_t n, float sign,
                           int64_t *at)
{
    float buf[SEGMENT], best[SEGMENT];
    bool last = j->p->as.reduce.select_last_index;
    for (int64_t k = 0; k < j->z.rows; k++) {
        const float *x = segment(j, output * j->z.rows + k, col, n, buf);
        for (int64_t i = 0; i < n; i++) {
            bool win = k == 0 || wins(x[i], best[i], sign, last);
            best[i] = win ? x[i] : best[i];
            at[i] = win ? k : at[i];
        }
    }
}

static void run_arg(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    float sign = j->p->as.reduce.kind == CM_REDUCE_ARG_MAX ? 1 : -1;
    int64_t at[SEGMENT];
    for (int64_t u = begin; u < end; u++) {
        if (j->z.inner) {
            *(int64_t *)cm_tile_address(&j->out, u, 0) = arg_of_run(j, u, sign);
            continue;
        }
        int64_t row = u / j->z.chunks, col = u % j->z.chunks * SEGMENT;
        int64_t n = j->z.cols - col < SEGMENT ? j->z.cols - col : SEGMENT;
        arg_of_columns(j, row, col, n, sign, at);
        for (int64_t i = 0; i < n; i++)
            *(int64_t *)cm_tile_address(&j->out, row, col + i) = at[i];
    }
}

/* The stride of reduced rows where they are one axis; there is one innermost axis besides. */
static int64_t row_stride_of(const cm_reduce *r)
{
    int64_t stride = 0;
    int n = 0;
    for (int a = 0; a < r->loop.rank - 1; a++)
        if (r->axes[a]) {
            stride = r->loop.in[0][a];
            n++;
        }
    return n == 1 ? stride : 0;
}

static void prepare(job *j, const cm_run *r)
{
    const cm_problem *p = r->p;
    const cm_reduce *d = &p->as.reduce;
    cm_tile_facts facts;
    j->p = p;
    j->k = cm_reduce_kernels_at(p->target.level);
    j->tile = cm_tile_kernels_at(p->target.level);
    j->fold = fold_of(d->kind);
    sizes_of(d, &j->z);
    facts.x_loaded = false;
    facts.out_stored = false;
    for (int i = 0; i < n_data(p); i++) {
        cm_tile_view *v = &j->in[i];
        cm_reduce_view(v, d, d->loop.in[i], p->in[i]->dtype, r->in[i], true);
        facts.one[i] = v->n_col_axes == 1 && v->col_strides[0] == 0;
        facts.loaded[i] =
            v->dtype != CM_F32 || !cm_tile_is_run(v, d->loop.dims[d->loop.rank - 1], true);
    }
    j->direct = !p->program && j->in[0].dtype == CM_F32 &&
                cm_tile_is_run(&j->in[0], d->loop.dims[d->loop.rank - 1], true);
    j->row_stride = row_stride_of(d);
    if (p->program)
        cm_tile_compile(&j->program, p->program, p->target.level, &facts);
    cm_reduce_view(&j->out, d, d->loop.out[0], p->out[0]->dtype, r->out[0], false);
    if (!p->epilogue) {
        cm_tile_compile_copy(&j->finish, p->target.level);
        return;
    }
    facts.x_loaded = facts.out_stored = true;
    for (int i = 0; i < p->n_operands; i++) {
        cm_tile_view *v = &j->operands[i];
        cm_reduce_view(v, d, d->operands[i], p->operands[i]->dtype, r->operands[i], false);
        facts.one[i] =
            v->n_axes == 1 && v->strides[0] == 0 && v->n_col_axes == 1 && v->col_strides[0] == 0;
        facts.loaded[i] = true;
    }
    cm_tile_compile(&j->finish, p->epilogue, p->target.level, &facts);
}

static cm_status run(const cm_run *r)
{
    job j;
    prepare(&j, r);
    const sizes *z = &j.z;
    double ns = total_ns(r->p, z);
    int64_t units = z->inner ? z->outer : z->outer * z->chunks;
    int64_t grain = (int64_t)(THREAD_NS * (double)units / (ns + 1)) + 1;
    if (z->outer == 0 || z->cols == 0)
        return CM_OK;
    if (is_arg(r->p->as.reduce.kind)) {
        cm_parallel(r->threads, units, grain, run_arg, &j);
        return CM_OK;
    }
    if (in_parts(r->p, z)) {
        j.parts = r->workspace;
        cm_parallel(r->threads, units * PARTS, 1, run_parts, &j);
        join_parts(&j);
        return CM_OK;
    }
    cm_parallel(r->threads, units, grain, z->inner ? run_outputs : run_columns, &j);
    return CM_OK;
}

static const cm_tactic rows[] = {
    {.name = "reduce_fold",
     .level = CM_ISA_GENERIC,
     .reject = reject,
     .cost = cost,
     .workspace = workspace,
     .run = run},
    CM_ROW(reduce_whole, GENERIC),
};

const cm_cpu_table cm_cpu_reduce = {rows, sizeof rows / sizeof *rows};
