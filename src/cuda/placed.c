/* placed.c -- PLACED: one-hot, triangles, reversed sequences, caches, tensors out of nothing: each element by a rule of its place.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/nest.h"
#include "cuda/tactics.h"

#include <stdio.h>

#include "base/size.h"

enum { LARGEST = 16 };

typedef struct {
    const cm_kernel *kernel;
    cm_grid grid;
    int64_t word; /* bytes that are moved at once */
} state;

/* The input that has indices, -1: none. */
static int index_input(const cm_problem *p)
{
    switch (p->as.placed.kind) {
    case CM_PLACED_ONE_HOT:
        return 0;
    case CM_PLACED_REVERSED:
        return 1;
    case CM_PLACED_CACHE:
        return p->n_in > 2 && p->in[2] ? 2 : -1;
    default:
        return -1;
    }
}

/* Out of nothing: no input is read. */
static bool is_made(const cm_problem *p)
{
    return p->as.placed.kind >= CM_PLACED_FILL;
}

static const char *reject(const cm_problem *p)
{
    int index = index_input(p);
    cm_dtype t = p->out[0]->dtype;
    if (t == CM_STR || cm_dtype_is_sub_byte(t))
        return "elements are not plain memory";
    if (index >= 0 && (!cm_gpu_element(p->in[index]->dtype) || p->in[index]->dtype == CM_BOOL))
        return "the type of the indices";
    if (p->as.placed.kind == CM_PLACED_RANGE && !cm_gpu_element(t))
        return "the element type";
    for (int i = 0; !is_made(p) && i < p->n_in; i++)
        if (p->in[i] && !cm_tensor_is_dense(p->in[i]))
            return "an input is strided";
    return cm_tensor_is_dense(p->out[0]) ? NULL : "the output is strided";
}

static double cost(const cm_problem *p, const cm_knobs *k)
{
    double bytes = (double)cm_tensor_elems(p->out[0]) * (double)cm_dtype_size(p->out[0]->dtype);
    (void)k;
    return cm_gpu_stream_ns(&p->target, p->as.placed.kind == CM_PLACED_ONE_HOT ? bytes : 2 * bytes);
}

/* Rows that move as a whole are moved by wider words. */
static int64_t word_of(const cm_problem *p)
{
    const cm_placed *r = &p->as.placed;
    int64_t word = (int64_t)cm_dtype_size(p->out[0]->dtype);
    int64_t row = (r->kind == CM_PLACED_REVERSED ? r->per_batch : r->inner) * word;
    bool whole = r->kind == CM_PLACED_REVERSED || r->kind == CM_PLACED_CACHE;
    while (whole && word < LARGEST && row % (2 * word) == 0)
        word *= 2;
    return word;
}

static cm_status ready(cm_ctx *cx, cm_device *d, cm_arena *arena, const cm_problem *p,
                       const cm_knobs *k, const void **out)
{
    char defines[256];
    int index = index_input(p);
    cm_dtype t = index >= 0 ? p->in[index]->dtype : CM_I64;
    bool range = p->as.placed.kind == CM_PLACED_RANGE;
    state *s = cm_new(arena, state);
    (void)k;
    if (!s)
        return cm_fail_memory(cx);
    *out = s;
    s->word = word_of(p);
    int64_t all = cm_tensor_elems(p->out[0]) * (int64_t)cm_dtype_size(p->out[0]->dtype) / s->word;
    if (all == 0)
        return CM_OK; /* no kernel, nothing to launch */
    s->grid = (cm_grid){.blocks = {cm_gpu_blocks(&p->target, all)}, .threads = {CM_GPU_THREADS}};
    snprintf(defines, sizeof defines,
             "#define ELEMENT %s\n#define WIDE %d\n#define RULE %d\n#define INDEX %s\n"
             "#define REAL %d\n",
             range ? cm_gpu_element(p->out[0]->dtype) : cm_gpu_word((size_t)s->word),
             cm_gpu_is_wide(all), (int)p->as.placed.kind, cm_gpu_element(t),
             cm_gpu_is_float(range ? p->out[0]->dtype : t));
    cm_kernel_text text = {.file = "placed", .defines = defines, .entry = "placed"};
    return cm_gpu_kernel(cx, d, &text, 0, &s->kernel);
}

static cm_status run(const cm_run *r)
{
    const state *s = r->state;
    const cm_placed *q = &r->p->as.placed;
    int index = index_input(r->p);
    int64_t shrink = s->word / (int64_t)cm_dtype_size(r->p->out[0]->dtype);
    if (!s->kernel)
        return CM_OK;
    struct {
        const void *x, *more, *indices;
        void *y;
        uint32_t *fault;
        uint32_t fault_code, circular;
        uint64_t all;
        cm_gpu_axis outer, n, inner, rows, per_batch;
        int64_t diagonal, upper, inside, update;
        uint64_t value;
        double start, step;
        int64_t first, by;
    } a = {.x = is_made(r->p) ? NULL : r->in[0],
           .indices = index >= 0 ? r->in[index] : NULL,
           .y = r->out[0],
           .fault = r->fault,
           .fault_code = r->fault_code,
           .circular = q->circular,
           .all = (uint64_t)(q->outer * q->n * q->inner / shrink),
           .outer = cm_gpu_axis_of(q->outer),
           .n = cm_gpu_axis_of(q->n),
           .inner = cm_gpu_axis_of(q->inner / shrink),
           .rows = cm_gpu_axis_of(q->rows),
           .per_batch =
               cm_gpu_axis_of(q->kind == CM_PLACED_REVERSED ? q->per_batch / shrink : q->per_batch),
           .diagonal = q->diagonal,
           .upper = q->upper,
           .inside = q->batch_inside,
           .update = q->update,
           .value = q->value,
           .start = q->start,
           .step = q->step,
           .first = q->first,
           .by = q->by};
    if (q->kind == CM_PLACED_ONE_HOT || q->kind == CM_PLACED_CACHE)
        a.more = r->in[q->kind == CM_PLACED_ONE_HOT ? 2 : 1];
    return cm_gpu_launch(r, s->kernel, &s->grid, (void *[]){&a});
}

const cm_tactic cm_cuda_placed_tactics[] = {
    {.name = "cuda_placed",
     .level = 750,
     .reject = reject,
     .cost = cost,
     .ready = ready,
     .run = run},
};
const int cm_cuda_placed_count = CM_COUNT(cm_cuda_placed_tactics);
