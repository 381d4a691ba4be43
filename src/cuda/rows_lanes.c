/* rows_lanes.c -- rows that lie side by side: softmax over the channels of row-major images, and the like.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/size.h"
#include "cuda/rows.h"

enum { WARPS = 8, MOST_WAYS = 64, MOST_HELD = 64, MOST_HELD_BYTES = 256 };
/* Knob 0: threads of a warp along neighbours; 1: warps that share rows; 2: neighbours of a thread. */
enum { ACROSS, DEEP, SIDE };
enum {
    READ_NS = 600,
    WALK_NS = 100
}; /* a first read; each of a walk over elements that are not held */

typedef struct {
    const cm_kernel *kernel, *narrow; /* narrow: for pointers that others do not fit */
    cm_grid grid, narrow_grid;
    size_t align;
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

/* Neighbours that one thread has: as many as 16 bytes hold and everything's strides and number allow. */
static int side_of(const cm_problem *p, const cm_rows_args *a)
{
    int side = 16 / (int)cm_dtype_size(p->in[0]->dtype);
    const cm_rows_place *all[] = {&a->at_x, &a->at_y};
    for (int t = 0; t < CM_COUNT(all); t++) {
        if (all[t]->side != 1)
            return 1;
        int64_t any = a->lanes | all[t]->col;
        for (int i = 0; i < a->n_outer; i++)
            any |= all[t]->outer[i];
        while (any % side != 0)
            side /= 2;
    }
    return side;
}

static int ways_of(const cm_knobs *k)
{
    return 32 / k->v[ACROSS] * k->v[DEEP];
}

/* Registers for the elements of a thread, few different numbers so that kernels are few; 0: too many. */
static int held_of(const cm_problem *p, const cm_knobs *k)
{
    int64_t each = cm_ceil_div(p->as.rows.cols, ways_of(k)), held = 1;
    int64_t bytes = k->v[SIDE] * (int64_t)cm_dtype_size(p->in[0]->dtype);
    while (held < each)
        held += held < 4 ? 1 : held < 8 ? 2 : held < 32 ? 4 : 16;
    return held <= MOST_HELD && held * cm_max_i64(bytes, 4) <= MOST_HELD_BYTES ? (int)held : 0;
}

int cm_cuda_lanes_side(const cm_problem *p, cm_rows_args *a)
{
    (void)cm_cuda_rows_place(p, lane_axis(p), a);
    return side_of(p, a);
}

/* As many neighbours as fit, ways within a warp where those are enough. */
int cm_cuda_lanes_knobs(const cm_problem *p, cm_knobs *out)
{
    enum { MOST_SETTINGS = 2 };
    static const int shapes[][2] = {{8, 1}, {4, 1}, {8, 4}, {8, 8}, {4, 8}};
    cm_rows_args a;
    int n = 0;
    (void)cm_cuda_rows_place(p, lane_axis(p), &a);
    for (int side = side_of(p, &a); side >= 1 && n == 0; side /= 2)
        for (int i = 0; i < CM_COUNT(shapes) && n < MOST_SETTINGS; i++) {
            cm_knobs k = {{shapes[i][0], shapes[i][1], side}};
            if (held_of(p, &k))
                out[n++] = k;
        }
    if (n == 0)
        out[n++] = (cm_knobs){{8, 8, side_of(p, &a)}};
    return n;
}

static int64_t tiles_of(const cm_rows_args *a, const cm_knobs *k)
{
    int64_t tile = k->v[ACROSS] * (WARPS / k->v[DEEP]) * k->v[SIDE];
    return a->rows * cm_ceil_div(a->lanes, tile);
}

/* Of the memory's rate, what copies of elements that are held reach. As measured (H200). */
static double speed_of(const cm_problem *p, const cm_knobs *k, const cm_rows_args *a, int held)
{
    enum { SECTOR = 32, GOOD = 160, MORE = 48 }; /* bytes; of a thread */
    int64_t size = (int64_t)cm_dtype_size(p->in[0]->dtype);
    int64_t line = (int64_t)k->v[ACROSS] * (WARPS / k->v[DEEP]) * k->v[SIDE] * size;
    double fast = k->v[DEEP] == 1 ? 0.92 : 0.84, bytes = (double)(held * k->v[SIDE] * size);
    if (k->v[DEEP] > 1 && held && bytes < GOOD) /* threads meet for little */
        fast *= (bytes + MORE) / (GOOD + MORE);
    if (a->lanes * size % SECTOR != 0 || line < SECTOR)
        fast *= (double)line / (double)(line + SECTOR);
    return fast;
}

double cm_cuda_lanes_cost(const cm_problem *p, const cm_knobs *k)
{
    cm_gpu_facts facts;
    cm_rows_args a;
    cm_gpu_facts_of(&p->target, &facts);
    (void)cm_cuda_rows_place(p, lane_axis(p), &a);
    bool soft = p->as.rows.kind == CM_ROWS_SOFTMAX || p->as.rows.kind == CM_ROWS_LOG_SOFTMAX;
    int held = held_of(p, k);
    double walks = held ? 1 : soft ? 3 : 4, each = (double)a.cols / ways_of(k);
    int64_t line = k->v[ACROSS] * (WARPS / k->v[DEEP]) * k->v[SIDE];
    double filled = (double)a.lanes / (double)(cm_ceil_div(a.lanes, line) * line);
    double used = (double)tiles_of(&a, k) * WARPS / (facts.multiprocessors * 24.0);
    double fast = speed_of(p, k, &a, held) * filled * (used < 1 ? used : 1);
    double times = (held ? 1 : 3.4) * (a.at_y.side != 1 ? 4 : 1);
    double alone = 2 * READ_NS + each * (held ? 20 : walks * WALK_NS);
    double memory = cm_cuda_rows_bytes(p) * times / facts.read_gbs / fast;
    return facts.launch_ns + 1000 + (memory > alone ? memory : alone);
}

static cm_status compile(cm_ctx *cx, cm_device *d, const cm_problem *p, const cm_rows_args *a,
                         const cm_knobs *k, const cm_kernel **out)
{
    cm_buf b;
    cm_buf_init(&b, cx->allocator);
    cm_cuda_rows_text(&b, p, a);
    cm_buf_printf(&b,
                  "#define ACROSS %d\n#define DEEP %d\n#define SIDE %d\n#define WARPS %d\n"
                  "#define HELD %d\n",
                  k->v[ACROSS], k->v[DEEP], k->v[SIDE], WARPS, held_of(p, k));
    return cm_gpu_kernel_with(
        cx, d, &b, (cm_kernel_text){.file = "rows_lanes", .entry = "rows_lanes"}, 0, out);
}

static cm_grid grid_of(const cm_rows_args *a, const cm_knobs *k)
{
    return (cm_grid){.blocks = {(unsigned)cm_min_i64(INT32_MAX, tiles_of(a, k))},
                     .threads = {32 * WARPS},
                     .overlaps = true};
}

cm_status cm_cuda_lanes_ready(cm_ctx *cx, cm_device *d, cm_arena *arena, const cm_problem *p,
                              const cm_knobs *k, const void **out)
{
    const cm_knobs narrow = {{k->v[ACROSS], k->v[DEEP], 1}};
    state *s = cm_new(arena, state);
    if (!s)
        return cm_fail_memory(cx);
    *out = s;
    (void)cm_cuda_rows_place(p, lane_axis(p), &s->args);
    s->align = k->v[SIDE] > 1 ? 16 : 1;
    s->grid = grid_of(&s->args, k);
    s->narrow_grid = grid_of(&s->args, &narrow);
    if (k->v[SIDE] > 1)
        CM_TRY(compile(cx, d, p, &s->args, &narrow, &s->narrow));
    return compile(cx, d, p, &s->args, k, &s->kernel);
}

cm_status cm_cuda_lanes_run(const cm_run *r)
{
    const state *s = r->state;
    cm_rows_args a = s->args;
    cm_cuda_rows_point(r, &a);
    bool aligned = ((uintptr_t)a.x | (uintptr_t)a.y) % s->align == 0;
    return cm_gpu_launch(r, aligned ? s->kernel : s->narrow, aligned ? &s->grid : &s->narrow_grid,
                         (void *[]){&a});
}
