/* conv_few.c -- convolutions of images with up to 4 channels, as first layers have them.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The image is first written with 4 channels a pixel and borders of zeros, so that 16 bytes are one or two whole
 * pixels: channels of a convolution with half as many columns, which other tactics then solve. Weights are packed for that one. */
#include <stdio.h>

#include "base/size.h"
#include "cuda/conv.h"

enum {
    CHANNELS = 4,
    INNER = 7,
    THREADS = 256
}; /* INNER: the knob that names the tactic; the others are its own */

typedef const char *reject_fn(const cm_problem *p);
typedef int knobs_fn(const cm_problem *p, cm_knobs *out);
typedef double cost_fn(const cm_problem *p, const cm_knobs *k);
typedef cm_status run_fn(const cm_run *r);
static const struct {
    int level;
    reject_fn *reject;
    knobs_fn *knobs;
    cost_fn *cost;
    run_fn *run;
} inner[] = {
    {750, cm_cuda_conv_tile_reject, cm_cuda_conv_tile_knobs, cm_cuda_conv_tile_cost,
     cm_cuda_conv_tile_run},
    {900, cm_cuda_conv_wgmma_reject, cm_cuda_conv_wgmma_knobs, cm_cuda_conv_wgmma_cost,
     cm_cuda_conv_wgmma_run},
};

/* The convolution that is solved instead. */
typedef struct {
    cm_problem p;
    cm_tensor x, w;
    const cm_tensor *ins[3];
    int64_t rows, chunks; /* of the image made ready */
} derived;

static int64_t pixels_of(const cm_problem *p) /* in 16 bytes */
{
    return 16 / (CHANNELS * (int64_t)cm_dtype_size(p->in[0]->dtype));
}

static void derive(const cm_problem *p, derived *d)
{
    cm_conv c = p->as.conv;
    int64_t pixels = pixels_of(p), channels = pixels * CHANNELS;
    int64_t kernel = cm_ceil_div(c.kernel[2], pixels);
    d->rows = (c.out[1] - 1) * c.stride[1] + (c.kernel[1] - 1) * c.dilation[1] + 1;
    d->chunks = (c.out[2] - 1) * c.stride[2] / pixels + kernel;
    c.c_in = channels;
    c.in[1] = d->rows;
    c.in[2] = d->chunks;
    c.kernel[2] = kernel;
    c.stride[2] /= pixels;
    c.pad[1] = c.pad[2] = 0;
    d->x = *p->in[0];
    cm_tensor_shape(&d->x, p->in[0]->dtype, 4, (int64_t[]){c.n, channels, d->rows, d->chunks});
    d->x.strides[0] = d->rows * d->chunks * channels;
    d->x.strides[1] = 1;
    d->x.strides[2] = d->chunks * channels;
    d->x.strides[3] = channels;
    d->w = *p->in[1];
    cm_tensor_shape(&d->w, p->in[1]->dtype, 4,
                    (int64_t[]){c.c_out, channels, c.kernel[1], c.kernel[2]});
    d->p = *p;
    d->p.as.conv = c;
    d->ins[0] = &d->x;
    d->ins[1] = &d->w;
    d->ins[2] = p->n_in > 2 ? p->in[2] : NULL;
    d->p.in = d->ins;
}

const char *cm_cuda_conv_few_reject(const cm_problem *p)
{
    const cm_conv *c = &p->as.conv;
    if (c->c_in > CHANNELS || c->groups != 1 || c->transposed || c->axes != 2)
        return "not of up to 4 channels over two axes";
    const char *why = cm_cuda_conv_reject(p);
    if (why)
        return why;
    if (c->dilation[2] != 1 || c->stride[2] % pixels_of(p) != 0)
        return "windows do not begin at multiples of 16 bytes";
    if (c->kernel[2] % pixels_of(p) != 0)
        return "windows do not end at multiples of 16 bytes"; /* what follows may be infinite */
    derived d;
    derive(p, &d);
    return cm_cuda_conv_reject(&d.p);
}

enum { OF_EACH = 2 }; /* settings */

int cm_cuda_conv_few_knobs(const cm_problem *p, cm_knobs *out)
{
    derived d;
    cm_knobs own[CM_MAX_KNOBS];
    int n = 0;
    derive(p, &d);
    for (int i = CM_COUNT(inner) - 1; i >= 0; i--) {
        if (inner[i].level > p->target.level || inner[i].reject(&d.p))
            continue;
        int found = inner[i].knobs(&d.p, own);
        for (int k = 0; k < found && k < OF_EACH; k++) {
            out[n] = own[k];
            out[n++].v[INNER] = i;
        }
    }
    return n;
}

static size_t image_bytes(const derived *d)
{
    size_t bytes = (size_t)cm_tensor_elems(&d->x) * cm_dtype_size(d->x.dtype);
    return (bytes + 255) / 256 * 256;
}

/* Products with so short rows take longer than their cost. */
static const double FEW = 2.2;

