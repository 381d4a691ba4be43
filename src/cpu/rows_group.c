/* rows_group.c -- group and instance normalisation, channels first or last.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Channels first: a group is one run of elements and is done at once. Channels last: groups lie side by
 * side, so the moments of all groups of an image are taken over blocks of positions, joined, and applied in a
 * second walk. */
#include <math.h>
#include <string.h>

#include "base/size.h"
#include "cpu/cpu.h"
#include "cpu/epilogue.h"
#include "cpu/rows.h"

enum { BLOCK_ELEMS = 16384, MOST_PIECES = 4 };

/* Images of `space` positions; `image` elements from one to the next. */
typedef struct group_view {
    bool last;
    int64_t images, space, image_in, image_out;
} group_view;

static const char *view_groups(const cm_problem *p, group_view *v)
{
    const cm_rows *r = &p->as.rows;
    const cm_tensor *x = p->in[0], *y = p->out[0];
    int64_t image = cm_tensor_elems(x) / x->dims[0];
    *v = (group_view){.images = x->dims[0],
                      .space = image / r->channels,
                      .image_in = x->dims[0] > 1 ? x->strides[0] : image,
                      .image_out = y->dims[0] > 1 ? y->strides[0] : image};
    if (v->image_out != image)
        return "the output is strided";
    if (cm_is_in_planes(x, r->axis, v->space) && cm_is_in_planes(y, r->axis, v->space))
        return NULL;
    v->last = true;
    return cm_is_in_pixels(x, r->axis) && cm_is_in_pixels(y, r->axis)
               ? NULL
               : "input and output differ in layout";
}

const char *cm_cpu_group_norm_reject(const cm_problem *p)
{
    const cm_rows *r = &p->as.rows;
    group_view v;
    const char *why = view_groups(p, &v);
    if (why)
        return why;
    if (p->in[0]->dtype != CM_F32 || p->in[r->scale]->dtype != CM_F32 ||
        p->in[r->bias]->dtype != CM_F32)
        return "the input is not of float32";
    if (!cm_tensor_is_dense(p->in[r->scale]) || !cm_tensor_is_dense(p->in[r->bias]))
        return "scale or bias is strided";
    if (p->out[0]->dtype != CM_F32)
        return "the output is not of float32";
    int n = cm_cpu_col_axes(p->out[0], v.last ? r->channels : v.space);
    return n < 0 ? "the output is strided" : cm_epilogue_reject(p, n);
}

double cm_cpu_group_norm_cost(const cm_problem *p)
{
    const cm_rows *r = &p->as.rows;
    double wide = p->target.level == CM_ISA_GENERIC ? 4 : p->target.level == CM_ISA_AVX2 ? 8 : 12;
    double elems = (double)r->rows * (double)r->cols;
    group_view v;
    view_groups(p, &v);
    double pieces = v.last ? elems / BLOCK_ELEMS : (double)r->rows;
    double each = (v.last ? 3.5 : 3) / wide + (p->epilogue || r->silu ? 4 / wide : 0);
    return 300 + elems * each / cm_cpu_speedup(p, pieces > 1 ? pieces : 1);
}

/* SiLU alone as the epilogue is done on registers. */
static bool is_silu(const cm_program *e)
{
    return e && e->n_steps == 1 && e->n_outputs == 1 && e->step[0].op == CM_PW_SILU &&
           e->step[0].arg[0].kind == CM_ARG_X;
}

/* ---- Running -------------------------------------------------------------------------------- */

typedef struct group_job {
    const cm_run *run;
    const cm_rows *r;
    const cm_rows_kernels *kernels;
    group_view v;
    cm_epilogue_plan epilogue;
    bool silu, has_epilogue;
    const float *scale, *bias;
    /* channels last */
    int64_t image, block, n_blocks, per_piece;
    double *moments; /* [blocks][groups][2] */
    float *scratch;  /* [blocks] of 3 * channels; then mean, scale, bias per channel */
    float *mean, *factor, *shift;
} group_job;

