/* sample.c -- SAMPLE: images read at the places of a grid.
 * SPDX-License-Identifier: Apache-2.0
 *
 * One item of work is a run of places of one image, for all channels: what is known of the places is made once. Planes are read
 * place by place, many at once; channels that are innermost are blended as rows. */
#include "cpu/sample.h"

#include <stdatomic.h>
#include <string.h>

#include "base/size.h"
#include "cpu/conv.h"
#include "cpu/cpu.h"
#include "cpu/resize.h"

static bool planes(const cm_problem *p)
{
    return cm_conv_layout_of(p->in[0]) & cm_conv_layout_of(p->out[0]) & CM_CONV_ROW_MAJOR;
}

static const char *reject_common(const cm_problem *p)
{
    enum { LARGEST = 1 << 22 }; /* so that places are exact in float32 */
    const cm_sample *s = &p->as.sample;
    if (s->kind != CM_SAMPLE_GRID)
        return "not at the places of a grid";
    if (p->in[0]->dtype != CM_F32 || p->in[1]->dtype != CM_F32)
        return "images or the grid are not float32";
    for (int d = 0; d < s->axes; d++)
        if (s->in[d] > LARGEST)
            return "an axis of the images is too long";
    return s->in_volume > INT32_MAX ? "the images are too large" : NULL;
}

static const char *reject_planes(const cm_problem *p)
{
    const char *why = reject_common(p);
    return why ? why : planes(p) ? NULL : "input and output are not row-major";
}

static const char *reject_rows(const cm_problem *p)
{
    const char *why = reject_common(p);
    if (why)
        return why;
    return cm_conv_layout_of(p->in[0]) & cm_conv_layout_of(p->out[0]) & CM_CONV_CHANNELS_LAST
               ? NULL
               : "input and output are not channels-last";
}

static int all_taps(const cm_sample *s)
{
    int n = 1;
    for (int d = 0; d < s->axes; d++)
        n *= s->taps;
    return n;
}

/* Places of an item: enough items for all threads, but not so few places that their making shows. */
static int64_t run_places(const cm_problem *p)
{
    enum { LEAST = 32, EACH = 4 };
    const int64_t places = p->as.sample.images * p->as.sample.out_volume;
    int64_t n = p->threads > 1 ? places / ((int64_t)p->threads * EACH) : places;
    n = cm_ceil_div(n, CM_SAMPLE_LANES) * CM_SAMPLE_LANES;
    n = n < LEAST ? LEAST : n;
    return cm_min_i64(n, CM_SAMPLE_RUN);
}

static double items(const cm_problem *p)
{
    const cm_sample *s = &p->as.sample;
    return (double)s->images * (double)cm_ceil_div(s->out_volume, run_places(p));
}

static double cost_planes(const cm_problem *p, const cm_knobs *k)
{
    const cm_sample *s = &p->as.sample;
    static const double fetch[] = {0.4, 0.3, 0.3, 0.3}; /* neighbours in a row, in nanoseconds */
    double places = (double)s->images * (double)s->out_volume;
    double rows = (double)all_taps(s) / s->taps, each = 0.1 + rows * fetch[p->target.level];
    (void)k;
    if (s->taps == 4)
        each *= s->axes == 2 ? 2 : 8; /* without a kernel */
    return (500 + places * (4 + each * (double)s->channels)) / cm_cpu_speedup(p, items(p));
}

static double cost_rows(const cm_problem *p, const cm_knobs *k)
{
    const cm_sample *s = &p->as.sample;
    static const double wide[] = {3, 8, 16, 16}; /* products per nanosecond */
    double places = (double)s->images * (double)s->out_volume;
    double each = (double)all_taps(s) * (3 + (double)s->channels / wide[p->target.level]);
    (void)k;
    return (500 + places * (8 + each)) / cm_cpu_speedup(p, items(p));
}

typedef struct job {
    const cm_run *run;
    const cm_sample *s;
    const cm_sample_kernels *kernels;
    const cm_resize_kernels *rows;
    cm_sample_axis axis[CM_SAMPLE_AXES];
    int64_t step[CM_SAMPLE_AXES];   /* elements between neighbours of a plane */
    int n_taps;                     /* of a place */
    int32_t offset[CM_SAMPLE_TAPS]; /* those of a place that is inside, from its first */
    int64_t places, runs;           /* of an item; items of an image */
    bool has_kernel, planes, dense_grid;
    _Atomic int64_t next;
} job;

static size_t piece_bytes(const cm_problem *p)
{
    size_t taps = (size_t)all_taps(&p->as.sample) * CM_SAMPLE_RUN;
    size_t bytes = sizeof(cm_sample_run) + taps * (sizeof(int32_t) + sizeof(float));
    return (bytes + 63) / 64 * 64;
}

static size_t workspace(const cm_problem *p, const cm_knobs *k)
{
    (void)k;
    return piece_bytes(p) * (size_t)(p->threads > 1 ? p->threads : 1);
}

