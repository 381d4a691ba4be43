/* pool_places.c -- POOL: the largest of each window, and where it was.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/pool.h"

#include <stdio.h>
#include <string.h>

#include "cuda/nest.h"

typedef struct {
    const cm_kernel *kernel;
    cm_grid grid;
} state;

const char *cm_cuda_pool_places_reject(const cm_problem *p)
{
    cm_dtype t = p->in[0]->dtype;
    if (p->as.pool.indices < 0)
        return "places are not asked for";
    if (!cm_gpu_is_float(t) && t != CM_U8 && t != CM_I8)
        return "neither floats nor bytes";
    if (p->epilogue)
        return "an epilogue";
    if (!cm_tensor_is_dense(p->in[0]) || !cm_tensor_is_dense(p->out[0]) ||
        !cm_tensor_is_dense(p->out[p->as.pool.indices]))
        return "an operand is strided";
    return NULL;
}

double cm_cuda_pool_places_cost(const cm_problem *p, const cm_knobs *k)
{
    enum { PLACE_BYTES = 8 };
    double size = (double)cm_dtype_size(p->in[0]->dtype);
    double outputs = (double)cm_tensor_elems(p->out[p->as.pool.indices]);
    (void)k;
    return cm_gpu_stream_ns(&p->target, size * (double)cm_tensor_elems(p->in[0]) +
                                            (size + PLACE_BYTES) * outputs);
}

cm_status cm_cuda_pool_places_ready(cm_ctx *cx, cm_device *d, cm_arena *arena, const cm_problem *p,
                                    const cm_knobs *k, const void **out)
{
    cm_dtype t = p->in[0]->dtype;
    char defines[160];
    state *s = cm_new(arena, state);
    (void)k;
    if (!s)
        return cm_fail_memory(cx);
    *out = s;
    bool whole = !cm_gpu_is_float(t);
    s->grid = (cm_grid){
        .blocks = {cm_gpu_blocks(&p->target, cm_tensor_elems(p->out[p->as.pool.indices]))},
        .threads = {CM_GPU_THREADS}};
    snprintf(defines, sizeof defines, "#define ELEMENT %s\n#define NUMBER %s\n#define LOWEST %s\n",
             cm_gpu_element(t),
             whole         ? "i64"
             : t == CM_F64 ? "double"
                           : "float",
             t == CM_I8   ? "-128"
             : t == CM_U8 ? "0"
                          : "-__int_as_float(0x7f800000)");
    cm_kernel_text text = {.file = "pool_places", .defines = defines, .entry = "pool_places"};
    return cm_gpu_kernel(cx, d, &text, 0, &s->kernel);
}

cm_status cm_cuda_pool_places_run(const cm_run *r)
{
    const state *s = r->state;
    const cm_pool *c = &r->p->as.pool;
    struct {
        const void *x;
        void *y, *places;
        int64_t outputs, in[3], out[3], kernel[3], stride[3], dilation[3], pad[3], weight[3];
    } a = {.x = r->in[0],
           .y = r->out[0],
           .places = r->out[c->indices],
           .outputs = cm_tensor_elems(r->p->out[c->indices])};
    memcpy(a.in, c->in, sizeof a.in);
    memcpy(a.out, c->out, sizeof a.out);
    memcpy(a.kernel, c->kernel, sizeof a.kernel);
    memcpy(a.stride, c->stride, sizeof a.stride);
    memcpy(a.dilation, c->dilation, sizeof a.dilation);
    memcpy(a.pad, c->pad, sizeof a.pad);
    for (int i = 0, d = 0; i < 3; i++) {
        d = c->column_major ? i : 2 - i;
        a.weight[d] = i == 0            ? 1
                      : c->column_major ? a.weight[d - 1] * c->in[d - 1]
                                        : a.weight[d + 1] * c->in[d + 1];
    }
    return cm_gpu_launch(r, s->kernel, &s->grid, (void *[]){&a});
}
