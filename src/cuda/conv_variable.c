/* conv_variable.c -- convolutions whose weights come with each run: they are packed on the device, then conv_tile.c has them.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "base/size.h"
#include "cuda/conv.h"
#include "cuda/nest.h"

/* The same convolution with weights that do not vary. */
typedef struct {
    cm_problem p;
    bool constant[3];
} derived;

static void derive(const cm_problem *p, derived *d)
{
    d->p = *p;
    for (int i = 0; i < p->n_in && i < CM_COUNT(d->constant); i++)
        d->constant[i] = i == 1 || p->constant[i];
    d->p.constant = d->constant;
}

const char *cm_cuda_conv_variable_reject(const cm_problem *p)
{
    derived d;
    if (p->constant[1])
        return "the weights are constant";
    derive(p, &d);
    return cm_cuda_conv_tile_reject(&d.p);
}

int cm_cuda_conv_variable_knobs(const cm_problem *p, cm_knobs *out)
{
    derived d;
    derive(p, &d);
    return cm_cuda_conv_tile_knobs(&d.p, out);
}

static size_t packed_bytes(const cm_problem *p)
{
    size_t bytes = cm_gpu_conv_pack_bytes(p, NULL, 1);
    return (bytes + 255) / 256 * 256;
}

double cm_cuda_conv_variable_cost(const cm_problem *p, const cm_knobs *k)
{
    derived d;
    derive(p, &d);
    return cm_cuda_conv_tile_cost(&d.p, k) +
           cm_gpu_stream_ns(&p->target, 2 * (double)packed_bytes(p));
}

size_t cm_cuda_conv_variable_workspace(const cm_problem *p, const cm_knobs *k)
{
    derived d;
    derive(p, &d);
    return packed_bytes(p) + cm_cuda_conv_tile_workspace(&d.p, k);
}

/* As kernels/conv_weights.cu has it. */
typedef struct {
    const void *from;
    void *to;
    uint32_t lines, pitch, inputs, taps, outputs, kernel[3];
    int64_t group, out, in, tap[3];
} weights_args;

typedef struct {
    derived d;
    const cm_kernel *kernel;
    cm_grid grid;
    weights_args args;
    const void *state; /* of the tactic that does the rest */
} variable_state;

/* Weights are [c_out, inputs of a group, kernel]; transposed: [c_in, outputs of a group, kernel]. */
static void set_args(const cm_problem *p, weights_args *a)
{
    const cm_conv *c = &p->as.conv;
    const cm_tensor *w = p->in[1];
    int64_t inputs = c->c_in / c->groups, outputs = c->c_out / c->groups;
    int64_t elems = (int64_t)(cm_gpu_conv_pack_bytes(p, NULL, 1) / cm_dtype_size(w->dtype));
    *a = (weights_args){.lines = (uint32_t)c->c_out,
                        .pitch = (uint32_t)(elems / c->c_out),
                        .inputs = (uint32_t)inputs,
                        .taps = (uint32_t)cm_gpu_conv_taps(c),
                        .outputs = (uint32_t)outputs,
                        .group = (c->transposed ? inputs : outputs) * w->strides[0],
                        .out = w->strides[c->transposed ? 1 : 0],
                        .in = w->strides[c->transposed ? 0 : 1]};
    for (int d = 0; d < 3; d++) {
        int axis = 2 + d - (3 - c->axes);
        a->kernel[d] = (uint32_t)c->kernel[d];
        a->tap[d] = axis < 2 ? 0 : w->strides[axis];
    }
}

cm_status cm_cuda_conv_variable_ready(cm_ctx *cx, cm_device *d, cm_arena *arena,
                                      const cm_problem *p, const cm_knobs *k, const void **state)
{
    variable_state *s;
    char defines[64];
    CM_NEW(cx, arena, s, variable_state);
    derive(p, &s->d);
    set_args(p, &s->args);
    s->grid =
        (cm_grid){.blocks = {cm_gpu_blocks(&p->target, (int64_t)s->args.lines * s->args.pitch)},
                  .threads = {CM_GPU_THREADS},
                  .overlaps = p->target.level >= 900};
    *state = s;
    snprintf(defines, sizeof defines, "#define ELEMENT %s\n", cm_element_text(p->in[1]->dtype));
    CM_TRY(cm_gpu_kernel(cx, d, &(cm_kernel_text){"conv_weights", defines, "conv_weights"}, 0,
                         &s->kernel));
    return cm_cuda_conv_tile_ready(cx, d, arena, &s->d.p, k, &s->state);
}

cm_status cm_cuda_conv_variable_run(const cm_run *r)
{
    const variable_state *s = r->state;
    weights_args a = s->args;
    a.from = r->in[1];
    a.to = r->workspace;
    CM_TRY(cm_gpu_launch(r, s->kernel, &s->grid, (void *[]){&a}));
    const void *in[3] = {r->in[0], r->workspace, r->p->as.conv.bias ? r->in[2] : NULL};
    cm_run then = *r;
    then.p = &s->d.p;
    then.in = in;
    then.state = s->state;
    then.workspace = (char *)r->workspace + packed_bytes(r->p);
    return cm_cuda_conv_tile_run(&then);
}
