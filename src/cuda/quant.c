/* quant.c -- QUANTISE: between real numbers and bytes, and elementwise on bytes.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/nest.h"
#include "cuda/quant_any.h"
#include "cuda/quant_softmax.h"
#include "cuda/tactics.h"

#include <stdio.h>
#include <string.h>

#include "base/size.h"

typedef struct {
    const cm_kernel *kernel, *first; /* first: the range of a dynamic quantisation */
    cm_grid grid;
    int64_t n;
} state;

static bool is_byte(cm_dtype t)
{
    return t == CM_U8 || t == CM_I8;
}

static const char *reject_convert(const cm_problem *p)
{
    const cm_quantise *q = &p->as.quantise;
    const cm_tensor *x = p->in[0], *y = p->out[0];
    bool to = q->kind == CM_QUANTISE_TO, from = q->kind == CM_QUANTISE_FROM;
    if (to ? x->dtype != CM_F32 : !is_byte(x->dtype))
        return "the input's type";
    if (from ? y->dtype != CM_F32 : !is_byte(y->dtype))
        return "the output's type";
    if (q->block)
        return "parameters of blocks";
    if ((to || from) && p->in[q->scale]->dtype != CM_F32)
        return "the scale is not float32";
    if (!cm_tensor_is_packed(x) || !cm_tensor_same_strides(x, y))
        return "the operands are strided or differ in layout";
    return NULL;
}

static const char *reject(const cm_problem *p)
{
    const cm_tensor *x = p->in[0], *y = p->out[0];
    switch (p->as.quantise.kind) {
    case CM_QUANTISE_TO:
    case CM_QUANTISE_FROM:
    case CM_QUANTISE_TABLE:
        return reject_convert(p);
    case CM_QUANTISE_DYNAMIC:
        return x->dtype != CM_F32                   ? "the input is not float32"
               : !cm_tensor_is_packed(x)            ? "the input is strided"
               : y && !cm_tensor_same_strides(x, y) ? "the layout changes"
                                                    : NULL;
    case CM_QUANTISE_ADD:
    case CM_QUANTISE_MUL:
        return is_byte(y->dtype) ? NULL : "elements are not bytes";
    default:
        return "pools, joins and softmax of bytes";
    }
}

static double cost(const cm_problem *p, const cm_knobs *k)
{
    double bytes = 0;
    (void)k;
    for (int i = 0; i < p->n_in; i++)
        if (p->in[i])
            bytes += (double)cm_tensor_elems(p->in[i]) * (double)cm_dtype_size(p->in[i]->dtype);
    if (p->out[0])
        bytes += (double)cm_tensor_elems(p->out[0]) * (double)cm_dtype_size(p->out[0]->dtype);
    double ns = cm_gpu_stream_ns(&p->target, bytes);
    return p->as.quantise.kind == CM_QUANTISE_DYNAMIC ? 2 * ns : ns;
}

/* A range for each block of the first launch. */
static size_t workspace(const cm_problem *p, const cm_knobs *k)
{
    (void)k;
    if (p->as.quantise.kind != CM_QUANTISE_DYNAMIC)
        return 0;
    return cm_gpu_blocks(&p->target, cm_tensor_elems(p->in[0])) * 2 * sizeof(float);
}

static const char *entry_of(cm_quantise_kind kind)
{
    switch (kind) {
    case CM_QUANTISE_TO:
        return "quantise";
    case CM_QUANTISE_FROM:
        return "dequantise";
    case CM_QUANTISE_DYNAMIC:
        return "quantise_dynamic";
    case CM_QUANTISE_TABLE:
        return "look_up";
    default:
        return "quantise_binary";
    }
}

static cm_status ready(cm_ctx *cx, cm_device *d, cm_arena *arena, const cm_problem *p,
                       const cm_knobs *k, const void **out)
{
    const cm_quantise *q = &p->as.quantise;
    bool binary = q->kind == CM_QUANTISE_ADD || q->kind == CM_QUANTISE_MUL;
    state *s = cm_new(arena, state);
    char defines[128];
    (void)k;
    if (!s)
        return cm_fail_memory(cx);
    *out = s;
    s->n = binary ? cm_dims_product(q->dims, 0, q->rank) : cm_tensor_elems(p->in[0]);
    if (s->n == 0 && q->kind != CM_QUANTISE_DYNAMIC)
        return CM_OK; /* no kernel, nothing to launch */
    s->grid = (cm_grid){.blocks = {cm_gpu_blocks(&p->target, s->n)}, .threads = {CM_GPU_THREADS}};
    bool is_signed = p->in[0]->dtype == CM_I8 || (p->out[0] && p->out[0]->dtype == CM_I8);
    int at = snprintf(defines, sizeof defines, "#define BYTE %s\n", is_signed ? "i8" : "u8");
    if (binary)
        snprintf(defines + at, sizeof defines - (size_t)at,
                 "#define RANK %d\n#define MULTIPLY %d\n", q->rank, q->kind == CM_QUANTISE_MUL);
    cm_kernel_text t = {.file = "quant", .defines = defines, .entry = entry_of(q->kind)};
    CM_TRY(cm_gpu_kernel(cx, d, &t, 0, &s->kernel));
    t.entry = "quantise_range";
    return q->kind == CM_QUANTISE_DYNAMIC ? cm_gpu_kernel(cx, d, &t, 0, &s->first) : CM_OK;
}

