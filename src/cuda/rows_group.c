/* rows_group.c -- group and instance normalisation in parts, channels first or last: several blocks to a group, so
 * that few and large groups fill the device.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Three kernels: moments of each part, their join, and the result; what the first has read the last finds in
 * the second-level cache, as far as it fits. */
#include "base/size.h"
#include "cuda/rows.h"

enum { THREADS = 256, PART_ELEMS = 8192, STATS_DOUBLES = 4 };

/* An operand of the epilogue, whose axes meet those of y from the last on: image, channel, position. */
static bool place_operand(const cm_tensor *t, const cm_tensor *y, int channel, cm_rows_place *at)
{
    bool begun = false;
    for (int axis = 0; axis < y->rank; axis++) {
        int own = axis - (y->rank - t->rank);
        int64_t stride = own < 0 || t->dims[own] == 1 ? 0 : t->strides[own];
        if (y->dims[axis] == 1)
            continue;
        if (axis == 0) {
            at->outer[0] = stride;
        } else if (axis == channel) {
            at->col = stride;
        } else {
            if (begun && at->side != stride * y->dims[axis])
                return false;
            at->side = stride;
            begun = true;
        }
    }
    return true;
}

const char *cm_cuda_rows_place_groups(const cm_problem *p, cm_rows_args *a, bool *last)
{
    const cm_rows *r = &p->as.rows;
    const cm_tensor *x = p->in[0], *y = p->out[0];
    int64_t image = cm_tensor_elems(x) / x->dims[0], space = image / r->channels;
    *a = (cm_rows_args){.rows = r->rows,
                        .cols = r->cols,
                        .lanes = 1,
                        .channels = r->channels,
                        .groups = r->groups,
                        .space = space,
                        .by_space = cm_gpu_axis_of(space),
                        .n_outer = 2,
                        .dims = {x->dims[0], r->groups},
                        .epsilon = r->epsilon};
    a->at_x = (cm_rows_place){{x->dims[0] > 1 ? x->strides[0] : image, r->cols}, 1, 0};
    a->at_y = (cm_rows_place){{y->dims[0] > 1 ? y->strides[0] : image, r->cols}, 1, 0};
    if (r->axis == 0)
        return "the axis of the channels is the first";
    if (r->rows > INT32_MAX)
        return "there are too many groups";
    for (int i = 0; i < p->n_operands; i++)
        if (!place_operand(p->operands[i], y, r->axis, &a->at_operand[i]))
            return "an operand of the epilogue broadcasts along some axes of an image";
    *last = !cm_is_in_planes(x, r->axis, space) || !cm_is_in_planes(y, r->axis, space);
    if (*last && (!cm_is_in_pixels(x, r->axis) || !cm_is_in_pixels(y, r->axis)))
        return "input and output differ in layout";
    return NULL;
}

/* How groups (channels first) or images (last) are divided. */
static void divide(const cm_problem *p, cm_rows_args *a, bool last)
{
    cm_gpu_facts facts;
    cm_gpu_facts_of(&p->target, &facts);
    int64_t whole = last ? a->space : a->cols, n = last ? a->dims[0] : a->rows;
    int64_t least = cm_max_i64(last ? PART_ELEMS / a->channels : PART_ELEMS, 1);
    int64_t wanted = cm_ceil_div((int64_t)facts.multiprocessors * 4, n);
    a->parts = cm_max_i64(1, cm_min_i64(wanted, whole / least));
    a->part = cm_ceil_div(cm_ceil_div(whole, a->parts), 8) * 8; /* whole vectors */
    a->parts = cm_ceil_div(whole, a->part);
    a->units = a->parts * n;
}

const char *cm_cuda_groups_reject(const cm_problem *p)
{
    cm_rows_args a;
    bool last;
    const cm_rows *r = &p->as.rows;
    if (r->kind != CM_ROWS_GROUP_NORM)
        return "rows are not groups of channels";
    const char *why = cm_cuda_rows_reject(p);
    if (why)
        return why;
    if (r->cols >= INT32_MAX || r->channels >= INT32_MAX)
        return "groups are too large";
    why = cm_cuda_rows_place_groups(p, &a, &last);
    if (why)
        return why;
    divide(p, &a, last);
    return a.units > INT32_MAX ? "there are too many parts" : NULL;
}

int cm_cuda_groups_width(const cm_problem *p)
{
    return 16 / (int)cm_dtype_size(p->in[0]->dtype);
}

const char *cm_cuda_groups_by_vectors(const cm_problem *p, cm_rows_args *a, bool *last)
{
    const char *why = cm_cuda_groups_reject(p);
    if (why)
        return why;
    (void)cm_cuda_rows_place_groups(p, a, last);
    int64_t width = cm_cuda_groups_width(p), run = *last ? a->channels : a->cols;
    bool fits = run % width == 0 && a->at_x.outer[0] % width == 0 && a->at_y.outer[0] % width == 0;
    return fits ? NULL : "groups are not of whole vectors";
}

int cm_cuda_groups_joiners(const cm_rows_args *a)
{
    int64_t each = a->channels / a->groups;
    int joiners = 1;
    while (joiners < 32 && joiners * 8 < each)
        joiners *= 2;
    return joiners;
}

static int64_t partials_of(const cm_rows_args *a, bool last)
{
    return 2 * a->parts * (last ? a->dims[0] * a->channels : a->rows);
}