/* ---- What is known of a run ------------------------------------------------------------------------ */

/* Coordinates of places from `begin` on, axis by axis, of a grid that is strided; the innermost comes first. */
static void read_grid(const job *j, int64_t image, int64_t begin, cm_sample_run *run)
{
    const cm_tensor *t = j->run->p->in[1];
    const int axes = j->s->axes;
    int64_t at[CM_SAMPLE_AXES], rest = begin;
    for (int d = axes - 1; d >= 0; d--) {
        at[d] = rest % t->dims[d + 1];
        rest /= t->dims[d + 1];
    }
    for (int i = 0; i < run->n; i++) {
        const float *g = (const float *)j->run->in[1] + image * t->strides[0];
        for (int d = 0; d < axes; d++)
            g += at[d] * t->strides[d + 1];
        for (int d = 0; d < axes; d++)
            run->grid[d][i] = g[(axes - 1 - d) * t->strides[axes + 1]];
        for (int d = axes - 1; d >= 0 && ++at[d] == t->dims[d + 1]; d--)
            at[d] = 0;
    }
}

static void find_rim(const job *j, cm_sample_run *run)
{
    int n_taps = 0;
    run->n_rim = 0;
    for (int i = 0; i < run->n && run->n_inside < run->n; i++) {
        float g[CM_SAMPLE_AXES];
        if (run->inside[i] || (j->s->padding == CM_SAMPLE_ZEROS && !run->touches[i]))
            continue;
        for (int d = 0; d < j->s->axes; d++)
            g[d] = run->grid[d][i];
        run->rim[run->n_rim] = i;
        run->begin[run->n_rim++] = n_taps;
        n_taps += cm_sample_rim_taps(j->s, g, run->index + n_taps, run->rim_weight + n_taps);
    }
    run->begin[run->n_rim] = n_taps;
}

static void prepare(const job *j, int64_t image, int64_t begin, cm_sample_run *run)
{
    const int axes = j->s->axes;
    const int padded = (run->n + CM_SAMPLE_LANES - 1) / CM_SAMPLE_LANES * CM_SAMPLE_LANES;
    const float *grid = j->run->in[1];
    if (j->dense_grid)
        j->kernels->unpack(grid + (image * j->s->out_volume + begin) * axes, axes, run);
    else
        read_grid(j, image, begin, run);
    for (int d = 0; d < axes; d++)
        for (int i = run->n; i < padded; i++)
            run->grid[d][i] = 0;
    memset(run->inside, j->has_kernel ? 0xff : 0, (size_t)padded * sizeof *run->inside);
    memset(run->touches, 0xff, (size_t)padded * sizeof *run->touches);
    for (int d = 0; d < axes; d++)
        j->kernels->locate(&j->axis[d], d, run);
    j->kernels->settle(j->step, axes, run);
    for (int d = 0; d < 2 && j->planes && j->s->taps == 4 && j->has_kernel; d++)
        j->kernels->cubic_weights(run->part[d], padded, run->weight[d]);
    find_rim(j, run);
}

/* ---- Planes ---------------------------------------------------------------------------------------- */

static void inside_plane(const job *j, const cm_sample_run *run, const float *x, float *y)
{
    if (run->n_inside == 0) /* an image that is too small for kernels, perhaps */
        memset(y, 0, (size_t)run->n * sizeof *y);
    else if (j->s->taps == 1)
        j->kernels->nearest(x, run, y);
    else if (j->s->taps == 2)
        j->kernels->linear[j->s->axes - 1](x, j->step, run, y);
    else
        j->kernels->cubic(x, j->step, run, y);
}

static void rim_plane(const cm_sample_run *run, const float *x, float *y)
{
    for (int r = 0; r < run->n_rim; r++) {
        float sum = 0;
        for (int t = run->begin[r]; t < run->begin[r + 1]; t++)
            sum += run->rim_weight[t] * x[run->index[t]];
        y[run->rim[r]] = sum;
    }
}

static void run_item_planes(const job *j, int64_t image, int64_t begin, const cm_sample_run *run)
{
    const cm_sample *s = j->s;
    const float *x = (const float *)j->run->in[0] + image * s->channels * s->in_volume;
    float *y = (float *)j->run->out[0] + image * s->channels * s->out_volume + begin;
    for (int64_t c = 0; c < s->channels; c++, x += s->in_volume, y += s->out_volume) {
        inside_plane(j, run, x, y);
        rim_plane(run, x, y);
    }
}

/* ---- Channels innermost ---------------------------------------------------------------------------- */

