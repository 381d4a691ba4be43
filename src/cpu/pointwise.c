/* pointwise.c -- pointwise programs over whole tensors, tile by tile.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The innermost axis of the loop nest is the columns of the matrix that tiles are cut from, the others
 * its rows; where it is very short (three colours beside each other) another, along which inputs are adjacent. Long
 * rows are cut into pieces; short ones are taken several at a time. */
#include "cpu/pointwise.h"

#include "base/size.h"

enum {
    LONG_ROW = 256, /* columns from which on a tile is of one row */
    PIECE = 8192,   /* columns of a row that are handed to a thread at once */
    THREAD_NS = 4000,
    SHORT_AXIS = 8,      /* columns so few that others are looked for, ... */
    TURNED_AXIS = 64,    /* and how many those must be */
    TURNED_PIECE = 2048, /* of those, as PIECE */
};

typedef struct {
    cm_tile_code code;
    cm_tile_view operands[CM_TILE_OPERANDS], out[CM_PROGRAM_MAX];
    cm_tile_job tiles;
    int64_t rows, cols, pieces_per_row;
    int axis;       /* the columns */
    int64_t beside; /* rows of the innermost axis, where that is not the columns */
} job;

int64_t cm_pointwise_rows(const cm_pointwise_shape *s, int cols)
{
    int64_t n = 1;
    for (int a = 0; a < s->rank; a++)
        n *= a == cols ? 1 : s->dims[a];
    return n;
}

bool cm_pointwise_view(cm_tile_view *v, const cm_pointwise_shape *s, int cols,
                       const int64_t *strides, cm_dtype dtype, const void *data)
{
    cm_tile_view_begin(v, dtype, data);
    for (int a = 0; a < s->rank; a++)
        if (a != cols && !cm_tile_view_row(v, s->dims[a], strides[a]))
            return false;
    bool fits = cm_tile_view_col(v, s->dims[cols], strides[cols]);
    cm_tile_view_end(v);
    return fits;
}

bool cm_pointwise_reads(const cm_program *p, int operand)
{
    for (int s = 0; s < p->n_steps; s++)
        for (int k = 0; k < cm_pointwise_arity(p->step[s].op); k++)
            if (p->step[s].arg[k].kind == CM_ARG_OPERAND && p->step[s].arg[k].index == operand)
                return true;
    return false;
}

/* The axis that is taken as columns. */
static int columns(const cm_problem *p)
{
    const cm_pointwise_shape *s = &p->as.pointwise;
    int last = s->rank - 1;
    for (int a = 0; s->dims[last] < SHORT_AXIS && a < last; a++) {
        bool adjacent = s->dims[a] >= TURNED_AXIS, any = false;
        for (int i = 0; i < p->program->n_operands; i++) {
            if (!cm_pointwise_reads(p->program, i) || s->in[i][a] == 0)
                continue;
            adjacent = adjacent && s->in[i][a] == 1;
            any = true;
        }
        if (adjacent && any)
            return a;
    }
    return last;
}

const char *cm_pointwise_tile_reject(const cm_problem *p)
{
    const cm_pointwise_shape *s = &p->as.pointwise;
    int cols = columns(p);
    cm_tile_view v;
    const char *why = cm_tile_reject(p->program);
    if (why)
        return why;
    for (int i = 0; i < p->program->n_operands; i++) {
        if (!cm_pointwise_reads(p->program, i))
            continue;
        if (!cm_tile_loads(p->in[i]->dtype))
            return "an input's element type is not computed as float32";
        if (!cm_pointwise_view(&v, s, cols, s->in[i], p->in[i]->dtype, NULL))
            return "an input is strided over too many axes";
    }
    for (int o = 0; o < p->n_out; o++) {
        if (p->out[o] && !cm_tile_stores(p->out[o]->dtype))
            return "an output is not of float32, float16, bfloat16 or bool";
        if (p->out[o] && !cm_pointwise_view(&v, s, cols, s->out[o], p->out[o]->dtype, NULL))
            return "an output is strided over too many axes";
    }
    return NULL;
}

double cm_pointwise_bytes_per_ns(const cm_target *t, double bytes)
{
    double in_cache = t->level == CM_ISA_GENERIC ? 40 : 64;
    return bytes <= 8 << 20 ? in_cache : cm_cpu_bytes_per_ns(t);
}

/* What moving the operands takes; one whose neighbours are far from each other takes a cache line for
 * each. */
static double memory_ns(const cm_problem *p, const cm_pointwise_shape *s, double n)
{
    double bytes = 0, apart = 0;
    int last = columns(p), n_in = p->program->n_operands;
    for (int i = 0; i < n_in + p->n_out; i++) {
        bool in = i < n_in;
        int k = in ? i : i - n_in;
        const cm_tensor *t = in ? p->in[k] : p->out[k];
        if (!t || (in && !cm_pointwise_reads(p->program, k)))
            continue;
        int64_t stride = (in ? s->in : s->out)[k][last];
        if (stride != 0 && stride != 1 && s->dims[last] != 1)
            apart += n * 1.5;
        else
            bytes += (double)cm_tensor_elems(t) * (double)cm_dtype_size(t->dtype);
    }
    return apart + bytes / cm_pointwise_bytes_per_ns(&p->target, bytes);
}

static double element_ns(const cm_problem *p)
{
    const cm_pointwise_shape *s = &p->as.pointwise;
    double n = (double)(cm_pointwise_rows(s, s->rank - 1) * s->dims[s->rank - 1]);
    double compute = cm_tile_cost(p->program, p->target.level);
    return n > 0 ? compute + memory_ns(p, s, n) / n : 1;
}