double cm_cuda_conv_few_cost(const cm_problem *p, const cm_knobs *k)
{
    cm_gpu_facts g;
    cm_gpu_facts_of(&p->target, &g);
    derived d;
    derive(p, &d);
    double moved = (double)cm_tensor_elems(p->in[0]) * (double)cm_dtype_size(p->in[0]->dtype) +
                   (double)image_bytes(&d);
    return FEW * inner[k->v[INNER]].cost(&d.p, k) + g.launch_ns + 500 + moved / (g.read_gbs * 0.7);
}

size_t cm_cuda_conv_few_workspace(const cm_problem *p, const cm_knobs *k)
{
    derived d;
    derive(p, &d);
    return image_bytes(&d) + (k->v[INNER] == 0 ? cm_cuda_conv_tile_workspace(&d.p, k) : 0);
}

size_t cm_cuda_conv_few_pack_bytes(const cm_problem *p, const cm_knobs *k, int input)
{
    derived d;
    derive(p, &d);
    return cm_gpu_conv_pack_bytes(&d.p, k, input);
}

/* [output channel][kernel row][chunk][pixel][channel] */
void cm_cuda_conv_few_pack(const cm_problem *p, const cm_knobs *k, int input, const void *from,
                           void *to, cm_threads *threads)
{
    (void)threads;
    const cm_conv *c = &p->as.conv;
    const cm_tensor *w = p->in[1];
    size_t size = cm_dtype_size(w->dtype);
    int64_t columns = cm_ceil_div(c->kernel[2], pixels_of(p)) * pixels_of(p);
    char *at = to;
    memset(to, 0, cm_cuda_conv_few_pack_bytes(p, k, input));
    for (int64_t o = 0; o < c->c_out; o++)
        for (int64_t y = 0; y < c->kernel[1]; y++)
            for (int64_t x = 0; x < columns; x++, at += CHANNELS * size)
                for (int64_t i = 0; i < c->c_in && x < c->kernel[2]; i++)
                    memcpy(at + (size_t)i * size,
                           (const char *)from + (size_t)(o * w->strides[0] + i * w->strides[1] +
                                                         y * w->strides[2] + x * w->strides[3]) *
                                                    size,
                           size);
}

/* As kernels/conv_few.cu has it. */
typedef struct {
    const void *x;
    void *to;
    int32_t images, channels, in[2], pad[2], rows, chunks;
    int64_t image, channel, step[2];
} few_args;

typedef struct {
    derived d;
    const cm_kernel *kernel;
    cm_grid grid;
    few_args args;
    const void *state; /* of the tactic that solves the other one */
} few_state;

cm_status cm_cuda_conv_few_ready(cm_ctx *cx, cm_device *d, cm_arena *arena, const cm_problem *p,
                                 const cm_knobs *k, const void **state)
{
    const cm_conv *c = &p->as.conv;
    const cm_tensor *x = p->in[0];
    few_state *s;
    char defines[64];
    CM_NEW(cx, arena, s, few_state);
    derive(p, &s->d);
    s->args = (few_args){.images = (int32_t)c->n,
                         .channels = (int32_t)c->c_in,
                         .in = {(int32_t)c->in[1], (int32_t)c->in[2]},
                         .pad = {(int32_t)c->pad[1], (int32_t)c->pad[2]},
                         .rows = (int32_t)s->d.rows,
                         .chunks = (int32_t)s->d.chunks,
                         .image = x->strides[0],
                         .channel = x->strides[1],
                         .step = {x->strides[2], x->strides[3]}};
    int64_t all = c->n * s->d.rows * s->d.chunks;
    s->grid = (cm_grid){.blocks = {(unsigned)cm_ceil_div(all, THREADS)},
                        .threads = {THREADS},
                        .overlaps = p->target.level >= 900};
    *state = s;
    snprintf(defines, sizeof defines, "#define ELEMENT %s\n", cm_element_text(x->dtype));
    CM_TRY(cm_gpu_kernel(cx, d, &(cm_kernel_text){"conv_few", defines, "conv_few"}, 0, &s->kernel));
    return k->v[INNER] == 0 ? cm_cuda_conv_tile_ready(cx, d, arena, &s->d.p, k, &s->state)
                            : cm_cuda_conv_wgmma_ready(cx, d, arena, &s->d.p, k, &s->state);
}

cm_status cm_cuda_conv_few_run(const cm_run *r)
{
    const few_state *s = r->state;
    few_args x = s->args;
    x.x = r->in[0];
    x.to = r->workspace;
    CM_TRY(cm_gpu_launch(r, s->kernel, &s->grid, (void *[]){&x}));
    const void *in[3] = {r->workspace, r->in[1], r->p->as.conv.bias ? r->in[2] : NULL};
    cm_run then = *r;
    then.p = &s->d.p;
    then.in = in;
    then.state = s->state;
    then.workspace = (char *)r->workspace + image_bytes(&s->d);
    return inner[r->k->v[INNER]].run(&then);
}
