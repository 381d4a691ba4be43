/* conv_depthwise.c -- depthwise convolutions, channels innermost: each output channel from its own input channel.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Weights are packed as [kernel position][channel]. */
#include "base/size.h"
#include "cuda/conv.h"

enum {
    CHANNELS = 8, /* of a thread */
    ACROSS = 4,   /* adjacent output pixels of a thread */
    THREADS = 128
};

/* As kernels/conv_depthwise.cu has it. */
typedef struct {
    const void *x, *w;
    int32_t channels, images;
    cm_gpu_conv_sizes sizes;
} depthwise_args;

typedef struct {
    const cm_kernel *kernel;
    cm_grid grid;
    depthwise_args args;
    cm_finish finish;
} depthwise_state;

const char *cm_cuda_conv_depthwise_reject(const cm_problem *p)
{
    const cm_conv *c = &p->as.conv;
    const cm_tensor *x = p->in[0];
    if (c->transposed || c->groups != c->c_in || c->c_out != c->c_in)
        return "not depthwise";
    if (c->kernel[0] != 1 || c->in[0] != 1 || c->out[0] != 1)
        return "three spatial axes";
    if (c->kernel[2] > 16 || c->stride[2] > 8 || c->kernel[2] * c->dilation[2] > 64)
        return "too wide a window";
    if (x->strides[1] != 1 || p->out[0]->strides[1] != 1 || c->c_in % CHANNELS != 0)
        return "channels are not innermost, or not a multiple of 8";
    for (int d = 0; d < x->rank; d++)
        if (d != 1 && x->dims[d] != 1 && x->strides[d] % CHANNELS != 0)
            return "pixels do not begin at multiples of 8 elements";
    return cm_cuda_conv_reject(p);
}

double cm_cuda_conv_depthwise_cost(const cm_problem *p, const cm_knobs *k)
{
    (void)k;
    const cm_conv *c = &p->as.conv;
    cm_gpu_facts g;
    cm_gpu_facts_of(&p->target, &g);
    double outputs = (double)cm_tensor_elems(p->out[0]);
    double compute = 2 * outputs * (double)cm_gpu_conv_taps(c) / (g.tflops * 1000 * 0.4);
    double memory = cm_gpu_conv_memory(p) / (g.read_gbs * 0.85);
    return g.launch_ns + 1500 + (compute > memory ? compute : memory);
}

size_t cm_cuda_conv_depthwise_pack_bytes(const cm_problem *p, const cm_knobs *k, int input)
{
    (void)k;
    return input == 1 ? (size_t)cm_tensor_elems(p->in[1]) * cm_dtype_size(p->in[1]->dtype) : 0;
}

void cm_cuda_conv_depthwise_pack(const cm_problem *p, const cm_knobs *k, int input,
                                 const void *from, void *to, cm_threads *threads)
{
    (void)k;
    (void)input;
    (void)threads;
    const cm_conv *c = &p->as.conv;
    const cm_tensor *w = p->in[1];
    size_t size = cm_dtype_size(w->dtype);
    char *at = to;
    for (int64_t tap = 0; tap < cm_gpu_conv_taps(c); tap++)
        for (int64_t i = 0; i < c->c_in; i++, at += size)
            memcpy(at,
                   (const char *)from +
                       (size_t)(i * w->strides[0] + cm_gpu_conv_tap_at(w, tap)) * size,
                   size);
}

cm_status cm_cuda_conv_depthwise_ready(cm_ctx *cx, cm_device *d, cm_arena *arena,
                                       const cm_problem *p, const cm_knobs *k, const void **state)
{
    (void)k;
    const cm_conv *c = &p->as.conv;
    cm_gpu_facts g;
    cm_gpu_facts_of(&p->target, &g);
    cm_result_axes axes;
    cm_tensor room;
    cm_buf text;
    depthwise_state *s;
    CM_NEW(cx, arena, s, depthwise_state);
    s->args = (depthwise_args){.channels = (int32_t)c->c_in, .images = (int32_t)c->n};
    cm_gpu_conv_sizes_of(p, &s->args.sizes);
    cm_result_of_conv(p->out[0], &axes);
    cm_finish_init(&s->finish, p, &axes, cm_gpu_conv_bias(p, &room));
    int64_t threads = c->n * c->out[1] * cm_ceil_div(c->out[2], ACROSS) * (c->c_in / CHANNELS);
    s->grid = (cm_grid){.blocks = {(unsigned)cm_ceil_div(threads, THREADS)},
                        .threads = {THREADS},
                        .overlaps = g.sm >= 90};
    cm_buf_init(&text, cx->allocator);
    cm_finish_text(&s->finish, p, cm_gpu_conv_bias(p, &room), &text);
    cm_buf_printf(&text,
                  "#define ELEMENT %s\n#define KERNEL_X %d\n#define STRIDE_X %d\n"
                  "#define DILATION_X %d\n#define ACROSS %d\n#define THREADS %d\n",
                  cm_element_text(p->in[0]->dtype), (int)c->kernel[2], (int)c->stride[2],
                  (int)c->dilation[2], ACROSS, THREADS);
    cm_status st =
        text.failed
            ? cm_fail_memory(cx)
            : cm_gpu_kernel(
                  cx, d, &(cm_kernel_text){"conv_depthwise", cm_buf_text(&text), "conv_depthwise"},
                  0, &s->kernel);
    cm_buf_deinit(&text);
    *state = s;
    return st;
}

cm_status cm_cuda_conv_depthwise_run(const cm_run *r)
{
    const depthwise_state *s = r->state;
    depthwise_args x = s->args;
    cm_finish f = s->finish;
    cm_finish_bind(&f, r, r->p->as.conv.bias ? r->in[2] : NULL);
    x.x = r->in[0];
    x.w = r->in[1];
    return cm_gpu_launch(r, s->kernel, &s->grid, (void *[]){&x, &f});
}
