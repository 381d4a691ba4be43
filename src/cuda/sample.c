/* sample.c -- SAMPLE: images read at the places of a grid, and cells of regions.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/nest.h"
#include "cuda/tactics.h"

#include <stdio.h>

#include "base/size.h"

enum { CHANNELS = 8 }; /* planes of a thread, as in the kernel */

typedef struct {
    const cm_kernel *kernel;
    cm_grid grid;
} state;

static const char *reject(const cm_problem *p)
{
    enum { MOST_PLANES = 65535 * CHANNELS };
    if (p->as.sample.kind != CM_SAMPLE_GRID)
        return "not at the places of a grid";
    if (!cm_gpu_is_float(p->in[0]->dtype) || !cm_gpu_is_float(p->in[1]->dtype))
        return "images or the grid are not floats";
    if (p->as.sample.channels > MOST_PLANES)
        return "too many channels";
    if (!cm_tensor_is_dense(p->in[0]) || !cm_tensor_is_dense(p->in[1]) ||
        !cm_tensor_is_dense(p->out[0]))
        return "an operand is strided";
    return NULL;
}

static double cost(const cm_problem *p, const cm_knobs *k)
{
    enum { SECTOR = 32 };
    const cm_sample *s = &p->as.sample;
    double positions = (double)(s->images * s->out_volume);
    double planes = positions * (double)s->channels, taps = s->taps;
    (void)k;
    for (int d = 1; d < s->axes; d++)
        taps *= s->taps;
    double bytes = planes * (double)cm_dtype_size(p->in[0]->dtype) * 3 + positions * SECTOR;
    return cm_gpu_stream_ns(&p->target, bytes) * (1 + taps / 16);
}

static cm_status ready(cm_ctx *cx, cm_device *d, cm_arena *arena, const cm_problem *p,
                       const cm_knobs *k, const void **out)
{
    const cm_sample *s = &p->as.sample;
    char defines[256];
    state *st = cm_new(arena, state);
    (void)k;
    if (!st)
        return cm_fail_memory(cx);
    *out = st;
    if (cm_tensor_elems(p->out[0]) == 0)
        return CM_OK; /* no kernel, nothing to launch */
    st->grid = (cm_grid){.blocks = {cm_gpu_blocks(&p->target, s->images * s->out_volume),
                                    (unsigned)cm_ceil_div(s->channels, CHANNELS)},
                         .threads = {CM_GPU_THREADS}};
    snprintf(defines, sizeof defines,
             "#define ELEMENT %s\n#define GRID %s\n#define AXES %d\n#define TAPS %d\n"
             "#define PADDING %d\n#define ALIGN %d\n#define NUMBER %s\n",
             cm_gpu_element(p->in[0]->dtype), cm_gpu_element(p->in[1]->dtype), s->axes, s->taps,
             (int)s->padding, s->align_corners, p->in[0]->dtype == CM_F64 ? "double" : "float");
    cm_kernel_text t = {.file = "sample", .defines = defines, .entry = "sample"};
    return cm_gpu_kernel(cx, d, &t, 0, &st->kernel);
}

static cm_status run(const cm_run *r)
{
    const state *st = r->state;
    const cm_sample *s = &r->p->as.sample;
    struct {
        const void *x, *grid;
        void *y;
        int64_t images, channels, in[3], in_volume, out_volume;
    } a = {r->in[0],     r->in[1],     r->out[0],
           s->images,    s->channels,  {s->in[0], s->in[1], s->in[2]},
           s->in_volume, s->out_volume};
    return st->kernel ? cm_gpu_launch(r, st->kernel, &st->grid, (void *[]){&a}) : CM_OK;
}

/* ---- Regions ------------------------------------------------------------------------------------ */

static const char *reject_regions(const cm_problem *p)
{
    enum { MOST_PLANES = 65535 * CHANNELS };
    const cm_sample *s = &p->as.sample;
    if (s->kind != CM_SAMPLE_REGIONS)
        return "not regions";
    if (!cm_gpu_is_float(p->in[0]->dtype) || p->in[1]->dtype != p->in[0]->dtype)
        return "images or regions are not floats";
    if (p->in[2]->dtype != CM_I64)
        return "the type of the images' numbers";
    if (s->channels > MOST_PLANES)
        return "too many channels";
    if (!cm_tensor_is_dense(p->in[0]) || !cm_tensor_is_dense(p->out[0]))
        return "an operand is strided";
    return NULL;
}

static double cost_regions(const cm_problem *p, const cm_knobs *k)
{
    enum { USUAL = 4 }; /* samples of a cell, four pixels each, most of them in the cache */
    const cm_sample *s = &p->as.sample;
    double samples = s->ratio ? (double)(s->ratio * s->ratio) : USUAL;
    double bytes = (double)cm_tensor_elems(p->out[0]) * (double)cm_dtype_size(p->in[0]->dtype);
    (void)k;
    return cm_gpu_stream_ns(&p->target, bytes * (1 + samples));
}

static cm_status ready_regions(cm_ctx *cx, cm_device *d, cm_arena *arena, const cm_problem *p,
                               const cm_knobs *k, const void **out)
{
    const cm_sample *s = &p->as.sample;
    char defines[256];
    state *st = cm_new(arena, state);
    (void)k;
    if (!st)
        return cm_fail_memory(cx);
    *out = st;
    if (cm_tensor_elems(p->out[0]) == 0)
        return CM_OK; /* no kernel, nothing to launch */
    st->grid = (cm_grid){.blocks = {cm_gpu_blocks(&p->target, s->regions * s->out_volume),
                                    (unsigned)cm_ceil_div(s->channels, CHANNELS)},
                         .threads = {CM_GPU_THREADS}};
    snprintf(defines, sizeof defines,
             "#define ELEMENT %s\n#define NUMBER %s\n#define LARGEST %d\n#define HALF_PIXEL %d\n",
             cm_gpu_element(p->in[0]->dtype), p->in[0]->dtype == CM_F64 ? "double" : "float",
             s->largest, s->half_pixel);
    cm_kernel_text t = {.file = "regions", .defines = defines, .entry = "regions"};
    return cm_gpu_kernel(cx, d, &t, 0, &st->kernel);
}

static cm_status run_regions(const cm_run *r)
{
    const state *st = r->state;
    const cm_sample *s = &r->p->as.sample;
    struct {
        const void *x, *regions, *images;
        void *y;
        int64_t n_regions, n_images, channels, in[2], out[2], ratio;
        double scale;
        uint32_t *fault;
        uint32_t fault_code, unused;
    } a = {r->in[0],
           r->in[1],
           r->in[2],
           r->out[0],
           s->regions,
           s->images,
           s->channels,
           {s->in[0], s->in[1]},
           {s->out[0], s->out[1]},
           s->ratio,
           s->scale,
           r->fault,
           r->fault_code,
           0};
    return st->kernel ? cm_gpu_launch(r, st->kernel, &st->grid, (void *[]){&a}) : CM_OK;
}

const cm_tactic cm_cuda_sample_tactics[] = {
    {.name = "cuda_sample",
     .level = 750,
     .reject = reject,
     .cost = cost,
     .ready = ready,
     .run = run},
    {.name = "cuda_regions",
     .level = 750,
     .reject = reject_regions,
     .cost = cost_regions,
     .ready = ready_regions,
     .run = run_regions},
};
const int cm_cuda_sample_count = CM_COUNT(cm_cuda_sample_tactics);
