/* sort_whole.c -- TopK of what sort.c leaves: elements of 64 bits, and more of long rows than fit in shared memory. Whole rows
 * are sorted in the workspace.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>

#include "base/size.h"
#include "cuda/nest.h"
#include "cuda/sort.h"

enum { BLOCK = 1024, MOST_ROW = 1 << 26 };

typedef struct {
    const cm_kernel *kernel;
    cm_grid grid;
} state;

const char *cm_cuda_sort_whole_reject(const cm_problem *p)
{
    const char *why = cm_gpu_top_k_reject(p);
    return why ? why : p->as.sort.n > MOST_ROW ? "rows are too long" : NULL;
}

/* A power of two, the row and more. */
static int64_t room_of(const cm_problem *p)
{
    int64_t n = 2;
    while (n < p->as.sort.n)
        n *= 2;
    return n;
}

static int64_t blocks_of(const cm_problem *p)
{
    cm_gpu_facts f;
    cm_gpu_facts_of(&p->target, &f);
    int64_t rows = p->as.sort.outer * p->as.sort.inner;
    return rows < 1 ? 1 : cm_min_i64(rows, f.multiprocessors);
}

double cm_cuda_sort_whole_cost(const cm_problem *p, const cm_knobs *k)
{
    enum { STEP_NS = 150 };
    (void)k;
    double n = (double)room_of(p), rounds = log2(n) * (log2(n) + 1) / 2;
    double rows = ceil((double)(p->as.sort.outer * p->as.sort.inner) / (double)blocks_of(p));
    return cm_gpu_stream_ns(&p->target, 0) + rows * rounds * STEP_NS * ceil(n / 2 / BLOCK);
}

size_t cm_cuda_sort_whole_workspace(const cm_problem *p, const cm_knobs *k)
{
    (void)k;
    return (size_t)(blocks_of(p) * room_of(p)) * (sizeof(uint64_t) + sizeof(uint32_t));
}

cm_status cm_cuda_sort_whole_ready(cm_ctx *cx, cm_device *d, cm_arena *arena, const cm_problem *p,
                                   const cm_knobs *k, const void **out)
{
    const cm_sort *s = &p->as.sort;
    cm_dtype t = p->in[0]->dtype;
    char defines[256];
    state *st;
    (void)k;
    CM_NEW(cx, arena, st, state);
    *out = st;
    if (s->outer * s->inner == 0 || s->n == 0 || s->k == 0)
        return CM_OK; /* no kernel, nothing to launch */
    int threads = s->n > 2 * CM_GPU_THREADS ? BLOCK : CM_GPU_THREADS;
    snprintf(defines, sizeof defines,
             "#define ELEMENT %s\n#define LARGEST %d\n#define FLOATS %d\n#define UNSIGNED %d\n"
             "#define THREADS %d\n",
             cm_gpu_element(t), s->largest, cm_gpu_is_float(t), !cm_dtype_is_signed(t), threads);
    st->grid = (cm_grid){.blocks = {(unsigned)blocks_of(p)}, .threads = {(unsigned)threads}};
    return cm_gpu_kernel(cx, d, &(cm_kernel_text){"sort_whole", defines, "top_k_whole"}, 0,
                         &st->kernel);
}

cm_status cm_cuda_sort_whole_run(const cm_run *r)
{
    const state *st = r->state;
    const cm_problem *p = r->p;
    const cm_sort *s = &p->as.sort;
    uint64_t *keys = r->workspace;
    struct {
        const void *x;
        void *y, *indices;
        int64_t outer, n, inner, k;
        uint64_t *keys;
        uint32_t *places;
        uint64_t size;
    } a = {r->in[0],
           p->out[0] ? r->out[0] : NULL,
           p->n_out > 1 && p->out[1] ? r->out[1] : NULL,
           s->outer,
           s->n,
           s->inner,
           s->k,
           keys,
           (uint32_t *)(keys + blocks_of(p) * room_of(p)),
           (uint64_t)room_of(p)};
    return st->kernel ? cm_gpu_launch(r, st->kernel, &st->grid, (void *[]){&a}) : CM_OK;
}
