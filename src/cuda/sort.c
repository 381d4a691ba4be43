/* sort.c -- SORT: the first of rows; a few of long rows are top.c's, running sums running.c's.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The first of a row: keys of a number and its index are sorted in shared memory; of a longer row, those up to the k-th
 * one, which is found digit by digit. */
#include "cuda/sort.h"

#include "cuda/nest.h"
#include "cuda/tactics.h"

#include <stdio.h>

#include "base/size.h"

enum { SORTED = 4096, LONG_ROW = 1024, BLOCK = 1024 };

typedef struct {
    const cm_kernel *kernel;
    cm_grid grid;
} state;

const char *cm_gpu_top_k_reject(const cm_problem *p)
{
    cm_dtype t = p->in[0]->dtype;
    if (p->as.sort.kind != CM_SORT_TOP_K)
        return "not the first of rows";
    if (!cm_gpu_element(t) || t == CM_BOOL)
        return "the element type";
    if (!cm_tensor_is_dense(p->in[0]))
        return "the input is strided";
    for (int o = 0; o < p->n_out; o++)
        if (p->out[o] && !cm_tensor_is_dense(p->out[o]))
            return "an output is strided";
    return NULL;
}

static const char *reject(const cm_problem *p)
{
    const cm_sort *s = &p->as.sort;
    const char *why = cm_gpu_top_k_reject(p);
    if (why)
        return why;
    if (cm_dtype_size(p->in[0]->dtype) == 8)
        return "elements of 64 bits leave no room for an index";
    if (s->n > INT32_MAX)
        return "rows are too long";
    return s->n > SORTED && s->k > SORTED ? "too many are wanted" : NULL;
}

static double cost(const cm_problem *p, const cm_knobs *k)
{
    enum { PASSES = 10, ROW_NS = 4000, STEP_NS = 60 };
    const cm_sort *s = &p->as.sort;
    cm_gpu_facts f;
    (void)k;
    cm_gpu_facts_of(&p->target, &f);
    double rows = (double)(s->outer * s->inner), size = (double)cm_dtype_size(p->in[0]->dtype);
    double bytes = 2 * rows * (double)s->n * size;
    double rounds = rows / f.multiprocessors + 1;
    double each = ROW_NS + PASSES * STEP_NS * (double)s->n / BLOCK;
    return cm_gpu_stream_ns(&p->target, bytes) + rounds * each;
}

static cm_status ready(cm_ctx *cx, cm_device *d, cm_arena *arena, const cm_problem *p,
                       const cm_knobs *k, const void **out)
{
    const cm_sort *s = &p->as.sort;
    cm_dtype t = p->in[0]->dtype;
    char defines[256];
    int64_t rows = s->outer * s->inner;
    int threads = s->n > LONG_ROW ? BLOCK : CM_GPU_THREADS;
    state *st = cm_new(arena, state);
    (void)k;
    if (!st)
        return cm_fail_memory(cx);
    *out = st;
    if (rows == 0 || s->k == 0)
        return CM_OK; /* no kernel, nothing to launch */
    cm_kernel_text text = {.file = "sort", .defines = defines, .entry = "top_k"};
    snprintf(defines, sizeof defines,
             "#define ELEMENT %s\n#define LARGEST %d\n#define FLOATS %d\n#define UNSIGNED %d\n"
             "#define THREADS %d\n",
             cm_gpu_element(t), s->largest, cm_gpu_is_float(t), !cm_dtype_is_signed(t), threads);
    int64_t most = cm_gpu_blocks(&p->target, INT64_MAX / 2);
    st->grid =
        (cm_grid){.blocks = {(unsigned)cm_min_i64(rows, most)}, .threads = {(unsigned)threads}};
    return cm_gpu_kernel(cx, d, &text, 0, &st->kernel);
}

static cm_status run(const cm_run *r)
{
    const state *st = r->state;
    const cm_problem *p = r->p;
    const cm_sort *s = &p->as.sort;
    struct {
        const void *x;
        void *y, *indices;
        int64_t outer, n, inner, k;
    } a = {r->in[0],
           p->out[0] ? r->out[0] : NULL,
           p->n_out > 1 && p->out[1] ? r->out[1] : NULL,
           s->outer,
           s->n,
           s->inner,
           s->k};
    return st->kernel ? cm_gpu_launch(r, st->kernel, &st->grid, (void *[]){&a}) : CM_OK;
}

const cm_tactic cm_cuda_sort_tactics[] = {
    {.name = "cuda_sort", .level = 750, .reject = reject, .cost = cost, .ready = ready, .run = run},
    {.name = "sort_whole",
     .level = 750,
     .reject = cm_cuda_sort_whole_reject,
     .cost = cm_cuda_sort_whole_cost,
     .workspace = cm_cuda_sort_whole_workspace,
     .ready = cm_cuda_sort_whole_ready,
     .run = cm_cuda_sort_whole_run},
    {.name = "cuda_top",
     .level = 750,
     .reject = cm_cuda_top_reject,
     .knobs = cm_cuda_top_knobs,
     .cost = cm_cuda_top_cost,
     .workspace = cm_cuda_top_workspace,
     .ready = cm_cuda_top_ready,
     .run = cm_cuda_top_run},
    {.name = "cuda_running",
     .level = 750,
     .reject = cm_cuda_running_reject,
     .knobs = cm_cuda_running_knobs,
     .cost = cm_cuda_running_cost,
     .workspace = cm_cuda_running_workspace,
     .ready = cm_cuda_running_ready,
     .run = cm_cuda_running_run},
};
const int cm_cuda_sort_count = CM_COUNT(cm_cuda_sort_tactics);
