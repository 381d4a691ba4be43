/* running.c -- running sums and products: rows, or rows side by side, in chunks that a block holds.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Sums of floats are kept in double, those of 16 bits and fewer in float. The blocks of a row's chunks meet in the workspace. */
#include <stdio.h>

#include "base/size.h"
#include "cuda/nest.h"
#include "cuda/sort.h"

/* As in kernels/running.cu. */
enum {
    LONG_BYTES = 8192, /* rows from which on a block has one */
    WARPS = 8,
    LINE = 32,
    CHUNK_BYTES = 16 * 4 * LINE, /* of a warp */
    SUM_BYTES = 16,              /* of a chunk, and whether it is known */
    COLUMN_BYTES = 128,          /* of a thread */
    SIDE_BYTES = 8,              /* the most of them side by side */
};

typedef struct {
    bool columns;
    int warps, side;      /* side: bytes of columns side by side that a thread has */
    int64_t depth;        /* elements of a row that a block holds */
    int64_t units, parts; /* blocks for chunks of all rows, and chunks of a row */
    int64_t sums;         /* places for them */
} form;

static void form_of(const cm_problem *p, const cm_knobs *k, form *f)
{
    const cm_sort *s = &p->as.sort;
    int64_t size = (int64_t)cm_dtype_size(p->in[0]->dtype), rows = s->outer * s->inner;
    *f = (form){.columns = s->inner > 1, .warps = WARPS, .parts = 1};
    if (f->columns) {
        f->side = k->v[0];
        f->depth = WARPS * (COLUMN_BYTES / f->side);
        f->units = cm_ceil_div(rows, LINE);
    } else {
        f->warps = s->n * size <= LONG_BYTES            ? 1
                   : s->n * size <= CHUNK_BYTES * WARPS ? WARPS
                                                        : 2 * WARPS;
        f->depth = CHUNK_BYTES * f->warps / size;
        f->units = f->warps == 1 ? cm_ceil_div(rows, WARPS) : rows;
    }
    if (f->warps > 1)
        f->parts = cm_max_i64(1, cm_ceil_div(s->n, f->depth));
    f->sums = f->parts * (f->columns ? (f->units + f->side / size) * LINE : f->units);
}

const char *cm_cuda_running_reject(const cm_problem *p)
{
    form f;
    const cm_sort *s = &p->as.sort;
    cm_dtype t = p->in[0]->dtype;
    if (s->kind != CM_SORT_CUM_SUM)
        return "not running sums";
    if (!cm_gpu_element(t) || t == CM_BOOL || (cm_dtype_size(t) < 4 && !cm_gpu_is_float(t)))
        return "the element type";
    if (!cm_tensor_is_dense(p->in[0]) || !cm_tensor_is_dense(p->out[0]))
        return "input or output is strided";
    const cm_knobs widest = {{SIDE_BYTES}}; /* it has the most chunks */
    form_of(p, &widest, &f);
    return f.parts * f.units > INT32_MAX ? "too many chunks" : NULL;
}

/* Knob 0: bytes of columns that a thread has side by side; 1: does the next chunk set out towards the cache early? */
int cm_cuda_running_knobs(const cm_problem *p, cm_knobs *out)
{
    bool halves = cm_dtype_size(p->in[0]->dtype) < 4;
    form f;
    int n = 0;
    for (int early = 0; early < 2; early++) {
        cm_knobs k = {{halves ? SIDE_BYTES / 2 : SIDE_BYTES, early}};
        form_of(p, &k, &f);
        if (!early || f.parts > 1)
            out[n++] = k;
    }
    return n;
}

double cm_cuda_running_cost(const cm_problem *p, const cm_knobs *k)
{
    form f;
    cm_gpu_facts facts;
    form_of(p, k, &f);
    cm_gpu_facts_of(&p->target, &facts);
    double bytes = 2 * (double)cm_tensor_elems(p->in[0]) * (double)cm_dtype_size(p->in[0]->dtype);
    double times = f.parts == 1 ? 1 : !f.columns ? (k->v[1] ? 1.45 : 1.7) : k->v[1] ? 1.13 : 1.16;
    return cm_gpu_stream_ns(&p->target, bytes) * times + (f.parts > 1 ? 2 * facts.launch_ns : 0);
}

/* The number of chunks that have begun, and behind it their sums: all zero before a run. */
size_t cm_cuda_running_workspace(const cm_problem *p, const cm_knobs *k)
{
    form f;
    form_of(p, k, &f);
    return f.parts > 1 ? (size_t)(1 + f.sums) * SUM_BYTES : 0;
}

typedef struct {
    const cm_kernel *kernel;
    cm_grid grid;
    int64_t parts;
    size_t bytes; /* of the workspace */
} state;

/* Products of halves may leave float's range on their way. */
static const char *sum_of(cm_dtype t, bool product)
{
    if (!cm_gpu_is_float(t))
        return "u64";
    return product || t == CM_F32 || t == CM_F64 ? "double" : "float";
}

cm_status cm_cuda_running_ready(cm_ctx *cx, cm_device *d, cm_arena *arena, const cm_problem *p,
                                const cm_knobs *k, const void **out)
{
    const cm_sort *s = &p->as.sort;
    cm_dtype t = p->in[0]->dtype;
    form f;
    char defines[256];
    state *st = cm_new(arena, state);
    if (!st)
        return cm_fail_memory(cx);
    *out = st;
    if (cm_tensor_elems(p->in[0]) == 0)
        return CM_OK; /* no kernel, nothing to launch */
    form_of(p, k, &f);
    st->parts = f.parts;
    st->bytes = cm_cuda_running_workspace(p, k);
    snprintf(defines, sizeof defines,
             "#define ELEMENT %s\n#define SUM %s\n#define WARPS %d\n#define EXCLUSIVE %d\n"
             "#define REVERSE %d\n#define PARTS %d\n#define PRODUCT %d\n"
             "#define SIDE_BYTES %d\n#define EARLY %d\n",
             cm_gpu_element(t), sum_of(t, s->product), f.warps, s->exclusive, s->reverse,
             f.parts > 1, s->product, f.columns ? f.side : SIDE_BYTES, k->v[1]);
    int64_t most = cm_gpu_blocks(&p->target, INT64_MAX / 2);
    st->grid = (cm_grid){.blocks = {(unsigned)cm_min_i64(f.units * f.parts, most)},
                         .threads = {(unsigned)(LINE * (f.warps > WARPS ? f.warps : WARPS))}};
    cm_kernel_text text = {.file = "running",
                           .defines = defines,
                           .entry = f.columns ? "running_columns" : "running_rows"};
    return cm_gpu_kernel(cx, d, &text, 0, &st->kernel);
}

cm_status cm_cuda_running_run(const cm_run *r)
{
    const state *st = r->state;
    const cm_sort *s = &r->p->as.sort;
    struct {
        const void *x;
        void *y;
        int64_t outer, n, inner, parts;
        void *taken, *sums;
    } a = {r->in[0], r->out[0], s->outer,     s->n,
           s->inner, st->parts, r->workspace, (char *)r->workspace + SUM_BYTES};
    if (!st->kernel)
        return CM_OK;
    if (st->parts > 1)
        CM_TRY(cm_gpu_fill(r, r->workspace, 0, st->bytes));
    return cm_gpu_launch(r, st->kernel, &st->grid, (void *[]){&a});
}
