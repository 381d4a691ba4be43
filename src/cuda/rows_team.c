/* rows_team.c -- group and instance normalisation of groups that all blocks keep together in their shared memory.
 * SPDX-License-Identifier: Apache-2.0
 *
 * One kernel, whose blocks are all there at once: groups are of units that blocks take in turns, and each element passes through
 * memory once. kernels/rows_team.cu says how. */
#include "base/size.h"
#include "cuda/rows.h"

enum {
    MOST_SLOTS = 24,
    LEAST_BYTES = 12288, /* of a group: registers of a block hold smaller ones */
    STATS_BYTES = 32,
    TOLD_BYTES = 16,  /* of a row, and of each part of one */
    OWN_BYTES = 1024, /* what the driver takes */
    PUBLISHERS = 64,  /* threads, and those behind them */
    SERVICE = 96,
};

/* Knob 0: threads that keep vectors; 1: vectors of each in a unit; 2: units that a block has room for; 3: of them on their way. */
enum { MAIN, PER, SLOTS, AHEAD };

/* How groups, which are placed, are divided. */
static const char *divide(const cm_problem *p, const cm_knobs *k, cm_rows_args *a)
{
    bool last;
    const char *why = cm_cuda_groups_by_vectors(p, a, &last);
    if (why || last)
        return why ? why : "channels are innermost";
    a->part = (int64_t)k->v[MAIN] * k->v[PER] * cm_cuda_groups_width(p);
    a->parts = cm_ceil_div(a->cols, a->part);
    a->units = a->parts * a->rows;
    return NULL;
}

static int64_t blocks_of(const cm_problem *p, const cm_rows_args *a)
{
    cm_gpu_facts facts;
    cm_gpu_facts_of(&p->target, &facts);
    return cm_min_i64(facts.multiprocessors, a->units);
}

/* Of so many units, with what else a block keeps: kernels/rows_team.cu, desk. */
static int64_t shared_bytes(const cm_knobs *k)
{
    enum { BARRIERS = 16, MOMENTS = 16, ALIGN = 64 };
    int64_t threads = k->v[MAIN];
    int64_t each = threads * k->v[PER] * 16 + BARRIERS + TOLD_BYTES + threads / 32 * MOMENTS;
    return k->v[SLOTS] * each + ALIGN;
}

/* Room for as many units as there is shared memory for. False: a group does not fit, with what is on its way. */
static bool settle(const cm_problem *p, cm_knobs *k)
{
    enum { BYTES_AHEAD = 49152 };
    cm_rows_args a;
    cm_gpu_facts facts;
    cm_gpu_facts_of(&p->target, &facts);
    if (divide(p, k, &a))
        return false;
    k->v[SLOTS] = MOST_SLOTS;
    while (k->v[SLOTS] > 0 && shared_bytes(k) + OWN_BYTES > facts.shared_bytes)
        k->v[SLOTS]--;
    int64_t unit = (int64_t)k->v[MAIN] * k->v[PER] * 16;
    k->v[AHEAD] = (int)cm_max_i64(2, cm_ceil_div(BYTES_AHEAD, unit));
    int64_t delay = k->v[SLOTS] - k->v[AHEAD];
    return delay >= 1 + cm_ceil_div(a.parts, blocks_of(p, &a)) && a.units < INT32_MAX;
}

int cm_cuda_team_knobs(const cm_problem *p, cm_knobs *out)
{
    static const int shapes[][2] = {{512, 4}, {256, 8}, {384, 4}, {512, 2}};
    int n = 0;
    for (int i = 0; i < CM_COUNT(shapes); i++) {
        cm_knobs k = {{shapes[i][0], shapes[i][1]}};
        if (settle(p, &k))
            out[n++] = k;
    }
    return n;
}

