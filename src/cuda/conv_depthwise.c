/* conv_depthwise.c -- depthwise convolutions, channels innermost: each output channel from its own input channel.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Weights are packed as [kernel position][channel]. */
#include "base/size.h"
#include "cuda/conv.h"

/* As knobs, in this order: what a thread makes. */
typedef struct {
    int channels, down, across;
} setting;
/* While there are few threads, less of each. Of channels that come one by one, one in place of two. */
static const setting small_windows[] = {{4, 2, 4}, {4, 1, 4}, {2, 2, 4}, {2, 1, 4}},
                     middle_windows[] = {{2, 4, 4}, {2, 2, 4}, {2, 1, 4}},
                     large_windows[] = {{4, 1, 4}, {2, 1, 4}};
enum {
    SMALL = 9,   /* kernel positions */
    MIDDLE = 25, /* the most whose weights are held in registers */
    HIGH = 32,   /* rows that such a window may reach over */
    THREADS = 128,
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

/* Adjacent channels that are loaded at once: of as many, pixels and the weights of kernel positions are multiples. */
static int vector_of(const cm_problem *p)
{
    const cm_tensor *x = p->in[0];
    int64_t all = p->as.conv.c_in;
    for (int d = 0; d < x->rank; d++)
        all |= d != 1 && x->dims[d] != 1 ? x->strides[d] : 0;
    return all % 4 == 0 ? 4 : all % 2 == 0 ? 2 : 1;
}

const char *cm_cuda_conv_depthwise_reject(const cm_problem *p)
{
    const cm_conv *c = &p->as.conv;
    if (c->transposed || c->groups != c->c_in || c->c_out != c->c_in)
        return "not depthwise";
    if (c->kernel[0] != 1 || c->in[0] != 1 || c->out[0] != 1)
        return "three spatial axes";
    if (c->kernel[1] > 64 || c->kernel[2] > 16 || c->stride[2] > 8 || c->stride[1] > 8 ||
        c->kernel[2] * c->dilation[2] > 64 || c->kernel[1] * c->dilation[1] > 512)
        return "too wide a window";
    if (p->in[0]->strides[1] != 1 || p->out[0]->strides[1] != 1)
        return "channels are not innermost";
    return cm_cuda_conv_reject(p);
}

static setting setting_of(const cm_knobs *k)
{
    return (setting){k->v[0], k->v[1], k->v[2]};
}

static int64_t threads_of(const cm_conv *c, setting s)
{
    return c->n * cm_ceil_div(c->out[1], s.down) * cm_ceil_div(c->out[2], s.across) *
           (c->c_in / s.channels);
}

/* Are all weights of a window held in registers? */
static bool is_held(const cm_conv *c)
{
    return cm_gpu_conv_taps(c) <= MIDDLE && c->kernel[1] * c->dilation[1] <= HIGH;
}

int cm_cuda_conv_depthwise_knobs(const cm_problem *p, cm_knobs *out)
{
    const cm_conv *c = &p->as.conv;
    bool small = cm_gpu_conv_taps(c) <= SMALL;
    const setting *from = !is_held(c) ? large_windows : small ? small_windows : middle_windows;
    int n = !is_held(c) ? CM_COUNT(large_windows)
            : small     ? CM_COUNT(small_windows)
                        : CM_COUNT(middle_windows);
    int first = from == middle_windows && c->stride[1] > 1; /* few rows would be shared */
    int vector = vector_of(p), found = 0;
    for (int i = first; i < n; i++)
        if (from[i].channels <= (vector == 1 ? 2 : vector))
            out[found++] =
                (cm_knobs){{vector == 1 ? 1 : from[i].channels, from[i].down, from[i].across}};
    return found;
}

/* Of a thread: instructions to load an input and to widen it, and for each pixel of a result; ns that one takes where few
 * threads are; what all get of the rate of the arithmetic and of memory. */
static const double LOAD = 4, RESULT = 20, ALONE_NS = 5, SHARE = 0.5, MEMORY_SHARE = 0.75;
static const double BEGIN_NS = 300;

double cm_cuda_conv_depthwise_cost(const cm_problem *p, const cm_knobs *k)
{
    const cm_conv *c = &p->as.conv;
    cm_gpu_facts g;
    cm_gpu_facts_of(&p->target, &g);
    setting s = setting_of(k);
    int64_t rows = (s.down - 1) * c->stride[1] + (c->kernel[1] - 1) * c->dilation[1] + 1;
    int64_t columns = (s.across - 1) * c->stride[2] + (c->kernel[2] - 1) * c->dilation[2] + 1;
    double each = (double)(cm_gpu_conv_taps(c) * s.channels * (s.down * s.across + 1)) +
                  (double)(rows * columns) * (LOAD + s.channels) + RESULT * s.down * s.across;
    double compute = (double)threads_of(c, s) * each * 2 / (g.tflops * 1000 * SHARE);
    double memory = cm_gpu_conv_memory(p) / (g.read_gbs * MEMORY_SHARE);
    double most = compute > memory ? compute : memory;
    return g.launch_ns + BEGIN_NS + (most > each * ALONE_NS ? most : each * ALONE_NS);
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

static void put_text(const cm_problem *p, setting s, cm_buf *out)
{
    const cm_conv *c = &p->as.conv;
    cm_buf_printf(out,
                  "#define ELEMENT %s\n#define CHANNELS %d\n#define DOWN %d\n#define ACROSS %d\n"
                  "#define HELD %d\n#define THREADS %d\n",
                  cm_element_text(p->in[0]->dtype), s.channels, s.down, s.across, is_held(c),
                  THREADS);
    for (int d = 1; d < 3; d++)
        cm_buf_printf(out, "#define KERNEL_%c %d\n#define STRIDE_%c %d\n#define DILATION_%c %d\n",
                      "ZYX"[d], (int)c -> kernel[d], "ZYX"[d], (int)c -> stride[d], "ZYX"[d],
                      (int)c -> dilation[d]);
}

cm_status cm_cuda_conv_depthwise_ready(cm_ctx *cx, cm_device *d, cm_arena *arena,
                                       const cm_problem *p, const cm_knobs *k, const void **state)
{
    const cm_conv *c = &p->as.conv;
    setting own = setting_of(k);
    cm_result_axes axes;
    cm_tensor room;
    cm_buf text;
    depthwise_state *s;
    CM_NEW(cx, arena, s, depthwise_state);
    s->args = (depthwise_args){.channels = (int32_t)c->c_in, .images = (int32_t)c->n};
    cm_gpu_conv_sizes_of(p, &s->args.sizes);
    cm_result_of_conv(p->out[0], &axes);
    cm_finish_init(&s->finish, p, &axes, cm_gpu_conv_bias(p, &room));
    s->grid = (cm_grid){.blocks = {(unsigned)cm_ceil_div(threads_of(c, own), THREADS)},
                        .threads = {THREADS},
                        .overlaps = p->target.level >= 900};
    cm_buf_init(&text, cx->allocator);
    cm_finish_text(&s->finish, p, cm_gpu_conv_bias(p, &room), &text);
    put_text(p, own, &text);
    *state = s;
    return cm_gpu_kernel_with(cx, d, &text,
                              (cm_kernel_text){.file = "conv_depthwise", .entry = "conv_depthwise"},
                              0, &s->kernel);
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