size_t cm_cuda_groups_workspace(const cm_problem *p, const cm_knobs *k)
{
    (void)k;
    cm_rows_args a;
    bool last;
    if (cm_cuda_rows_place_groups(p, &a, &last))
        return 0;
    divide(p, &a, last);
    return (size_t)(partials_of(&a, last) + STATS_DOUBLES * a.rows) * sizeof(double);
}

double cm_cuda_groups_cost(const cm_problem *p, const cm_knobs *k)
{
    enum { BEGIN_NS = 5000 };
    cm_rows_args a;
    bool last = false;
    (void)k;
    cm_gpu_facts facts;
    cm_gpu_facts_of(&p->target, &facts);
    (void)cm_cuda_rows_place_groups(p, &a, &last);
    double fast = last ? 0.2 : 0.55;
    return 3 * facts.launch_ns + BEGIN_NS + cm_cuda_rows_bytes(p) / facts.read_gbs / fast;
}

enum { MOMENTS, JOIN, APPLY, STAGES };

typedef struct {
    const cm_kernel *wide[STAGES], *narrow[STAGES]; /* wide: NULL where vectors do not fit */
    bool last;
    cm_rows_args args;
} state;

static cm_status compile(cm_ctx *cx, cm_device *d, const cm_problem *p, const cm_rows_args *a,
                         bool last, int width, const cm_kernel **out)
{
    static const char *const entries[STAGES] = {"moments", "join", "apply"};
    cm_buf b;
    cm_buf_init(&b, cx->allocator);
    cm_cuda_rows_text(&b, p, a);
    cm_buf_printf(&b,
                  "#define THREADS %d\n#define WIDTH %d\n#define CHANNELS_LAST %d\n"
                  "#define WHOLE_CHANNELS %d\n",
                  THREADS, width, last, a->space % width == 0);
    cm_status st = CM_OK;
    for (int i = 0; i < STAGES && st == CM_OK; i++) {
        cm_kernel_text t = {.file = "rows_group", .defines = cm_buf_text(&b), .entry = entries[i]};
        st = b.failed ? cm_fail_memory(cx) : cm_gpu_kernel(cx, d, &t, 0, &out[i]);
    }
    cm_buf_deinit(&b);
    return st;
}

static cm_status ready(cm_ctx *cx, cm_device *d, cm_arena *arena, const cm_problem *p, bool vectors,
                       const void **out)
{
    state *s = cm_new(arena, state);
    if (!s)
        return cm_fail_memory(cx);
    cm_rows_args *a = &s->args;
    (void)cm_cuda_rows_place_groups(p, a, &s->last);
    divide(p, a, s->last);
    cm_rows_args same;
    bool last;
    if (vectors && !cm_cuda_groups_by_vectors(p, &same, &last))
        CM_TRY(compile(cx, d, p, a, s->last, cm_cuda_groups_width(p), s->wide));
    *out = s;
    return compile(cx, d, p, a, s->last, 1, s->narrow);
}

cm_status cm_cuda_groups_ready(cm_ctx *cx, cm_device *d, cm_arena *arena, const cm_problem *p,
                               const cm_knobs *k, const void **out)
{
    (void)k;
    return ready(cx, d, arena, p, true, out);
}

cm_status cm_cuda_groups_ready_narrow(cm_ctx *cx, cm_device *d, cm_arena *arena,
                                      const cm_problem *p, const void **out)
{
    return ready(cx, d, arena, p, false, out);
}

cm_status cm_cuda_groups_run(const cm_run *r)
{
    const state *s = r->state;
    cm_rows_args a = s->args;
    cm_cuda_rows_point(r, &a);
    a.partials = r->workspace;
    a.stats = a.partials + partials_of(&a, s->last);
    bool wide = s->wide[0] && ((uintptr_t)a.x | (uintptr_t)a.y) % 16 == 0;
    const cm_kernel *const *kernels = wide ? s->wide : s->narrow;
    cm_grid units = {.blocks = {(unsigned)a.units}, .threads = {THREADS}};
    cm_grid rows = {.blocks = {(unsigned)a.rows}, .threads = {THREADS}};
    void *args[] = {&a};
    CM_TRY(cm_gpu_launch(r, kernels[MOMENTS], &units, args));
    CM_TRY(cm_gpu_launch(r, kernels[JOIN], &rows, args));
    return cm_gpu_launch(r, kernels[APPLY], &units, args);
}

cm_status cm_cuda_groups_run_narrow(const cm_run *r, const void *narrow)
{
    cm_run run = *r;
    run.state = narrow;
    return cm_cuda_groups_run(&run);
}

cm_status cm_cuda_together_run(const cm_run *r)
{
    const cm_rows_together *s = r->state;
    cm_rows_args a = s->args;
    cm_cuda_rows_point(r, &a);
    if (((uintptr_t)a.x | (uintptr_t)a.y | (uintptr_t)a.scale | (uintptr_t)a.bias) % 16 != 0)
        return cm_cuda_groups_run_narrow(r, s->narrow);
    a.partials = r->workspace;
    a.stats = (double *)((char *)r->workspace + s->told);
    CM_TRY(cm_gpu_fill(r, r->workspace, 0, s->told));
    return cm_gpu_launch(r, s->kernel, &s->grid, (void *[]){&a});
}
