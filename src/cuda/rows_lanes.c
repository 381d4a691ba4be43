/* rows_lanes.c -- rows that lie side by side: softmax over the channels of row-major images, and the like.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/size.h"
#include "cuda/rows.h"

enum { WAYS = 8, LANES = 32, MOST_HELD = 32 };

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
    if (lanes < 0 || r->cols == 1)
        return "rows do not lie side by side";
    return cm_cuda_rows_place(p, lanes, &a);
}

/* Registers for the elements of a thread, a power of two so that kernels are few; 0: too many. */
static int held_of(const cm_problem *p)
{
    int64_t each = cm_ceil_div(p->as.rows.cols, WAYS), held = 1;
    while (held < each)
        held *= 2;
    return held <= MOST_HELD ? (int)held : 0;
}

double cm_cuda_lanes_cost(const cm_problem *p, const cm_knobs *k)
{
    (void)k;
    cm_gpu_facts facts;
    cm_rows_args a;
    cm_gpu_facts_of(&p->target, &facts);
    (void)cm_cuda_rows_place(p, lane_axis(p), &a);
    double fast = a.lanes >= LANES ? 0.75 : 0.75 * (double)a.lanes / LANES;
    double times = held_of(p) ? 1 : 1.6;
    if (a.at_y.side != 1)
        times *= 4;
    return facts.launch_ns + (double)a.cols / WAYS * 2 +
           cm_cuda_rows_bytes(p) * times / facts.read_gbs / fast;
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
    s->grid =
        (cm_grid){.blocks = {(unsigned)cm_min_i64(INT32_MAX, blocks)}, .threads = {LANES, WAYS}};
    cm_buf_init(&b, cx->allocator);
    cm_cuda_rows_text(&b, p);
    cm_buf_printf(&b, "#define WAYS %d\n#define HELD %d\n", WAYS, held_of(p));
    cm_kernel_text t = {.file = "rows_lanes", .defines = cm_buf_text(&b), .entry = "rows_lanes"};
    cm_status st = b.failed ? cm_fail_memory(cx) : cm_gpu_kernel(cx, d, &t, 0, &s->kernel);
    cm_buf_deinit(&b);
    *out = s;
    return st;
}

cm_status cm_cuda_lanes_run(const cm_run *r)
{
    const state *s = r->state;
    cm_rows_args a = s->args;
    cm_cuda_rows_point(r, &a);
    return cm_gpu_launch(r, s->kernel, &s->grid, (void *[]){&a});
}