/* Statistics so large that float32 cannot subtract and scale: in doubles, element by element. */
static bool is_extreme(const double *m, double count)
{
    return !(m[1] / count < 1e30 && fabs(m[0]) < 1e30);
}

static float in_double(const group_job *j, const double *m, double count, int64_t c, float x)
{
    double v = (x - m[0]) / sqrt(m[1] / count + j->r->epsilon) * j->scale[c] + j->bias[c];
    return (float)(j->silu ? v / (1 + exp(-v)) : v);
}

/* scale and bias of channel c: y = (x - mean) * factor + shift. The mean's part below float32 is in shift. */
static void set_affine(const group_job *j, const double *m, double count, int64_t c, float *mean,
                       float *factor, float *shift)
{
    double f = j->scale[c] / sqrt(m[1] / count + j->r->epsilon);
    *mean = (float)m[0];
    *factor = (float)f;
    *shift = (float)(j->bias[c] - (m[0] - *mean) * f);
}

static void run_first(void *arg, int64_t begin, int64_t end)
{
    const group_job *j = arg;
    const cm_rows *r = j->r;
    int64_t each = r->channels / r->groups, space = j->v.space, n = each * space;
    for (int64_t i = begin; i < end; i++) {
        int64_t image = i / r->groups, first = i % r->groups * each;
        const float *x = (const float *)j->run->in[0] + image * j->v.image_in + first * space;
        float *y = (float *)j->run->out[0] + image * j->v.image_out + first * space;
        double m[2];
        if (!j->kernels->moments(x, n, m))
            cm_moments_slow(x, n, 1, n, m);
        bool extreme = is_extreme(m, (double)n);
        for (int64_t c = 0; c < each; c++, x += space, y += space) {
            float mean, factor, shift;
            for (int64_t s = 0; extreme && s < space; s++)
                y[s] = in_double(j, m, (double)n, first + c, x[s]);
            set_affine(j, m, (double)n, first + c, &mean, &factor, &shift);
            if (!extreme)
                j->kernels->affine(x, y, space, mean, factor, shift, j->silu);
            if (j->has_epilogue)
                cm_epilogue_tile(&j->epilogue, image * r->channels + first + c, 0, 1, space, y,
                                 space);
        }
    }
}

static void take_moments(void *arg, int64_t begin, int64_t end)
{
    const group_job *j = arg;
    const cm_rows *r = j->r;
    const float *x = (const float *)j->run->in[0] + j->image * j->v.image_in;
    for (int64_t b = begin; b < end; b++) {
        int64_t n = cm_min_i64(j->block, j->v.space - b * j->block), each = r->channels / r->groups;
        const float *at = x + b * j->block * r->channels;
        double *out = j->moments + b * r->groups * 2;
        if (j->kernels->group_moments(at, n, r->channels, r->groups,
                                      j->scratch + b * 3 * r->channels, out))
            continue;
        for (int64_t g = 0; g < r->groups; g++)
            cm_moments_slow(at + g * each, each, n, r->channels, out + 2 * g);
    }
}

static void join_moments(group_job *j)
{
    const cm_rows *r = j->r;
    int64_t each = r->channels / r->groups;
    double count = (double)(each * j->v.space);
    for (int64_t g = 0; g < r->groups; g++) {
        double *m = j->moments + 2 * g;
        double have = (double)(each * cm_min_i64(j->block, j->v.space));
        for (int64_t b = 1; b < j->n_blocks; b++) {
            double n = (double)(each * cm_min_i64(j->block, j->v.space - b * j->block));
            cm_moments_join(m, have, j->moments + (b * r->groups + g) * 2, n);
            have += n;
        }
        for (int64_t c = g * each; c < (g + 1) * each; c++)
            set_affine(j, m, count, c, j->mean + c, j->factor + c, j->shift + c);
    }
}

