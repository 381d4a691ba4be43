/* pointwise_typed.c -- one operator on whole numbers or doubles, and casts, in the elements' own type.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Nothing is widened: sums and products lose their high bits as the reference has it. A piece of the matrix is a
 * part of a row, or some short rows. Operands that lie densely are read where they are; others are first
 * spread or gathered to a place in the L1 cache, and so is an output that is not dense. */
#include "cpu/pointwise_typed.h"

#include <math.h>
#include <string.h>

#include "base/size.h"
#include "cpu/pointwise.h"

enum {
    ROOM_BYTES = 8192, /* of an operand that is brought near */
    ALL_DENSE = 32768, /* elements of a piece that needs no room */
    THREAD_NS = 8000,
};

typedef struct {
    const cm_typed_kernels *typed;
    const cm_tile_kernels *tile;
    cm_typed_code code;
    cm_tile_view view[CM_TYPED_PLACES];
    bool dense[CM_TYPED_PLACES];
    int64_t rows, cols, tile_elems;
} job;

/* Is it one run of elements in every piece, where those are parts of a row or whole rows? */
static bool is_dense(const cm_tile_view *v, int64_t rows, int64_t cols)
{
    return v->col_strides[0] == 1 && (rows == 1 || (v->n_axes == 1 && v->strides[0] == cols));
}

/* Views of the tensors (data may be NULL), and how large pieces are. False: too many axes. */
static bool place_all(job *j, const cm_problem *p, const void *const *in, void *out)
{
    const cm_pointwise_shape *s = &p->as.pointwise;
    int last = s->rank - 1;
    size_t widest = 1;
    bool near = j->code.n_numbers > 0 || j->code.n_steps > 1;
    j->rows = cm_pointwise_rows(s, last);
    j->cols = s->dims[last];
    for (int i = 0; i <= j->code.n_in; i++) {
        bool is_out = i == j->code.n_in;
        int at = is_out ? CM_TYPED_OUT : i;
        const cm_tensor *t = is_out ? p->out[0] : p->in[j->code.input[i]];
        const void *data = is_out ? out : in ? in[j->code.input[i]] : NULL;
        if (!cm_pointwise_view(&j->view[at], s, last, is_out ? s->out[0] : s->in[j->code.input[i]],
                               t->dtype, data))
            return false;
        j->dense[at] = is_dense(&j->view[at], j->rows, j->cols);
        near |= !j->dense[at];
    }
    for (int k = 0; k < CM_TYPED_PLACES; k++)
        if ((k < j->code.n_in || k >= CM_TYPED_NUMBERS) && j->code.size[k] > widest)
            widest = j->code.size[k];
    int64_t blocks = cm_max_i64(1, cm_ceil_div(j->rows * j->cols, CM_TYPED_BLOCK));
    j->tile_elems =
        cm_min_i64(blocks * CM_TYPED_BLOCK, near ? ROOM_BYTES / (int64_t)widest : ALL_DENSE);
    return true;
}

const char *cm_cpu_pointwise_typed_reject(const cm_problem *p)
{
    job j = {0};
    if (p->n_out != 1 || !p->out[0])
        return "there is more than one output";
    if (!cm_typed_compile(&j.code, p))
        return "not one instruction on whole numbers or doubles, nor a cast";
    if (!place_all(&j, p, NULL, NULL))
        return "strided over too many axes";
    return NULL;
}

static double total_ns(const cm_problem *p, const job *j)
{
    double n = (double)(j->rows * j->cols), bytes = 0, ns = 0, widest = 1;
    for (int i = 0; i <= j->code.n_in; i++) {
        int at = i == j->code.n_in ? CM_TYPED_OUT : i;
        const cm_tensor *t = at == CM_TYPED_OUT ? p->out[0] : p->in[j->code.input[i]];
        const cm_tile_view *v = &j->view[at];
        int64_t stride = v->col_strides[0], rows = v->strides[v->n_axes - 1];
        double size = (double)j->code.size[at];
        bytes += (double)cm_tensor_elems(t) * size;
        widest = size > widest ? size : widest;
        if (stride > 1 || (rows != 0 && rows != j->cols))
            ns += 12.0 * (double)j->rows + n * (stride > 1 ? 1 : 0.05);
    }
    double each = widest * (p->target.level == CM_ISA_GENERIC ? 0.03 : 0.008);
    ns += n * each * j->code.n_steps + 30 * n / (double)j->tile_elems;
    return ns + bytes / cm_pointwise_bytes_per_ns(&p->target, bytes);
}