static double cost(const cm_problem *p, const cm_knobs *k)
{
    const cm_pointwise_shape *s = &p->as.pointwise;
    (void)k;
    double ns = element_ns(p) * (double)(cm_pointwise_rows(s, s->rank - 1) * s->dims[s->rank - 1]);
    return 150 + ns / cm_cpu_speedup(p, ns / THREAD_NS);
}

static void run_rows(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    cm_tile_run(&j->tiles, begin, 0, end - begin, j->cols, NULL, 0);
}

static void run_pieces(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    while (begin < end) { /* the pieces of one row at a time */
        int64_t row = begin / j->pieces_per_row, first = begin % j->pieces_per_row;
        int64_t n = j->pieces_per_row - first;
        n = n < end - begin ? n : end - begin;
        int64_t col = first * PIECE, stop = col + n * PIECE;
        stop = stop < j->cols ? stop : j->cols;
        cm_tile_run(&j->tiles, row, col, 1, stop - col, NULL, 0);
        begin += n;
    }
}

/* Columns that are not the innermost axis: its few rows share cache lines of the output, so they go together. */
static void run_turned(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    for (int64_t u = begin; u < end; u++) {
        int64_t row = u / j->pieces_per_row * j->beside, col = u % j->pieces_per_row * TURNED_PIECE;
        int64_t n = cm_min_i64(TURNED_PIECE, j->cols - col);
        for (int64_t i = 0; i < j->beside; i++)
            cm_tile_run(&j->tiles, row + i, col, 1, n, NULL, 0);
    }
}

static void compile(job *j, const cm_run *r)
{
    const cm_problem *p = r->p;
    const cm_pointwise_shape *s = &p->as.pointwise;
    cm_tile_facts facts;
    bool apart = j->rows == 1 || j->cols >= LONG_ROW;
    facts.x_loaded = facts.out_stored = false;
    for (int i = 0; i < p->program->n_operands; i++) {
        cm_tile_view *v = &j->operands[i];
        facts.one[i] = facts.loaded[i] = false;
        if (!p->in[i])
            continue;
        cm_pointwise_view(v, s, j->axis, s->in[i], p->in[i]->dtype, r->in[i]);
        bool same = v->n_axes == 1 && v->strides[0] == 0;
        facts.one[i] = v->n_col_axes == 1 && v->col_strides[0] == 0 && (apart || same);
        facts.loaded[i] = v->dtype != CM_F32 || !cm_tile_is_run(v, j->cols, apart);
    }
    for (int o = 0; o < p->n_out; o++) {
        cm_tile_view *v = &j->out[o];
        v->data = NULL;
        if (!p->out[o])
            continue;
        cm_pointwise_view(v, s, j->axis, s->out[o], p->out[o]->dtype, r->out[o]);
        facts.out_stored |= v->dtype != CM_F32 || !cm_tile_is_run(v, j->cols, apart);
    }
    for (int o = 0; o < p->n_out; o++) /* whose result needs a place, wanted or not */
        facts.out_stored |= !p->out[o];
    cm_tile_compile(&j->code, p->program, p->target.level, &facts);
    j->tiles = (cm_tile_job){&j->code, j->operands, j->out, j->cols, apart};
}

static cm_status run(const cm_run *r)
{
    const cm_pointwise_shape *s = &r->p->as.pointwise;
    job j;
    j.axis = columns(r->p);
    j.rows = cm_pointwise_rows(s, j.axis);
    j.cols = s->dims[j.axis];
    int64_t n = j.rows * j.cols;
    if (n == 0)
        return CM_OK;
    compile(&j, r);
    double ns = cm_threads_count(r->threads) > 1 ? element_ns(r->p) : 0;
    if (ns * (double)n < 2 * THREAD_NS) {
        run_rows(&j, 0, j.rows);
        return CM_OK;
    }
    if (j.axis != s->rank - 1) {
        j.beside = s->dims[s->rank - 1];
        j.pieces_per_row = cm_ceil_div(j.cols, TURNED_PIECE);
        double unit_ns = ns * (double)(j.beside * cm_min_i64(j.cols, TURNED_PIECE));
        cm_parallel(r->threads, j.rows / j.beside * j.pieces_per_row,
                    (int64_t)(THREAD_NS / unit_ns) + 1, run_turned, &j);
        return CM_OK;
    }
    bool pieces = j.cols > PIECE;
    j.pieces_per_row = pieces ? (j.cols + PIECE - 1) / PIECE : 1;
    double item_ns = ns * (double)(pieces ? PIECE : j.cols);
    cm_parallel(r->threads, j.rows * j.pieces_per_row, (int64_t)(THREAD_NS / item_ns) + 1,
                pieces ? run_pieces : run_rows, &j);
    return CM_OK;
}

static const cm_tactic rows[] = {
    {.name = "pointwise_tile",
     .level = CM_ISA_GENERIC,
     .reject = cm_pointwise_tile_reject,
     .cost = cost,
     .run = run,
     .in_place = CM_IN_PLACE_ANY},
    CM_ROW(pointwise_compare, GENERIC),
    CM_ROW(pointwise_typed, GENERIC),
    {.name = "pointwise_wide",
     .level = CM_ISA_GENERIC,
     .reject = cm_pointwise_wide_reject,
     .cost = cm_pointwise_wide_cost,
     .run = cm_pointwise_wide_run},
};

const cm_cpu_table cm_cpu_pointwise = {rows, sizeof rows / sizeof *rows};
