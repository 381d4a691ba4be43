/* gather.c -- GATHER: rows, elements and tuples, in any layout.
 * SPDX-License-Identifier: Apache-2.0
 *
 * All three are one nest of loops over the output: strides of the data and of the indices along each of its axes, and
 * what each number of an index tuple multiplies. */
#include "cuda/nest.h"
#include "cuda/tactics.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"

enum {
    LARGEST = 16,
    HELD_BYTES = 64 << 10, /* of a row of the data that elements are picked from */
    MANY = 8,              /* one in so many of a row's elements is picked, at least */
    NARROW = 4,            /* bytes of words that are too narrow to move rows by, */
    SHIFTED = 128, /* of so many bytes on: they are moved by whole words wherever they begin */
};

/* Steps of data and output count bytes, those of the indices elements. */
typedef struct {
    int rank, depth;
    int64_t dims[CM_MAX_RANK], data[CM_MAX_RANK], index[CM_MAX_RANK], to[CM_MAX_RANK];
    int64_t pick_size[CM_MAX_RANK], pick_step[CM_MAX_RANK], pick_at[CM_MAX_RANK];
    int64_t size, word, units;
    int64_t shifted; /* bytes of rows that begin anywhere; 0: they do not */
    bool rows;       /* of the data are held in shared memory */
} form;

typedef struct {
    const cm_kernel *kernel;
    cm_grid grid;
    size_t words;
    uint64_t *arguments;
} state;

static const char *reject(const cm_problem *p)
{
    const cm_tensor *x = p->in[p->as.gather.data], *index = p->in[p->as.gather.indices];
    if (x->dtype == CM_STR || cm_dtype_is_sub_byte(x->dtype))
        return "elements are not plain memory";
    if (index->dtype != CM_I32 && index->dtype != CM_I64)
        return "indices are neither i32 nor i64";
    return p->as.gather.kind == CM_GATHER_TUPLES && p->as.gather.depth < 1 ? "tuples of nothing"
                                                                           : NULL;
}

/* One more axis, in the order of the output's strides. */
static void add_axis(form *f, int64_t dim, int64_t data, int64_t index, int64_t to)
{
    if (dim == 1)
        return;
    int at = f->rank++;
    for (; at > 0 && llabs(f->to[at - 1]) < llabs(to); at--) {
        f->dims[at] = f->dims[at - 1];
        f->data[at] = f->data[at - 1];
        f->index[at] = f->index[at - 1];
        f->to[at] = f->to[at - 1];
    }
    f->dims[at] = dim;
    f->data[at] = data;
    f->index[at] = index;
    f->to[at] = to;
}

static void add_pick(form *f, const cm_tensor *x, int axis, int64_t at)
{
    f->pick_size[f->depth] = x->dims[axis];
    f->pick_step[f->depth] = x->strides[axis] * f->size;
    f->pick_at[f->depth++] = at;
}

/* The axes of the output: which of the data's and of the indices' each one is, -1: none. */
static void walk_output(form *f, const cm_problem *p)
{
    const cm_gather *g = &p->as.gather;
    const cm_tensor *x = p->in[g->data], *index = p->in[g->indices], *y = p->out[0];
    int n_index = g->kind == CM_GATHER_TUPLES ? index->rank - 1 : index->rank;
    for (int a = 0; a < y->rank; a++) {
        int data, at;
        if (g->kind == CM_GATHER_ROWS) {
            bool before = a < g->axis_index, inside = !before && a < g->axis_index + n_index;
            data = before ? a : inside ? -1 : a - n_index + 1;
            at = inside ? a - g->axis_index : -1;
        } else if (g->kind == CM_GATHER_ELEMENTS) {
            data = a == g->axis_index ? -1 : a;
            at = a;
        } else {
            bool tail = a >= n_index;
            data = tail ? g->batch_axes + g->depth + a - n_index : a < g->batch_axes ? a : -1;
            at = tail ? -1 : a;
        }
        add_axis(f, y->dims[a], data < 0 ? 0 : x->strides[data] * f->size,
                 at < 0 ? 0 : index->strides[at], y->strides[a] * f->size);
    }
}

