/* quant_any.c -- QuantizeLinear and DequantizeLinear that quant.c leaves: other types than float32 and bytes, parameters of
 * blocks.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/quant_any.h"

#include "base/buf.h"
#include "base/size.h"
#include "cuda/nest.h"
#include "cuda/parts.h"

typedef struct {
    const cm_kernel *kernel;
    cm_grid grid;
    int64_t n, blocks;
} state;

static bool is_real(cm_dtype t)
{
    return t == CM_F32 || t == CM_F16 || t == CM_BF16;
}

static bool is_f8(cm_dtype t)
{
    return t >= CM_F8E4M3FN && t <= CM_F8E5M2FNUZ;
}

static bool is_small(cm_dtype t)
{
    return t == CM_I8 || t == CM_U8 || t == CM_I16 || t == CM_U16 || t == CM_I32 || is_f8(t) ||
           cm_dtype_is_sub_byte(t);
}

const char *cm_cuda_quant_any_reject(const cm_problem *p)
{
    const cm_quantise *q = &p->as.quantise;
    if (q->kind != CM_QUANTISE_TO && q->kind != CM_QUANTISE_FROM)
        return "neither to nor from small types";
    bool to = q->kind == CM_QUANTISE_TO;
    cm_dtype real = p->in[0]->dtype, small = p->out[0]->dtype;
    if (!to) {
        real = p->out[0]->dtype;
        small = p->in[0]->dtype;
    }
    if (!is_real(real) || !is_small(small) || (to && small == CM_I32))
        return "the types";
    if (!is_real(p->in[q->scale]->dtype))
        return "the type of the scale";
    if (!cm_tensor_is_dense(p->in[0]) || !cm_tensor_is_dense(p->out[0]))
        return "an operand is strided";
    return NULL;
}

double cm_cuda_quant_any_cost(const cm_problem *p, const cm_knobs *k)
{
    enum { SLOW = 4 }; /* doubles, and divisions for places */
    double n = (double)cm_tensor_elems(p->in[0]);
    (void)k;
    return SLOW * cm_gpu_stream_ns(&p->target, n * (double)(cm_dtype_size(p->in[0]->dtype) +
                                                            cm_dtype_size(p->out[0]->dtype)));
}

static void put_text(cm_buf *b, const cm_problem *p)
{
    const cm_quantise *q = &p->as.quantise;
    bool to = q->kind == CM_QUANTISE_TO;
    cm_dtype small = to ? p->out[0]->dtype : p->in[0]->dtype;
    int bits = cm_dtype_get(small)->bits;
    bool is_signed = cm_dtype_is_signed(small);
    long long low = is_signed ? -(1LL << (bits - 1)) : 0,
              high = is_signed ? (1LL << (bits - 1)) - 1 : (1LL << bits) - 1;
    cm_dtype zero = q->zero >= 0 ? p->in[q->zero]->dtype : small;
    cm_buf_printf(b, "#define X %s\n#define Y %s\n", cm_gpu_part_or_element(p->in[0]->dtype),
                  cm_gpu_part_or_element(p->out[0]->dtype));
    cm_buf_printf(b, "#define SCALE %s\n#define ZERO %s\n", cm_gpu_element(p->in[q->scale]->dtype),
                  cm_gpu_part_or_element(zero));
    cm_buf_printf(b, "#define LOW %lldll\n#define HIGH %lldll\n#define FLOATS %d\n#define TO %d\n",
                  low, high, cm_dtype_is_float(small), to);
    cm_buf_printf(b, "#define GROUP %d\n", cm_dtype_is_sub_byte(p->out[0]->dtype) ? 8 : 1);
}

cm_status cm_cuda_quant_any_ready(cm_ctx *cx, cm_device *d, cm_arena *arena, const cm_problem *p,
                                  const cm_knobs *k, const void **out)
{
    const cm_quantise *q = &p->as.quantise;
    state *s;
    cm_buf text;
    (void)k;
    CM_NEW(cx, arena, s, state);
    *out = s;
    s->n = cm_tensor_elems(p->in[0]);
    s->blocks = q->block ? cm_ceil_div(q->extent, q->block) : 0;
    if (s->n == 0)
        return CM_OK; /* no kernel, nothing to launch */
    s->grid = (cm_grid){.blocks = {cm_gpu_blocks(&p->target, s->n)}, .threads = {CM_GPU_THREADS}};
    cm_buf_init(&text, cx->allocator);
    put_text(&text, p);
    return cm_gpu_kernel_with(
        cx, d, &text, (cm_kernel_text){.file = "quant_any", .entry = "convert_any"}, 0, &s->kernel);
}

cm_status cm_cuda_quant_any_run(const cm_run *r)
{
    const state *s = r->state;
    const cm_quantise *q = &r->p->as.quantise;
    struct {
        const void *x;
        void *y;
        const void *scale, *zero;
        uint64_t n, extent, inner, block, blocks;
    } a = {r->in[0],           r->out[0],
           r->in[q->scale],    q->zero >= 0 ? r->in[q->zero] : NULL,
           (uint64_t)s->n,     (uint64_t)q->extent,
           (uint64_t)q->inner, (uint64_t)q->block,
           (uint64_t)s->blocks};
    return s->kernel ? cm_gpu_launch(r, s->kernel, &s->grid, (void *[]){&a}) : CM_OK;
}
