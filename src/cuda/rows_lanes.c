/* rows_lanes.c -- rows that lie side by side: softmax over the channels of row-major images, and the like.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/size.h"
#include "cuda/rows.h"

enum { FEW_WAYS = 8, MOST_WAYS = 16, LANES = 32, FEW_HELD = 32, MOST_HELD = 64 };
enum {
    READ_NS = 600,
    WALK_NS = 100
}; /* a first read; each of a walk over elements that are not held */

typedef struct {
    const cm_kernel *kernel;
    cm_grid grid;
    cm_rows_args args;
} state;

/* The axis outside of rows along which the input's elements are adjacent, -1: none. */
static int lane_axis(const cm_problem *p)
{
    const cm_rows *r = &p->as.rows;
    const cm_tensor *x = p->in[0];
    for (int a = x->rank - 1; a >= 0; a--)
        if (x->dims[a] > 1 && x->strides[a] == 1 && (a < r->axis || a >= r->axis + r->n_axes))
            return a;
    return -1;
}

const char *cm_cuda_lanes_reject(const cm_problem *p)
{
    const cm_rows *r = &p->as.rows;
    cm_rows_args a;
    const char *why = cm_cuda_rows_reject(p);
    if (why)
        return why;
    if (r->embed || r->kind == CM_ROWS_GROUP_NORM)
        return "the problem has no rows side by side";
    if (r->skip >= 0 || r->mean >= 0 || r->inv_deviation >= 0)
        return "more than the normalised rows is read or written";
    int lanes = lane_axis(p);
    if (r->cols >= INT32_MAX / MOST_WAYS)
        return "rows are too long";
    if (lanes < 0 || r->cols == 1)
        return "rows do not lie side by side";
    return cm_cuda_rows_place(p, lanes, &a);
}

/* Threads to a row: more of them where one could not hold its share. */
static int ways_of(const cm_problem *p)
{
    int ways = FEW_WAYS;
    while (ways < MOST_WAYS && p->as.rows.cols > ways * FEW_HELD)
        ways *= 2;
    return ways;
}

/* Registers for the elements of a thread, few different numbers so that kernels are few; 0: too many. */
static int held_of(const cm_problem *p)
{
    int64_t each = cm_ceil_div(p->as.rows.cols, ways_of(p)), held = 1;
    while (held < each)
        held += held < FEW_HELD ? held : FEW_HELD / 2;
    return held <= MOST_HELD ? (int)held : 0;
}

double cm_cuda_lanes_cost(const cm_problem *p, const cm_knobs *k)
{
    (void)k;
    cm_gpu_facts facts;
    cm_rows_args a;
    cm_gpu_facts_of(&p->target, &facts);
    (void)cm_cuda_rows_place(p, lane_axis(p), &a);
    bool soft = p->as.rows.kind == CM_ROWS_SOFTMAX || p->as.rows.kind == CM_ROWS_LOG_SOFTMAX;
    double walks = held_of(p) ? 1 : soft ? 3 : 4, each = (double)a.cols / ways_of(p);
    double blocks = (double)a.rows * (double)cm_ceil_div(a.lanes, LANES);
    double used = blocks * ways_of(p) / (facts.multiprocessors * 24.0);
    double fast = 0.75 * (a.lanes >= LANES ? 1 : (double)a.lanes / LANES) * (used < 1 ? used : 1);
    double times = (held_of(p) ? 1 : 1.6) * (a.at_y.side != 1 ? 4 : 1);
    double alone = 2 * READ_NS + each * (held_of(p) ? 20 : walks * WALK_NS);
    double memory = cm_cuda_rows_bytes(p) * times / facts.read_gbs / fast;
    return facts.launch_ns + 1000 + (memory > alone ? memory : alone);
}

cm_status cm_cuda_lanes_ready(cm_ctx *cx, cm_device *d, cm_arena *arena, const cm_problem *p,
                              const cm_knobs *k, const void **out)
{
    (void)k;
    cm_buf b;
    state *s = cm_new(arena, state);
    if (!s)
        return cm_fail_memory(cx);
    (void)cm_cuda_rows_place(p, lane_axis(p), &s->args);
    int64_t blocks = s->args.rows * cm_ceil_div(s->args.lanes, LANES);
    s->grid = (cm_grid){.blocks = {(unsigned)cm_min_i64(INT32_MAX, blocks)},
                        .threads = {LANES, (unsigned)ways_of(p)},
                        .overlaps = true};
    cm_buf_init(&b, cx->allocator);
    cm_cuda_rows_text(&b, p, &s->args);
    cm_buf_printf(&b, "#define WAYS %d\n#define HELD %d\n", ways_of(p), held_of(p));
    *out = s;
    return cm_gpu_kernel_with(
        cx, d, &b, (cm_kernel_text){.file = "rows_lanes", .entry = "rows_lanes"}, 0, &s->kernel);
}

cm_status cm_cuda_lanes_run(const cm_run *r)
{
    const state *s = r->state;
    cm_rows_args a = s->args;
    cm_cuda_rows_point(r, &a);
    return cm_gpu_launch(r, s->kernel, &s->grid, (void *[]){&a});
}
