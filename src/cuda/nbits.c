/* nbits.c -- NBITS: weights are read as they are stored, each once for up to eight rows.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/nest.h"
#include "cuda/tactics.h"

#include <stdio.h>

#include "base/size.h"

enum { COLUMNS = 8, MOST_ROWS = 8 }; /* of a block: a warp a column */
enum { A, B, SCALES, ZEROS, GROUPS, BIAS };

typedef struct {
    const cm_kernel *kernel;
    cm_grid grid;
} state;

static const char *reject(const cm_problem *p)
{
    for (int i = 0; i < p->n_in; i++)
        if (p->in[i] && !cm_tensor_is_dense(p->in[i]))
            return "an input is strided";
    if (!cm_tensor_is_dense(p->out[0]))
        return "the output is strided";
    return p->epilogue ? "nothing may follow in the same kernel" : NULL;
}

static int rows_of(const cm_nbits *s)
{
    return s->m > 4 ? MOST_ROWS : s->m > 2 ? 4 : s->m > 1 ? 2 : 1;
}

/* Weights for every few rows, most of them from the second cache. */
static double cost(const cm_problem *p, const cm_knobs *k)
{
    enum { FROM_CACHE = 4 };
    const cm_nbits *s = &p->as.nbits;
    double weights = (double)s->n * (double)s->k * s->bits / 8;
    double again = (double)(cm_ceil_div(s->m, rows_of(s)) - 1) / FROM_CACHE;
    (void)k;
    return cm_gpu_stream_ns(&p->target, weights * (1 + again));
}

static cm_status ready(cm_ctx *cx, cm_device *d, cm_arena *arena, const cm_problem *p,
                       const cm_knobs *k, const void **out)
{
    enum { MOST_BLOCKS = 4096 };
    const cm_nbits *s = &p->as.nbits;
    char defines[300];
    state *st;
    (void)k;
    CM_NEW(cx, arena, st, state);
    *out = st;
    if (s->m == 0)
        return CM_OK; /* no kernel, nothing to launch */
    int rows = rows_of(s);
    st->grid = (cm_grid){.blocks = {(unsigned)cm_ceil_div(s->n, COLUMNS),
                                    (unsigned)cm_min_i64(cm_ceil_div(s->m, rows), MOST_BLOCKS)},
                         .threads = {32 * COLUMNS}};
    bool eight = s->bits == 4 && s->block % 8 == 0 && s->k % 8 == 0 && !cm_problem_has(p, GROUPS);
    cm_dtype zero = cm_problem_has(p, ZEROS) ? p->in[ZEROS]->dtype : CM_U8;
    snprintf(defines, sizeof defines,
             "#define X %s\n#define ZERO %s\n#define PACKED_ZEROS %d\n#define BITS %d\n"
             "#define ROWS %d\n#define EIGHT %d\n#define GROUPED %d\n",
             cm_gpu_element(p->in[A]->dtype), cm_gpu_element(zero), s->packed_zeros, s->bits, rows,
             eight, cm_problem_has(p, GROUPS));
    cm_kernel_text t = {.file = "nbits", .defines = defines, .entry = "nbits"};
    return cm_gpu_kernel(cx, d, &t, 0, &st->kernel);
}

static const void *input(const cm_run *r, int i)
{
    return cm_problem_has(r->p, i) ? r->in[i] : NULL;
}

static cm_status run(const cm_run *r)
{
    const state *st = r->state;
    const cm_nbits *s = &r->p->as.nbits;
    struct {
        const void *x, *codes, *scales, *zeros, *groups, *bias;
        void *y;
        uint64_t m, n, k, block, blocks;
        uint32_t *fault;
        uint64_t fault_code;
    } a = {r->in[A],         r->in[B],       r->in[SCALES],      input(r, ZEROS),
           input(r, GROUPS), input(r, BIAS), r->out[0],          (uint64_t)s->m,
           (uint64_t)s->n,   (uint64_t)s->k, (uint64_t)s->block, (uint64_t)s->blocks,
           r->fault,         r->fault_code};
    return st->kernel ? cm_gpu_launch(r, st->kernel, &st->grid, (void *[]){&a}) : CM_OK;
}

const cm_tactic cm_cuda_nbits_tactics[] = {
    {.name = "nbits", .level = 750, .reject = reject, .cost = cost, .ready = ready, .run = run},
};
const int cm_cuda_nbits_count = CM_COUNT(cm_cuda_nbits_tactics);