/* Neighbouring axes that are one in all three. */
static void merge(form *f)
{
    for (int a = f->rank - 2; a >= 0; a--) {
        int64_t n = f->dims[a + 1];
        if (f->to[a] != f->to[a + 1] * n || f->data[a] != f->data[a + 1] * n ||
            f->index[a] != f->index[a + 1] * n)
            continue;
        f->dims[a + 1] *= f->dims[a];
        f->rank--;
        for (int i = a; i < f->rank; i++) {
            f->dims[i] = f->dims[i + 1];
            f->data[i] = f->data[i + 1];
            f->index[i] = f->index[i + 1];
            f->to[i] = f->to[i + 1];
        }
    }
    if (f->rank == 0) {
        f->rank = 1;
        f->dims[0] = 1;
        f->data[0] = f->index[0] = f->to[0] = 0;
    }
}

/* Rows that lie side by side on both sides are moved by words. */
static void widen(form *f)
{
    int last = f->rank - 1;
    f->word = f->size;
    if (f->to[last] != f->size || f->data[last] != f->size || f->index[last] != 0)
        return;
    int64_t all = f->dims[last] * f->size;
    for (int a = 0; a < last; a++)
        all |= f->to[a] | f->data[a];
    for (int k = 0; k < f->depth; k++)
        all |= f->pick_step[k];
    while (f->word < LARGEST && all % (2 * f->word) == 0)
        f->word *= 2;
    int64_t row = f->dims[last] * f->size;
    if (f->word <= NARROW && row >= SHIFTED && row <= INT32_MAX && f->rank > 1) {
        f->shifted = row;
        f->word = LARGEST;
        row += 2 * (LARGEST - 1); /* the words that it may lie in */
    }
    f->dims[last] = row / f->word;
    f->to[last] = f->data[last] = f->word;
}

/* Elements of a row's own, adjacent in data, indices and output. */
static bool holds_rows(const form *f, const cm_target *t)
{
    cm_gpu_facts facts;
    int last = f->rank - 1;
    cm_gpu_facts_of(t, &facts);
    return f->depth == 1 && f->rank > 1 && f->pick_step[0] == f->size && f->pick_at[0] == 0 &&
           f->data[last] == 0 && f->index[last] == 1 && f->to[last] == f->size && f->size <= 8 &&
           f->pick_size[0] * f->size <= cm_min_i64(HELD_BYTES, facts.shared_bytes) &&
           f->dims[last] >= f->pick_size[0] / MANY && f->units < INT32_MAX;
}

static void form_of(const cm_problem *p, form *f)
{
    const cm_gather *g = &p->as.gather;
    const cm_tensor *x = p->in[g->data], *index = p->in[g->indices];
    *f = (form){.size = (int64_t)cm_dtype_size(x->dtype), .units = 1};
    if (g->kind == CM_GATHER_TUPLES)
        for (int k = 0; k < g->depth; k++)
            add_pick(f, x, g->batch_axes + k, k * index->strides[index->rank - 1]);
    else
        add_pick(f, x, g->axis_index, 0);
    walk_output(f, p);
    merge(f);
    widen(f);
    for (int a = 0; a < f->rank; a++)
        f->units *= f->dims[a];
    f->rows = f->units > 0 && holds_rows(f, &p->target);
}

static double cost(const cm_problem *p, const cm_knobs *k)
{
    enum { SECTOR = 32 };
    form f;
    (void)k;
    form_of(p, &f);
    double run = f.word > f.size ? (double)(f.dims[f.rank - 1] * f.word) : (double)f.size;
    double bytes = (double)cm_tensor_elems(p->out[0]) * (double)f.size;
    double read = run < SECTOR ? bytes * SECTOR / run / 2 : bytes;
    if (f.rows)
        read = (double)(f.units / f.dims[f.rank - 1] * f.pick_size[0] * f.size);
    return cm_gpu_stream_ns(&p->target, bytes + read);
}