static void blend(const job *j, int n, const float *x, const int32_t *index, const float *weight,
                  float *y)
{
    const int64_t channels = j->s->channels;
    if (n == 0)
        memset(y, 0, (size_t)channels * sizeof *y);
    for (int from = 0; from < n; from += CM_BLEND_ROWS) {
        const int rows = n - from < CM_BLEND_ROWS ? n - from : CM_BLEND_ROWS;
        const float *at[CM_BLEND_ROWS];
        for (int r = 0; r < rows; r++)
            at[r] = x + index[from + r] * channels;
        j->rows->blend(rows, at, weight + from, channels, from > 0, y);
    }
}

static void run_item_rows(const job *j, int64_t image, int64_t begin, const cm_sample_run *run)
{
    const cm_sample *s = j->s;
    const float *x = (const float *)j->run->in[0] + image * s->channels * s->in_volume;
    float *y = (float *)j->run->out[0] + (image * s->out_volume + begin) * s->channels;
    for (int i = 0, rim = 0; i < run->n; i++, y += s->channels) {
        float weight[CM_SAMPLE_TAPS];
        if (run->inside[i]) {
            cm_sample_inside_weights(s, run, i, weight);
            blend(j, j->n_taps, x + run->base[i] * s->channels, j->offset, weight, y);
        } else if (rim < run->n_rim && run->rim[rim] == i) {
            const int from = run->begin[rim], to = run->begin[++rim];
            blend(j, to - from, x, run->index + from, run->rim_weight + from, y);
        } else {
            blend(j, 0, x, NULL, NULL, y);
        }
    }
}

/* ---- Running ---------------------------------------------------------------------------------------- */

/* Takes items until there are none, with the memory of this piece. */
static void run_items(void *arg, int64_t begin, int64_t end)
{
    job *j = arg;
    const cm_problem *p = j->run->p;
    for (int64_t piece = begin; piece < end; piece++) {
        cm_sample_run *run = (void *)((char *)j->run->workspace + (size_t)piece * piece_bytes(p));
        run->index = (int32_t *)(run + 1);
        run->rim_weight = (float *)(run->index + (size_t)all_taps(j->s) * CM_SAMPLE_RUN);
        for (int64_t i; (i = atomic_fetch_add(&j->next, 1)) < j->s->images * j->runs;) {
            const int64_t image = i / j->runs, from = i % j->runs * j->places;
            run->n = (int)cm_min_i64(j->places, j->s->out_volume - from);
            prepare(j, image, from, run);
            (j->planes ? run_item_planes : run_item_rows)(j, image, from, run);
        }
    }
}

static void init_axes(job *j)
{
    int64_t step = 1;
    for (int d = j->s->axes - 1; d >= 0; d--) {
        const float size = (float)j->s->in[d];
        j->axis[d] = (cm_sample_axis){.scale = (j->s->align_corners ? size - 1 : size) / 2,
                                      .shift = (size - 1) / 2,
                                      .last = size - 1,
                                      .taps = j->s->taps};
        j->step[d] = step;
        step *= j->s->in[d];
    }
    j->n_taps = all_taps(j->s);
    for (int t = 0; t < j->n_taps; t++) {
        int64_t offset = 0;
        for (int d = j->s->axes - 1, rest = t; d >= 0; d--, rest /= j->s->taps)
            offset += rest % j->s->taps * j->step[d];
        j->offset[t] = (int32_t)offset; /* too far only where no place is inside */
    }
}

static cm_status run_any(const cm_run *r, bool by_planes)
{
    const cm_problem *p = r->p;
    const int level = p->target.level;
    job j = {.run = r, .s = &p->as.sample, .places = run_places(p), .planes = by_planes};
    if (cm_tensor_elems(p->out[0]) == 0)
        return CM_OK;
    j.kernels = level >= CM_ISA_AVX512 ? &cm_cpu_sample__avx512
                : level >= CM_ISA_AVX2 ? &cm_cpu_sample__avx2
                                       : &cm_cpu_sample__generic;
    j.rows = cm_resize_kernels_at(level);
    j.has_kernel = !by_planes || j.s->taps < 4 || j.s->axes == 2;
    j.dense_grid = cm_tensor_is_dense(p->in[1]);
    j.runs = cm_ceil_div(j.s->out_volume, j.places);
    init_axes(&j);
    const int64_t threads = p->threads > 1 ? p->threads : 1;
    cm_parallel(r->threads, cm_min_i64(threads, j.s->images * j.runs), 1, run_items, &j);
    return CM_OK;
}

static cm_status run_planes(const cm_run *r)
{
    return run_any(r, true);
}

static cm_status run_rows(const cm_run *r)
{
    return run_any(r, false);
}

static const cm_tactic rows[] = {
    {.name = "sample_planes",
     .level = CM_ISA_GENERIC,
     .reject = reject_planes,
     .cost = cost_planes,
     .workspace = workspace,
     .run = run_planes},
    {.name = "sample_channels_last",
     .level = CM_ISA_GENERIC,
     .reject = reject_rows,
     .cost = cost_rows,
     .workspace = workspace,
     .run = run_rows},
};

const cm_cpu_table cm_cpu_sample = {rows, CM_COUNT(rows)};