static void fix_extremes(const group_job *j, const float *x, float *y, int64_t n)
{
    const cm_rows *r = j->r;
    int64_t each = r->channels / r->groups;
    double count = (double)(each * j->v.space);
    for (int64_t g = 0; g < r->groups; g++) {
        const double *m = j->moments + 2 * g;
        for (int64_t i = 0; is_extreme(m, count) && i < n; i++)
            for (int64_t c = g * each; c < (g + 1) * each; c++)
                y[i * r->channels + c] = in_double(j, m, count, c, x[i * r->channels + c]);
    }
}

static void apply_last(void *arg, int64_t begin, int64_t end)
{
    const group_job *j = arg;
    const cm_rows *r = j->r;
    cm_group_norm a = {r->channels, r->groups, j->mean, j->factor, j->shift, j->silu};
    const float *x = (const float *)j->run->in[0] + j->image * j->v.image_in;
    float *y = (float *)j->run->out[0] + j->image * j->v.image_out;
    for (int64_t b = begin; b < end; b++) {
        int64_t at = b * j->block, n = cm_min_i64(j->block, j->v.space - at);
        j->kernels->group_affine(&a, x + at * r->channels, y + at * r->channels, n);
        fix_extremes(j, x + at * r->channels, y + at * r->channels, n);
        if (j->has_epilogue)
            cm_epilogue_tile(&j->epilogue, j->image * j->v.space + at, 0, n, r->channels,
                             y + at * r->channels, r->channels);
    }
}

/* Positions per block: those of L1 or a little more, so that two walks find them there. */
static int64_t block_of(const cm_rows *r)
{
    int64_t n = BLOCK_ELEMS / r->channels;
    return n < 8 ? 8 : n;
}

size_t cm_cpu_group_norm_workspace(const cm_problem *p)
{
    const cm_rows *r = &p->as.rows;
    group_view v;
    if (view_groups(p, &v) || !v.last)
        return 0;
    size_t blocks = (size_t)cm_ceil_div(v.space, block_of(r));
    return blocks * (size_t)r->groups * 2 * sizeof(double) +
           (blocks * 3 + 3) * (size_t)r->channels * sizeof(float);
}

cm_status cm_cpu_group_norm_run(const cm_run *run)
{
    const cm_problem *p = run->p;
    const cm_rows *r = &p->as.rows;
    group_job j = {.run = run,
                   .r = r,
                   .kernels = cm_cpu_rows_kernels(p->target.level),
                   .silu = r->silu || is_silu(p->epilogue),
                   .has_epilogue = p->epilogue && (r->silu || !is_silu(p->epilogue)),
                   .scale = run->in[r->scale],
                   .bias = run->in[r->bias]};
    view_groups(p, &j.v);
    if (j.has_epilogue)
        cm_epilogue_init(&j.epilogue, run,
                         cm_cpu_col_axes(p->out[0], j.v.last ? r->channels : j.v.space));
    if (!j.v.last) {
        int64_t grain = cm_max_i64(1, BLOCK_ELEMS / r->cols);
        cm_parallel(run->threads, r->rows, grain, run_first, &j);
        return CM_OK;
    }
    j.block = block_of(r);
    j.n_blocks = cm_ceil_div(j.v.space, j.block);
    j.moments = run->workspace;
    j.scratch = (float *)(j.moments + j.n_blocks * r->groups * 2);
    j.mean = j.scratch + j.n_blocks * 3 * r->channels;
    j.factor = j.mean + r->channels;
    j.shift = j.factor + r->channels;
    for (j.image = 0; j.image < j.v.images; j.image++) {
        cm_parallel(run->threads, j.n_blocks, 1, take_moments, &j);
        join_moments(&j);
        cm_parallel(run->threads, j.n_blocks, 1, apply_last, &j);
    }
    return CM_OK;
}