const char *cm_cuda_team_reject(const cm_problem *p)
{
    cm_rows_args a;
    cm_knobs knobs[CM_MAX_KNOBS];
    const char *why = divide(p, &(cm_knobs){{512, 4}}, &a);
    if (why)
        return why;
    if (a.cols * (int64_t)cm_dtype_size(p->in[0]->dtype) < LEAST_BYTES)
        return "groups are small";
    return cm_cuda_team_knobs(p, knobs) == 0 ? "blocks cannot keep a whole group" : NULL;
}

/* What is told of all rows and of all that they have. */
static int64_t told_bytes(const cm_rows_args *a)
{
    return (a->rows + a->units) * TOLD_BYTES;
}

size_t cm_cuda_team_workspace(const cm_problem *p, const cm_knobs *k)
{
    cm_rows_args a;
    if (divide(p, k, &a))
        return 0;
    int64_t bytes = told_bytes(&a) + a.rows * STATS_BYTES;
    return (size_t)cm_max_i64(bytes, (int64_t)cm_cuda_groups_workspace(p, k));
}

/* Each unit costs a block something beside what passes through memory. As measured (H200). */
double cm_cuda_team_cost(const cm_problem *p, const cm_knobs *k)
{
    enum { BEGIN_NS = 5000, UNIT_NS = 680 };
    cm_rows_args a;
    cm_gpu_facts facts;
    cm_gpu_facts_of(&p->target, &facts);
    (void)divide(p, k, &a);
    double steps = (double)cm_ceil_div(a.units, blocks_of(p, &a));
    double times = k->v[MAIN] == 256 ? 1.12 : k->v[MAIN] == 384 ? 1.05 : 1;
    double memory = cm_cuda_rows_bytes(p) / facts.read_gbs / 1.3;
    return facts.launch_ns + BEGIN_NS + (steps * UNIT_NS + memory) * times;
}

/* Groups that follow each other from image to image are one axis. */
static void place_evenly(const cm_problem *p, cm_rows_args *a)
{
    int64_t image = a->groups * a->cols;
    if (p->n_operands > 0 || a->at_x.outer[0] != image || a->at_y.outer[0] != image)
        return;
    a->n_outer = 1;
    a->dims[0] = a->rows;
    a->at_x.outer[0] = a->at_y.outer[0] = a->cols;
}

cm_status cm_cuda_team_ready(cm_ctx *cx, cm_device *d, cm_arena *arena, const cm_problem *p,
                             const cm_knobs *k, const void **out)
{
    cm_rows_together *s = cm_new(arena, cm_rows_together);
    if (!s)
        return cm_fail_memory(cx);
    *out = s;
    cm_rows_args *a = &s->args;
    (void)divide(p, k, a);
    place_evenly(p, a);
    s->told = (size_t)told_bytes(a);
    int width = cm_cuda_groups_width(p);
    s->grid = (cm_grid){.blocks = {(unsigned)blocks_of(p, a)},
                        .threads = {(unsigned)k->v[MAIN] + PUBLISHERS + SERVICE},
                        .shared = (size_t)shared_bytes(k),
                        .together = true};
    CM_TRY(cm_cuda_groups_ready_narrow(cx, d, arena, p, &s->narrow));
    cm_buf b;
    cm_buf_init(&b, cx->allocator);
    cm_cuda_rows_text(&b, p, a);
    cm_buf_printf(&b,
                  "#define MAIN %d\n#define PER %d\n#define SLOTS %d\n#define AHEAD %d\n"
                  "#define WIDTH %d\n#define CHANNELS_LAST 0\n#define WHOLE_CHANNELS %d\n"
                  "#define PUBLISHERS %d\n",
                  k->v[MAIN], k->v[PER], k->v[SLOTS], k->v[AHEAD], width, a->space % width == 0,
                  PUBLISHERS);
    return cm_gpu_kernel_with(cx, d, &b,
                              (cm_kernel_text){.file = "rows_team", .entry = "rows_team"},
                              s->grid.shared, &s->kernel);
}
