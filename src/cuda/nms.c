/* nms.c -- NMS: a block for each class of a batch, then what was kept, one after the other.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/nest.h"
#include "cuda/tactics.h"

#include <stdio.h>

#include "base/size.h"

enum { THREADS = 512, MOST_BLOCKS = 1024 };
enum { BOXES, SCORES, MOST, OVERLAP, LEAST_SCORE }; /* inputs */

typedef struct {
    const cm_kernel *rows, *write;
    cm_grid rows_grid, write_grid;
} state;

static const char *reject(const cm_problem *p)
{
    static const cm_dtype types[] = {CM_F32, CM_F32, CM_I64, CM_F32, CM_F32};
    const cm_nms *s = &p->as.nms;
    for (int i = 0; i < p->n_in; i++) {
        if (p->in[i] && p->in[i]->dtype != types[i])
            return "the element type";
        if (p->in[i] && !cm_tensor_is_dense(p->in[i]))
            return "an input is strided";
    }
    if (s->boxes > INT32_MAX / 4 || s->rows > INT32_MAX || s->rows * s->most > INT32_MAX)
        return "more than 2^31 - 1 boxes could be selected";
    return cm_tensor_is_dense(p->out[0]) ? NULL : "the output is strided";
}

static double cost(const cm_problem *p, const cm_knobs *k)
{
    enum { ROW_NS = 20000, BOX_NS = 2 };
    const cm_nms *s = &p->as.nms;
    cm_gpu_facts f;
    (void)k;
    cm_gpu_facts_of(&p->target, &f);
    double rounds = (double)cm_ceil_div(s->rows, f.multiprocessors);
    return 2 * cm_gpu_stream_ns(&p->target, 0) + rounds * (ROW_NS + BOX_NS * (double)s->boxes);
}

/* Corners of what was kept, which they are, how many of each row. */
static size_t workspace(const cm_problem *p, const cm_knobs *k)
{
    const cm_nms *s = &p->as.nms;
    (void)k;
    return (size_t)(s->rows * s->most) * (4 * sizeof(float) + sizeof(uint32_t)) +
           (size_t)s->rows * sizeof(uint32_t);
}

static cm_status ready(cm_ctx *cx, cm_device *d, cm_arena *arena, const cm_problem *p,
                       const cm_knobs *k, const void **out)
{
    const cm_nms *s = &p->as.nms;
    char defines[64];
    state *st = cm_new(arena, state);
    (void)k;
    if (!st)
        return cm_fail_memory(cx);
    *out = st;
    snprintf(defines, sizeof defines, "#define CENTER %d\n", s->center);
    cm_kernel_text t = {.file = "nms", .defines = defines, .entry = "nms_rows"};
    unsigned blocks = (unsigned)cm_max_i64(1, cm_min_i64(s->rows, MOST_BLOCKS));
    st->rows_grid = st->write_grid = (cm_grid){.blocks = {blocks}, .threads = {THREADS}};
    CM_TRY(cm_gpu_kernel(cx, d, &t, 0, &st->rows));
    t.entry = "nms_write";
    return cm_gpu_kernel(cx, d, &t, 0, &st->write);
}

static const void *input(const cm_run *r, int i)
{
    return i < r->p->n_in && r->p->in[i] ? r->in[i] : NULL;
}

static cm_status run(const cm_run *r)
{
    const state *st = r->state;
    const cm_nms *s = &r->p->as.nms;
    size_t room = (size_t)(s->rows * s->most);
    float *corners = r->workspace;
    uint32_t *indices = (uint32_t *)(corners + 4 * room);
    struct {
        const void *boxes, *scores, *most, *overlap, *least_score;
        void *y;
        int64_t *count;
        uint32_t *kept, *indices;
        float *corners;
        int64_t rows;
        uint32_t classes, n, room;
    } a = {input(r, BOXES),
           input(r, SCORES),
           input(r, MOST),
           input(r, OVERLAP),
           input(r, LEAST_SCORE),
           r->out[0],
           r->count,
           indices + room,
           indices,
           corners,
           s->rows,
           (uint32_t)s->classes,
           (uint32_t)s->boxes,
           (uint32_t)s->most};
    CM_TRY(cm_gpu_launch(r, st->rows, &st->rows_grid, (void *[]){&a}));
    return cm_gpu_launch(r, st->write, &st->write_grid, (void *[]){&a});
}

const cm_tactic cm_cuda_nms_tactics[] = {
    {.name = "cuda_nms",
     .level = 750,
     .reject = reject,
     .cost = cost,
     .workspace = workspace,
     .ready = ready,
     .run = run},
};
const int cm_cuda_nms_count = CM_COUNT(cm_cuda_nms_tactics);
