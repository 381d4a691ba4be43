/* rows_units.c -- group and instance normalisation of groups that no cluster of blocks keeps, by vectors.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Three kernels as those of rows_group.c, which takes what vectors do not fit, but for units that are a few vectors of each thread. */
#include "base/size.h"
#include "cuda/rows.h"

enum { THREADS = 256, HELD = 8, STATS_BYTES = 32, PART_BYTES = 16, CHANNEL_BYTES = 12 };
enum { MOMENTS, JOIN, APPLY, STAGES };

typedef struct {
    const cm_kernel *kernels[STAGES];
    const void *narrow; /* state of the tactic that has no need of vectors */
    cm_grid units, rows;
    cm_rows_args args;
    size_t partials; /* bytes */
} state;

/* How groups (channels first) or images (last) are divided. */
static void divide(const cm_problem *p, bool last, cm_rows_args *a)
{
    int64_t width = cm_cuda_groups_width(p), whole = last ? a->space : a->cols,
            n = last ? a->dims[0] : a->rows;
    a->part = last ? THREADS / (a->channels / width) * HELD : THREADS * width * HELD;
    a->parts = cm_ceil_div(whole, a->part);
    a->units = a->parts * n;
}

const char *cm_cuda_units_reject(const cm_problem *p)
{
    cm_rows_args a;
    bool last;
    const char *why = cm_cuda_groups_by_vectors(p, &a, &last);
    if (why)
        return why;
    if (last && a.channels > THREADS * cm_cuda_groups_width(p))
        return "there are too many channels";
    divide(p, last, &a);
    return a.units > INT32_MAX ? "there are too many parts" : NULL;
}

static int64_t partials_of(const cm_rows_args *a, bool last)
{
    return a->units * (last ? a->groups : 1) * PART_BYTES;
}

size_t cm_cuda_units_workspace(const cm_problem *p, const cm_knobs *k)
{
    cm_rows_args a;
    bool last;
    if (cm_cuda_rows_place_groups(p, &a, &last))
        return 0;
    divide(p, last, &a);
    int64_t bytes = partials_of(&a, last) + a.rows * STATS_BYTES;
    if (last)
        bytes += a.dims[0] * a.channels * CHANNEL_BYTES;
    return (size_t)cm_max_i64(bytes, (int64_t)cm_cuda_groups_workspace(p, k));
}

double cm_cuda_units_cost(const cm_problem *p, const cm_knobs *k)
{
    enum { BEGIN_NS = 4000 };
    cm_rows_args a;
    bool last = false;
    (void)k;
    cm_gpu_facts facts;
    cm_gpu_facts_of(&p->target, &facts);
    (void)cm_cuda_rows_place_groups(p, &a, &last);
    double fast = last ? 0.5 : 0.6;
    return 3 * facts.launch_ns + BEGIN_NS + cm_cuda_rows_bytes(p) / facts.read_gbs / fast;
}

cm_status cm_cuda_units_ready(cm_ctx *cx, cm_device *d, cm_arena *arena, const cm_problem *p,
                              const cm_knobs *k, const void **out)
{
    static const char *const entries[STAGES] = {"moments", "join", "apply"};
    (void)k;
    bool last;
    state *s = cm_new(arena, state);
    if (!s)
        return cm_fail_memory(cx);
    *out = s;
    cm_rows_args *a = &s->args;
    (void)cm_cuda_rows_place_groups(p, a, &last);
    divide(p, last, a);
    s->partials = (size_t)partials_of(a, last);
    s->units = (cm_grid){.blocks = {(unsigned)a->units}, .threads = {THREADS}, .overlaps = true};
    s->rows = (cm_grid){.blocks = {(unsigned)cm_ceil_div(a->rows, THREADS / 32)},
                        .threads = {THREADS},
                        .overlaps = true};
    CM_TRY(cm_cuda_groups_ready_narrow(cx, d, arena, p, &s->narrow));
    for (int i = 0; i < STAGES; i++) {
        cm_buf b;
        cm_buf_init(&b, cx->allocator);
        cm_cuda_rows_text(&b, p, a);
        cm_buf_printf(&b,
                      "#define THREADS %d\n#define WIDTH %d\n#define CHANNELS_LAST %d\n"
                      "#define WHOLE_CHANNELS %d\n#define HELD %d\n#define JOINERS %d\n",
                      THREADS, cm_cuda_groups_width(p), last,
                      a->space % cm_cuda_groups_width(p) == 0, HELD, cm_cuda_groups_joiners(a));
        CM_TRY(cm_gpu_kernel_with(cx, d, &b,
                                  (cm_kernel_text){.file = "rows_units", .entry = entries[i]}, 0,
                                  &s->kernels[i]));
    }
    return CM_OK;
}

cm_status cm_cuda_units_run(const cm_run *r)
{
    const state *s = r->state;
    cm_rows_args a = s->args;
    cm_cuda_rows_point(r, &a);
    if (((uintptr_t)a.x | (uintptr_t)a.y) % 16 != 0)
        return cm_cuda_groups_run_narrow(r, s->narrow);
    a.partials = r->workspace;
    a.stats = (double *)((char *)r->workspace + s->partials);
    for (int i = 0; i < STAGES; i++)
        CM_TRY(cm_gpu_launch(r, s->kernels[i], i == JOIN ? &s->rows : &s->units, (void *[]){&a}));
    return CM_OK;
}