double cm_cpu_pointwise_typed_cost(const cm_problem *p, const cm_knobs *k)
{
    job j = {0};
    (void)k;
    if (!cm_typed_compile(&j.code, p) || !place_all(&j, p, NULL, NULL))
        return INFINITY;
    double ns = total_ns(p, &j);
    return 150 + ns / cm_cpu_speedup(p, ns / THREAD_NS);
}

/* A part of a row, or whole rows. */
typedef struct {
    int64_t row, col, rows, cols;
} piece;

/* The stride between its rows; -1: not the same for all. */
static int64_t row_stride(const cm_tile_view *v, const piece *p)
{
    int last = v->n_axes - 1;
    bool one = last == 0 || p->row % v->dims[last] + p->rows <= v->dims[last];
    return one ? v->strides[last] : -1;
}

/* What an input's room has: rows that are all the same. */
typedef struct {
    const char *from;
    int64_t rows, cols;
} holding;

typedef struct {
    const job *j;
    char *at[CM_TYPED_PLACES];
    holding holds[CM_TYPED_INPUTS];
    char room[CM_TYPED_PLACES][ROOM_BYTES] __attribute__((aligned(64)));
} runner;

/* n elements, `step` elements apart on either side. */
static void copy_elements(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t n,
                          size_t size)
{
    if (to_step == 1 &&
        (from_step == 0 || from_step == 1)) { /* what is repeated fills twice as much each time */
        int64_t done = from_step ? n : cm_min_i64(1, n);
        memcpy(to, from, (size_t)done * size);
        for (; done < n; done *= 2)
            memcpy(to + (size_t)done * size, to, (size_t)cm_min_i64(done, n - done) * size);
        return;
    }
#define COPY_AS(type)                                                                              \
    for (int64_t i = 0; i < n; i++)                                                                \
    ((type *)to)[i * to_step] = ((const type *)from)[i * from_step]
    if (size == 1)
        COPY_AS(uint8_t);
    else if (size == 2)
        COPY_AS(uint16_t);
    else if (size == 4)
        COPY_AS(uint32_t);
    else
        COPY_AS(uint64_t);
#undef COPY_AS
}

/* Where the piece lies as one run, or NULL. A run shorter than a block is none: kernels would go beyond it. */
static char *run_of(const cm_tile_view *v, const piece *p)
{
    bool run = v->col_strides[0] == 1 && (p->rows == 1 || row_stride(v, p) == p->cols);
    return run && p->rows * p->cols >= CM_TYPED_BLOCK ? cm_tile_address(v, p->row, p->col) : NULL;
}

static char *fetch(runner *r, int i, const piece *p)
{
    const cm_tile_view *v = &r->j->view[i];
    holding *h = &r->holds[i];
    size_t size = r->j->code.size[i];
    char *at = run_of(v, p);
    if (at)
        return at;
    at = cm_tile_address(v, p->row, p->col);
    bool same = p->rows == 1 || row_stride(v, p) == 0;
    if (same && h->from == at && h->cols == p->cols && h->rows >= p->rows)
        return r->room[i];
    for (int64_t k = 0; k < p->rows; k++)
        copy_elements(r->room[i] + (size_t)(k * p->cols) * size, 1,
                      cm_tile_address(v, p->row + k, p->col), v->col_strides[0], p->cols, size);
    *h = (holding){same ? at : NULL, p->rows, p->cols};
    return r->room[i];
}

static void run_blocks(const runner *r, const cm_typed_step *s, int64_t first, int64_t blocks)
{
    const job *j = r->j;
    cm_typed_run x = {.to = r->at[s->to] + (size_t)first * j->code.size[s->to],
                      .a = r->at[s->arg[0]] + (size_t)first * j->code.size[s->arg[0]],
                      .b = r->at[s->arg[1]] + (size_t)first * j->code.size[s->arg[1]],
                      .c = r->at[s->arg[2]] + (size_t)first * j->code.size[s->arg[2]],
                      .blocks = blocks};
    if (s->kind == CM_TYPED_APPLY)
        j->typed->apply(s->op, s->type, &x);
    else if (s->kind == CM_TYPED_POWER)
        j->typed->power(&x);
    else
        j->typed->convert(s->type, s->to_type, &x);
}