static const void *input(const cm_run *r, int i)
{
    return i >= 0 && i < r->p->n_in && r->p->in[i] ? r->in[i] : NULL;
}

static void *output(const cm_run *r, int o)
{
    return o < r->p->n_out && r->p->out[o] ? r->out[o] : NULL;
}

static cm_status run_convert(const cm_run *r, const state *s)
{
    const cm_quantise *q = &r->p->as.quantise;
    struct {
        const void *x;
        void *y;
        const void *scale, *zero;
        uint64_t n, extent, inner;
    } a = {r->in[0],       r->out[0],           r->in[q->scale],   input(r, q->zero),
           (uint64_t)s->n, (uint64_t)q->extent, (uint64_t)q->inner};
    return cm_gpu_launch(r, s->kernel, &s->grid, (void *[]){&a});
}

static cm_status run_table(const cm_run *r, const state *s)
{
    struct {
        const void *x;
        void *y;
        uint64_t n;
        uint8_t of[256];
    } a = {.x = r->in[0], .y = r->out[0], .n = (uint64_t)s->n};
    memcpy(a.of, r->p->as.quantise.table, sizeof a.of);
    return cm_gpu_launch(r, s->kernel, &s->grid, (void *[]){&a});
}

static cm_status run_dynamic(const cm_run *r, const state *s)
{
    struct {
        const void *x;
        void *y, *scale, *zero, *parts;
        uint64_t n, n_parts;
    } a = {r->in[0],     output(r, 0),   output(r, 1),     output(r, 2),
           r->workspace, (uint64_t)s->n, s->grid.blocks[0]};
    CM_TRY(cm_gpu_launch(r, s->first, &s->grid, (void *[]){&a}));
    return cm_gpu_launch(r, s->kernel, &s->grid, (void *[]){&a});
}

static cm_status run_binary(const cm_run *r, const state *s)
{
    static const int order[6] = {1, 4, 6, 2, 5, 7}; /* scales, zero points */
    const cm_quantise *q = &r->p->as.quantise;
    uint64_t a[10 + 5 * CM_MAX_RANK] = {(uintptr_t)r->in[0], (uintptr_t)r->in[3],
                                        (uintptr_t)r->out[0]};
    for (int i = 0; i < 6; i++)
        a[3 + i] = (uintptr_t)input(r, order[i]);
    a[9] = (uint64_t)s->n;
    uint64_t *to = a + 10;
    for (int d = 0; d < q->rank; d++, to += 2) {
        cm_gpu_axis axis = cm_gpu_axis_of(q->dims[d]);
        memcpy(to, &axis, sizeof axis);
    }
    const int64_t *steps[3] = {q->a, q->b, q->y};
    for (int i = 0; i < 3; i++, to += q->rank)
        memcpy(to, steps[i], (size_t)q->rank * sizeof *to);
    return cm_gpu_launch(r, s->kernel, &s->grid, (void *[]){a});
}

static cm_status run(const cm_run *r)
{
    const state *s = r->state;
    if (!s->kernel)
        return CM_OK;
    switch (r->p->as.quantise.kind) {
    case CM_QUANTISE_DYNAMIC:
        return run_dynamic(r, s);
    case CM_QUANTISE_TABLE:
        return run_table(r, s);
    case CM_QUANTISE_ADD:
    case CM_QUANTISE_MUL:
        return run_binary(r, s);
    default:
        return run_convert(r, s);
    }
}

const cm_tactic cm_cuda_quant_tactics[] = {
    {.name = "cuda_quantise",
     .level = 750,
     .reject = reject,
     .cost = cost,
     .workspace = workspace,
     .ready = ready,
     .run = run},
    {.name = "quantise_any",
     .level = 750,
     .reject = cm_cuda_quant_any_reject,
     .cost = cm_cuda_quant_any_cost,
     .ready = cm_cuda_quant_any_ready,
     .run = cm_cuda_quant_any_run,
     .parts = true},
    {.name = "cuda_quantise_softmax",
     .level = 750,
     .reject = cm_cuda_quant_softmax_reject,
     .cost = cm_cuda_quant_softmax_cost,
     .ready = cm_cuda_quant_softmax_ready,
     .run = cm_cuda_quant_softmax_run},
};
const int cm_cuda_quant_count = CM_COUNT(cm_cuda_quant_tactics);
