/* conv.c -- the table of convolution tactics, and what they share.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/conv.h"

#include "cuda/tactics.h"

/* Best guess first. */
#define ROW(stem, least, packs, ...)                                                               \
    {                                                                                              \
        .name = #stem, .level = least, .reject = cm_cuda_##stem##_reject,                          \
        .cost = cm_cuda_##stem##_cost, .pack_bytes = packs##_pack_bytes, .pack = packs##_pack,     \
        .ready = cm_cuda_##stem##_ready, .run = cm_cuda_##stem##_run, __VA_ARGS__                  \
    }
const cm_tactic cm_cuda_conv_tactics[] = {
    ROW(conv_depthwise, 750, cm_cuda_conv_depthwise, .knobs = cm_cuda_conv_depthwise_knobs),
    ROW(conv_band, 900, cm_cuda_conv_depthwise, .knobs = cm_cuda_conv_band_knobs),
    ROW(conv_patch, 750, cm_cuda_conv_patch, .knobs = cm_cuda_conv_patch_knobs),
    ROW(conv_window, 750, cm_cuda_conv_window, .knobs = cm_cuda_conv_window_knobs),
    ROW(conv_few, 750, cm_cuda_conv_few, .knobs = cm_cuda_conv_few_knobs,
        .workspace = cm_cuda_conv_few_workspace),
    ROW(conv_narrow, 750, cm_gpu_conv, .knobs = cm_cuda_conv_narrow_knobs),
    ROW(conv_matmul, 900, cm_gpu_conv, .knobs = cm_cuda_conv_matmul_knobs),
    ROW(conv_bulk, 900, cm_cuda_conv_bulk, .knobs = cm_cuda_conv_bulk_knobs),
    ROW(conv_wgmma, 900, cm_gpu_conv, .knobs = cm_cuda_conv_wgmma_knobs),
    ROW(conv_tile, 750, cm_gpu_conv, .knobs = cm_cuda_conv_tile_knobs,
        .workspace = cm_cuda_conv_tile_workspace),
    {.name = "conv_variable",
     .level = 750,
     .reject = cm_cuda_conv_variable_reject,
     .knobs = cm_cuda_conv_variable_knobs,
     .cost = cm_cuda_conv_variable_cost,
     .workspace = cm_cuda_conv_variable_workspace,
     .ready = cm_cuda_conv_variable_ready,
     .run = cm_cuda_conv_variable_run},
    ROW(conv_cudnn, 750, cm_gpu_conv, .knobs = cm_cuda_conv_cudnn_knobs,
        .workspace = cm_cuda_conv_cudnn_workspace, .apart_ns = cm_gpu_apart_ns),
};
const int cm_cuda_conv_count = CM_COUNT(cm_cuda_conv_tactics);

int64_t cm_gpu_conv_taps(const cm_conv *c)
{
    return c->kernel[0] * c->kernel[1] * c->kernel[2];
}

int64_t cm_gpu_conv_tap_at(const cm_tensor *w, int64_t tap)
{
    int64_t at = 0;
    for (int d = w->rank - 1; d >= 2; d--) {
        at += tap % w->dims[d] * w->strides[d];
        tap /= w->dims[d];
    }
    return at;
}

void cm_gpu_conv_sizes_of(const cm_problem *p, cm_gpu_conv_sizes *s)
{
    const cm_conv *c = &p->as.conv;
    const cm_tensor *x = p->in[0];
    *s = (cm_gpu_conv_sizes){.image = x->strides[0], .channel = x->strides[1]};
    for (int d = 0; d < 3; d++) {
        int axis = 2 + d - (3 - c->axes);
        s->in[d] = (int32_t)c->in[d];
        s->out[d] = (int32_t)c->out[d];
        s->kernel[d] = (int32_t)c->kernel[d];
        s->stride[d] = (int32_t)c->stride[d];
        s->dilation[d] = (int32_t)c->dilation[d];
        s->pad[d] = (int32_t)c->pad[d];
        s->step[d] = axis < 2 ? 0 : x->strides[axis];
    }
}

const cm_tensor *cm_gpu_conv_bias(const cm_problem *p, cm_tensor *room)
{
    if (!p->as.conv.bias)
        return NULL;
    *room = *p->in[2];
    room->rank = p->out[0]->rank - 1;
    for (int d = 1; d < room->rank; d++)
        room->dims[d] = room->strides[d] = 1;
    return room;
}

/* Places in the input and beyond its edges are counted in 32 bits. */
static bool countable(const cm_conv *c)
{
    enum { MOST = 1 << 28 };
    for (int d = 0; d < 3; d++)
        if (c->in[d] >= MOST || c->out[d] * c->stride[d] >= MOST ||
            c->kernel[d] * c->dilation[d] >= MOST || c->pad[d] >= MOST || c->pad[d] <= -MOST)
            return false;
    return cm_gpu_conv_taps(c) * c->c_in < MOST;
}

const char *cm_cuda_conv_reject(const cm_problem *p)
{
    cm_dtype t = p->in[0]->dtype;
    cm_result_axes axes;
    cm_tensor bias;
    if (p->in[1]->dtype != t || (t != CM_F32 && t != CM_F16 && t != CM_BF16))
        return "input and weights are not both float32, float16 or bfloat16";
    if (t == CM_BF16 && p->target.level < 800)
        return "bfloat16 needs sm_80";
    if (!p->constant[1])
        return "the weights are not constant";
    if (!countable(&p->as.conv))
        return "too large";
    cm_result_of_conv(p->out[0], &axes);
    return cm_finish_reject(p, &axes, cm_gpu_conv_bias(p, &bias));
}

cm_arithmetic cm_gpu_conv_arithmetic(const cm_problem *p)
{
    if (p->in[0]->dtype != CM_F32)
        return CM_ARITHMETIC_HALF;
    return p->tf32 && p->target.level >= 800 ? CM_ARITHMETIC_TF32 : CM_ARITHMETIC_FLOAT;
}

double cm_gpu_conv_memory(const cm_problem *p)
{
    double bytes = 0;
    for (int i = 0; i < 2; i++)
        bytes += (double)cm_tensor_elems(p->in[i]) * (double)cm_dtype_size(p->in[i]->dtype);
    bytes += (double)cm_tensor_elems(p->out[0]) * (double)cm_dtype_size(p->out[0]->dtype);
    for (int i = 0; p->epilogue && i < p->n_operands; i++)
        bytes +=
            (double)cm_tensor_elems(p->operands[i]) * (double)cm_dtype_size(p->operands[i]->dtype);
    return bytes;
}
