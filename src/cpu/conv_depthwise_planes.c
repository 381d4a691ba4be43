/* conv_depthwise_planes.c -- convolutions of each channel with its own window, row-major.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A plane is copied with its padding written out, then each kernel position is a shift of it. Planes are
 * the units of work. Weights are read where they lie. */
#include <math.h>
#include <string.h>

#include "base/size.h"
#include "cpu/conv.h"
#include "cpu/conv_copied.h"
#include "cpu/depthwise.h"
#include "cpu/gemm.h"

enum {
    TAPS = 1024,          /* shifts on the stack */
    SLOTS = 4,            /* pieces of the work, with a copy each, per thread */
    MOST_FLOATS = 1 << 29 /* of a copy: shifts are 32 bits */
};

typedef void (*plane_fn)(const cm_depthwise_plane *a);

typedef struct {
    const cm_conv *c;
    const float *x, *w, *bias;
    float *y, *copies;
    plane_fn kernel;
    cm_epilogue_plan plan;
    bool simple;
    cm_simple_epilogue e;
    cm_conv_copied s;
    int32_t shift[TAPS];
    int64_t planes, slots, copy;
} job;

const char *cm_cpu_conv_depthwise_planes_f32_reject(const cm_problem *p)
{
    const cm_conv *c = &p->as.conv;
    if (c->transposed)
        return "transposed";
    if (c->groups != c->c_in)
        return "not one channel to a group";
    if (!(cm_conv_layout_of(p->in[0]) & cm_conv_layout_of(p->out[0]) & CM_CONV_ROW_MAJOR))
        return "not row-major";
    if (!cm_tensor_is_dense(p->in[1]))
        return "the weights are strided";
    if (p->out[0]->dtype != CM_F32)
        return "the output is not float32";
    double floats = 1;
    for (int d = 0; d < 3; d++)
        floats *= (double)cm_conv_extent(c, d) + (double)c->stride[d];
    if (cm_conv_taps(c) > TAPS || floats > MOST_FLOATS)
        return "too large a window or plane";
    return cm_conv_reject_common(p, cm_conv_plane_columns(p->out[0]));
}

static int64_t copy_floats(const cm_conv *c)
{
    return (int64_t)cm_round_up((size_t)(cm_conv_copied_of(c).plane + CM_DEPTHWISE_SLACK), 16);
}

double cm_cpu_conv_depthwise_planes_f32_cost(const cm_problem *p, const cm_knobs *k)
{
    (void)k;
    const cm_conv *c = &p->as.conv;
    const cm_gemm_f32_kernel *g = cm_gemm_f32_kernel_of(p->target.level);
    double planes = (double)(c->n * c->c_out), lines = planes * (double)(c->out[0] * c->out[1]);
    double compute = cm_conv_flops(c) * cm_conv_columns(g->nr, c->out[2]) /
                     (0.6 * cm_cpu_flops_per_ns(&p->target));
    double copy = planes * (double)copy_floats(c) * (c->stride[2] == 1 ? 0.1 : 0.8);
    double memory = cm_conv_bytes(p) / (4 * cm_cpu_bytes_per_ns(&p->target));
    double ns = compute + copy + memory + 20 * planes + 4 * lines;
    return 200 + cm_conv_shared(p, ns, cm_conv_ns(p) / CM_DEPTHWISE_PACE, planes);
}

size_t cm_cpu_conv_depthwise_planes_f32_workspace(const cm_problem *p, const cm_knobs *k)
{
    (void)k;
    size_t threads = p->threads > 1 ? (size_t)p->threads : 1;
    return SLOTS * threads * (size_t)copy_floats(&p->as.conv) * sizeof(float);
}

static void one_plane(const job *j, int64_t row, float *copy)
{
    const cm_conv *c = j->c;
    int64_t channel = row % c->c_out, from = channel / (c->c_out / c->groups);
    int64_t in = c->in[0] * c->in[1] * c->in[2], slice = c->out[1] * c->out[2];
    int64_t out = c->out[0] * slice;
    cm_conv_copy_plane(c, &j->s, j->x + (row / c->c_out * c->c_in + from) * in, copy);
    cm_depthwise_plane a = {.w = j->w + channel * cm_conv_taps(c),
                            .shift = j->shift,
                            .taps = cm_conv_taps(c),
                            .x_row = c->stride[1] * j->s.line,
                            .rows = c->out[1],
                            .cols = c->out[2],
                            .bias = j->bias ? j->bias[channel] : 0,
                            .lo = j->e.lo,
                            .hi = j->e.hi};
    for (int64_t z = 0; z < c->out[0]; z++) {
        a.x = copy + z * c->stride[0] * j->s.rows * j->s.line;
        a.y = j->y + row * out + z * slice;
        a.residual = j->e.residual ? j->e.residual + row * j->e.residual_ld + z * slice : NULL;
        j->kernel(&a);
    }
    if (!j->simple)
        cm_epilogue_tile(&j->plan, row, 0, 1, out, j->y + row * out, out);
}

static void some_slots(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    for (int64_t s = begin; s < end; s++) {
        float *copy = j->copies + s * j->copy;
        memset(copy + j->s.plane, 0, CM_DEPTHWISE_SLACK * sizeof *copy);
        int64_t last = (s + 1) * j->planes / j->slots;
        for (int64_t row = s * j->planes / j->slots; row < last; row++)
            one_plane(j, row, copy);
    }
}

static plane_fn kernel_for(int level)
{
    return level >= CM_ISA_AVX512 ? cm_cpu_depthwise_plane_f32__avx512
           : level == CM_ISA_AVX2 ? cm_cpu_depthwise_plane_f32__avx2
                                  : cm_cpu_depthwise_plane_f32__generic;
}

cm_status cm_cpu_conv_depthwise_planes_f32_run(const cm_run *r)
{
    const cm_problem *p = r->p;
    const cm_conv *c = &p->as.conv;
    job j = {.c = c,
             .x = r->in[0],
             .w = r->in[1],
             .bias = c->bias ? r->in[2] : NULL,
             .y = r->out[0],
             .copies = r->workspace,
             .kernel = kernel_for(p->target.level),
             .s = cm_conv_copied_of(c),
             .planes = c->n * c->c_out,
             .copy = copy_floats(c)};
    cm_epilogue_init(&j.plan, r, cm_conv_plane_columns(p->out[0]));
    j.simple = cm_epilogue_simple(&j.plan, &j.e);
    if (j.e.bias) { /* one for each pixel */
        j.simple = false;
        j.e = (cm_simple_epilogue){.lo = -INFINITY, .hi = INFINITY};
    }
    cm_conv_set_shifts(c, &j.s, 1, j.shift);
    int64_t threads = cm_min_i64(p->threads > 1 ? p->threads : 1, cm_threads_count(r->threads));
    double ns = cm_conv_ns(p) / CM_DEPTHWISE_PACE;
    j.slots = cm_conv_slots(ns, cm_min_i64(threads > 1 ? SLOTS * threads : 1, j.planes));
    cm_conv_parallel(r, ns, j.slots, some_slots, &j);
    return CM_OK;
}
