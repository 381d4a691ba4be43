/* conv_matmul.c -- convolutions of one kernel position as plain matrix products: rows are pixels, k channels.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/size.h"
#include "cuda/conv.h"
#include "cuda/matmul.h"
#include "cuda/wgmma.h"

/* The product that is solved instead. */
typedef struct {
    cm_problem p;
    cm_tensor x, w, bias;
    const cm_tensor *ins[3];
} derived;

static void derive(const cm_problem *p, derived *d)
{
    const cm_conv *c = &p->as.conv;
    int64_t m = c->n * c->out[0] * c->out[1] * c->out[2], pitch = cm_gpu_conv_pixel_pitch(p->in[0]);
    d->x = *p->in[0];
    cm_tensor_shape(&d->x, p->in[0]->dtype, 2, (int64_t[]){m, c->c_in});
    d->x.strides[0] = pitch;
    d->w = *p->in[1];
    cm_tensor_shape(&d->w, p->in[1]->dtype, 2, (int64_t[]){c->c_out, c->c_in});
    d->p = *p;
    d->p.kind = CM_PROBLEM_MATMUL;
    d->ins[0] = &d->x;
    d->ins[1] = &d->w;
    d->ins[2] = cm_gpu_conv_bias(p, &d->bias);
    d->p.in = d->ins;
    d->p.as.matmul = (cm_matmul){.m = m,
                                 .n = c->c_out,
                                 .k = c->c_in,
                                 .a = {.row = pitch, .col = 1},
                                 .b = {.row = 1, .col = c->c_in},
                                 .c = {.row = cm_gpu_conv_pixel_pitch(p->out[0]), .col = 1},
                                 .alpha = 1,
                                 .beta = 1,
                                 .bias = c->bias ? 2 : -1};
}

const char *cm_cuda_conv_matmul_reject(const cm_problem *p)
{
    derived d;
    const char *why = cm_gpu_conv_is_product(p) ? cm_cuda_conv_reject(p)
                                                : "outputs are not products of one pixel each";
    if (why)
        return why;
    if (!cm_gpu_conv_whole(p) || p->out[0]->strides[1] != 1)
        return "channels are not innermost in multiples of 16 bytes";
    derive(p, &d);
    return cm_cuda_matmul_wgmma_reject(&d.p);
}

int cm_cuda_conv_matmul_knobs(const cm_problem *p, cm_knobs *out)
{
    derived d;
    derive(p, &d);
    return cm_cuda_matmul_wgmma_knobs(&d.p, out);
}

/* Copies of lines that end inside the last part of k are slower: so much for each tile. Those that walk over images
 * (conv_bulk.c) are not. */
static const double TORN_NS = 1000;

static double torn_lines(const cm_problem *p, const cm_matmul *s, const cm_knobs *k)
{
    cm_gpu_facts g;
    cm_gpu_facts_of(&p->target, &g);
    cm_wgmma w = cm_wgmma_of_knobs(k);
    if (s->k * (int64_t)cm_dtype_size(p->in[0]->dtype) % CM_WGMMA_LINE == 0)
        return 0;
    return TORN_NS * (double)(cm_ceil_div(s->m, w.rows) * cm_ceil_div(s->n, w.n)) /
           g.multiprocessors;
}

double cm_cuda_conv_matmul_cost(const cm_problem *p, const cm_knobs *k)
{
    derived d;
    derive(p, &d);
    return cm_cuda_matmul_wgmma_cost(&d.p, k) + cm_gpu_conv_way_out(p) +
           torn_lines(p, &d.p.as.matmul, k);
}

typedef struct {
    derived d;
    const void *state; /* of the tactic that solves the other one */
} matmul_state;

cm_status cm_cuda_conv_matmul_ready(cm_ctx *cx, cm_device *d, cm_arena *arena, const cm_problem *p,
                                    const cm_knobs *k, const void **state)
{
    matmul_state *s;
    CM_NEW(cx, arena, s, matmul_state);
    derive(p, &s->d);
    *state = s;
    return cm_cuda_matmul_wgmma_ready(cx, d, arena, &s->d.p, k, &s->state);
}

cm_status cm_cuda_conv_matmul_run(const cm_run *r)
{
    const matmul_state *s = r->state;
    cm_run then = *r;
    then.p = &s->d.p;
    then.state = s->state;
    return cm_cuda_matmul_wgmma_run(&then);
}
