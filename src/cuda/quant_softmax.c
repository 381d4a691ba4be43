/* quant_softmax.c -- QLinearSoftmax: rows of bytes.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/quant_softmax.h"

#include <stdio.h>

#include "base/size.h"
#include "cuda/nest.h"

typedef struct {
    const cm_kernel *kernel;
    cm_grid grid;
} state;

const char *cm_cuda_quant_softmax_reject(const cm_problem *p)
{
    const cm_quantise *q = &p->as.quantise;
    if (q->kind != CM_QUANTISE_SOFTMAX)
        return "not a softmax";
    if (!q->adjacent)
        return "elements of a row are not side by side, or the layout changes";
    if (cm_gpu_is_wide(q->extent))
        return "rows of more than 2^31 elements";
    return NULL;
}

double cm_cuda_quant_softmax_cost(const cm_problem *p, const cm_knobs *k)
{
    enum { SLOW = 2 }; /* a power, and what surrounds it, take longer than a byte's way */
    (void)k;
    return SLOW * cm_gpu_stream_ns(&p->target, 2.0 * (double)cm_tensor_elems(p->in[0]));
}

/* Elements that a thread takes at once. */
static int run_of(int64_t n)
{
    return n % 16 == 0 ? 16 : n % 4 == 0 ? 4 : 1;
}

/* Threads that share a row: a warp, fewer where there are not so many runs, a block where rows are long, or few. */
static int team_of(const cm_problem *p)
{
    enum { WARP = 32, LONG = 4 * CM_GPU_THREADS };
    const cm_quantise *q = &p->as.quantise;
    int64_t runs = q->extent / run_of(q->extent);
    bool few = cm_gpu_blocks(&p->target, q->outer * CM_GPU_THREADS) == q->outer;
    if (runs >= LONG || (runs >= CM_GPU_THREADS && few))
        return CM_GPU_THREADS;
    int team = 1;
    while (team < WARP && team < runs)
        team *= 2;
    return team;
}

cm_status cm_cuda_quant_softmax_ready(cm_ctx *cx, cm_device *d, cm_arena *arena,
                                      const cm_problem *p, const cm_knobs *k, const void **out)
{
    enum { OWN_TABLE = 512 }; /* elements for which a table of 256 pays */
    const cm_quantise *q = &p->as.quantise;
    char defines[128];
    state *s;
    (void)k;
    CM_NEW(cx, arena, s, state);
    *out = s;
    if (q->outer == 0)
        return CM_OK; /* no kernel, nothing to launch */
    int team = team_of(p);
    s->grid = (cm_grid){.blocks = {cm_gpu_blocks(&p->target, q->outer * team)},
                        .threads = {CM_GPU_THREADS}};
    snprintf(defines, sizeof defines,
             "#define BYTE %s\n#define TEAM %d\n#define RUN %d\n#define TABLE %d\n",
             p->in[0]->dtype == CM_I8 ? "i8" : "u8", team, run_of(q->extent),
             team >= 32 && q->extent >= OWN_TABLE);
    const cm_kernel_text t = {
        .file = "quant_softmax", .defines = defines, .entry = "quantise_softmax"};
    return cm_gpu_kernel(cx, d, &t, 0, &s->kernel);
}

cm_status cm_cuda_quant_softmax_run(const cm_run *r)
{
    const state *s = r->state;
    const cm_quantise *q = &r->p->as.quantise;
    struct {
        const void *x;
        void *y;
        const void *scale, *y_scale, *zero, *y_zero;
        uint64_t rows;
        uint32_t n;
    } a = {r->in[0],
           r->out[0],
           r->in[q->scale],
           r->in[q->y_scale],
           q->zero >= 0 ? r->in[q->zero] : NULL,
           q->y_zero >= 0 ? r->in[q->y_zero] : NULL,
           (uint64_t)q->outer,
           (uint32_t)q->extent};
    return s->kernel ? cm_gpu_launch(r, s->kernel, &s->grid, (void *[]){&a}) : CM_OK;
}