/* The last block overlaps the one before. Fewer elements than a block lie in rooms, which have more. */
static void run_step(const runner *r, const cm_typed_step *s, int64_t n)
{
    char *to = r->at[s->to], *from = r->at[s->arg[0]];
    if (s->kind == CM_TYPED_COPY)
        memcpy(to, from, (size_t)n * r->j->code.size[s->to]);
    else if (s->kind == CM_TYPED_FROM_HALF)
        r->j->tile->load[s->half]((float *)to, from, 1, n);
    else if (s->kind == CM_TYPED_TO_HALF)
        r->j->tile->store[s->half](to, 1, (const float *)from, n);
    else {
        int64_t blocks = n / CM_TYPED_BLOCK;
        run_blocks(r, s, 0, blocks ? blocks : 1);
        if (blocks && n % CM_TYPED_BLOCK)
            run_blocks(r, s, n - CM_TYPED_BLOCK, 1);
    }
}

static void run_piece(runner *r, const piece *p)
{
    const job *j = r->j;
    const cm_tile_view *out = &j->view[CM_TYPED_OUT];
    int64_t n = p->rows * p->cols;
    char *direct = run_of(out, p);
    for (int i = 0; i < j->code.n_in; i++)
        r->at[i] = fetch(r, i, p);
    r->at[CM_TYPED_OUT] = direct ? direct : r->room[CM_TYPED_OUT];
    for (int s = 0; s < j->code.n_steps; s++)
        run_step(r, &j->code.step[s], n);
    for (int64_t k = 0; !direct && k < p->rows; k++)
        copy_elements(cm_tile_address(out, p->row + k, p->col), out->col_strides[0],
                      r->room[CM_TYPED_OUT] + (size_t)(k * p->cols) * j->code.size[CM_TYPED_OUT], 1,
                      p->cols, j->code.size[CM_TYPED_OUT]);
}

/* Short rows are taken some at a time, long ones piece by piece. */
static int64_t rows_at_a_time(const job *j)
{
    return j->cols < j->tile_elems ? j->tile_elems / j->cols : 1;
}

static void run_units(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    runner r;
    r.j = j;
    for (int k = 0; k < CM_TYPED_PLACES; k++)
        r.at[k] = r.room[k];
    for (int i = 0; i < j->code.n_in; i++)
        r.holds[i].from = NULL;
    for (int k = 0; k < j->code.n_numbers; k++)
        copy_elements(r.room[CM_TYPED_NUMBERS + k], 1, (const char *)&j->code.number[k], 0,
                      j->tile_elems, j->code.size[CM_TYPED_NUMBERS + k]);
    int64_t some = rows_at_a_time(j), per_row = cm_ceil_div(j->cols, j->tile_elems);
    for (int64_t u = begin; u < end; u++) {
        int64_t row = u / per_row * some, col = u % per_row * j->tile_elems;
        piece p = {row, col, cm_min_i64(some, j->rows - row),
                   cm_min_i64(j->tile_elems, j->cols - col)};
        run_piece(&r, &p);
    }
}

cm_status cm_cpu_pointwise_typed_run(const cm_run *r)
{
    const cm_problem *p = r->p;
    job j = {0};
    if (!cm_typed_compile(&j.code, p) || !place_all(&j, p, (const void *const *)r->in, r->out[0]) ||
        j.rows * j.cols == 0)
        return CM_OK;
    j.typed = cm_typed_kernels_at(p->target.level);
    j.tile = cm_tile_kernels_at(p->target.level);
    int64_t units = cm_ceil_div(j.rows, rows_at_a_time(&j)) * cm_ceil_div(j.cols, j.tile_elems);
    int64_t grain = (int64_t)(THREAD_NS * (double)units / (total_ns(p, &j) + 1)) + 1;
    cm_parallel(r->threads, units, grain, run_units, &j);
    return CM_OK;
}