static void put_arguments(uint64_t *to, const form *f)
{
    to[4] = (uint64_t)f->shifted << 32;
    to[5] = (uint64_t)f->word | (uint64_t)f->size << 32;
    to[6] = (uint64_t)f->units;
    to += 7;
    const int64_t *picks[3] = {f->pick_size, f->pick_step, f->pick_at};
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < f->depth; k++)
            *to++ = (uint64_t)picks[i][k];
    for (int a = 0; a < f->rank; a++, to += 2) {
        cm_gpu_axis axis = cm_gpu_axis_of(f->dims[a]);
        memcpy(to, &axis, sizeof axis);
    }
    const int64_t *steps[3] = {f->data, f->index, f->to};
    for (int i = 0; i < 3; i++)
        for (int a = 0; a < f->rank; a++)
            *to++ = (uint64_t)steps[i][a];
}

static cm_status ready(cm_ctx *cx, cm_device *d, cm_arena *arena, const cm_problem *p,
                       const cm_knobs *k, const void **out)
{
    form f;
    char defines[160];
    state *s = cm_new(arena, state);
    (void)k;
    if (!s)
        return cm_fail_memory(cx);
    *out = s;
    form_of(p, &f);
    if (f.units == 0)
        return CM_OK; /* no kernel, nothing to launch */
    s->words = 7 + 3 * (size_t)f.depth + 5 * (size_t)f.rank;
    CM_NEW_N(cx, arena, s->arguments, s->words, uint64_t);
    put_arguments(s->arguments, &f);
    s->grid =
        (cm_grid){.blocks = {cm_gpu_blocks(&p->target, f.units)}, .threads = {CM_GPU_THREADS}};
    bool narrow = p->in[p->as.gather.indices]->dtype == CM_I32;
    int at =
        snprintf(defines, sizeof defines,
                 "#define RANK %d\n#define DEPTH %d\n#define INDEX %s\n#define WIDE %d\n", f.rank,
                 f.depth, narrow ? "i32" : "i64", cm_gpu_is_wide(f.units * (f.word / f.size)));
    cm_kernel_text t = {.file = "gather", .defines = defines, .entry = "gather"};
    if (f.rows) {
        snprintf(defines + at, sizeof defines - (size_t)at, "#define ELEMENT %s\n",
                 cm_gpu_word((size_t)f.size));
        t.entry = "gather_rows";
        int64_t rows = f.units / f.dims[f.rank - 1];
        s->grid.blocks[0] = cm_gpu_blocks(&p->target, rows * CM_GPU_THREADS);
        s->grid.shared = (size_t)cm_ceil_div(f.pick_size[0] * f.size, LARGEST) * LARGEST;
    }
    if (f.shifted) {
        snprintf(defines + at, sizeof defines - (size_t)at, "#define SHIFTED %s\n",
                 cm_gpu_word((size_t)f.size));
        t.entry = "gather_shifted";
    }
    return cm_gpu_kernel(cx, d, &t, s->grid.shared, &s->kernel);
}

static cm_status run(const cm_run *r)
{
    const state *s = r->state;
    const cm_gather *g = &r->p->as.gather;
    uint64_t arguments[CM_GPU_ARG_BYTES / sizeof(uint64_t)];
    if (!s->kernel)
        return CM_OK;
    memcpy(arguments, s->arguments, s->words * sizeof *arguments);
    arguments[0] = (uintptr_t)r->in[g->data];
    arguments[1] = (uintptr_t)r->in[g->indices];
    arguments[2] = (uintptr_t)r->out[0];
    arguments[3] = (uintptr_t)r->fault;
    arguments[4] |= r->fault_code;
    return cm_gpu_launch(r, s->kernel, &s->grid, (void *[]){arguments});
}

const cm_tactic cm_cuda_gather_tactics[] = {
    {.name = "cuda_gather",
     .level = 750,
     .reject = reject,
     .cost = cost,
     .ready = ready,
     .run = run},
};
const int cm_cuda_gather_count = CM_COUNT(cm_cuda_gather_tactics);
