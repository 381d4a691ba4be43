/* rt_plugin_tactics.c -- tactics of plugins as rows that the runtime selects, tunes and runs.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A row's functions are given the problem and nothing else, so each place in a row has its own set, made by a
 * macro: which tactic it stands for is the operator's, in the problem, and the place, in the function. */
#include <string.h>

#include "api/rt_plugin.h"

static const cm_plugin_problem *seen_in(const cm_problem *p)
{
    return p->as.custom.seen;
}

static const cameo_plugin_tactic *tactic_of(const cm_problem *p, int place)
{
    return seen_in(p)->row->own_tactics[p->target.kind][place];
}

/* As of the target that is asked for: reports ask about others than the one that the problem was formed for. */
static cameo_problem shown(const cm_problem *p)
{
    cameo_problem seen = seen_in(p)->seen;
    seen.level = p->target.level;
    return seen;
}

static bool is_dense(const cm_problem *p)
{
    for (int i = 0; i < p->n_in; i++)
        if (p->in[i] && !cm_tensor_is_dense(p->in[i]))
            return false;
    for (int o = 0; o < p->n_out; o++)
        if (p->out[o] && !cm_tensor_is_dense(p->out[o]))
            return false;
    return true;
}

static const char *reject_at(const cm_problem *p, int place)
{
    const cameo_plugin_tactic *t = tactic_of(p, place);
    if (!is_dense(p))
        return "plugins' tactics take dense tensors";
    cameo_problem seen = shown(p);
    return t->reject ? t->reject(&seen) : NULL;
}

/* Without a figure it counts as one operation an element on a CPU, better than the reference, no more; as so
 * many bytes a nanosecond on a GPU. */
static double cost_at(const cm_problem *p, int place)
{
    enum { LAUNCH_NS = 2000, BYTES_A_NS = 500 };
    const cameo_plugin_tactic *t = tactic_of(p, place);
    cameo_problem seen = shown(p);
    if (t->cost)
        return t->cost(&seen);
    double elems = 0, bytes = 0;
    for (int i = 0; i < seen.n_inputs; i++)
        bytes += seen.inputs[i] ? (double)seen.inputs[i]->bytes : 0;
    for (int o = 0; o < p->n_out; o++) {
        elems += p->out[o] ? (double)cm_tensor_elems(p->out[o]) : 0;
        bytes += p->out[o] ? (double)seen.outputs[o]->bytes : 0;
    }
    return p->target.kind == CM_DEVICE_CPU ? 500 + elems : LAUNCH_NS + bytes / BYTES_A_NS;
}

static size_t workspace_at(const cm_problem *p, int place)
{
    const cameo_plugin_tactic *t = tactic_of(p, place);
    cameo_problem seen = shown(p);
    return t->workspace ? t->workspace(&seen) : 0;
}

static void run_parallel(const cameo_run *r, int64_t n, int64_t grain, cameo_range fn, void *arg)
{
    cm_parallel(((const cm_run *)r->host)->threads, n, grain > 0 ? grain : 1, fn, arg);
}

static cameo_status run_fail(const cameo_run *r, const char *sentence)
{
    return (cameo_status)cm_fail(((const cm_run *)r->host)->cx, CM_ERR_DATA, "%s",
                                 sentence ? sentence : "?");
}

static const cameo_run_calls run_calls = {sizeof run_calls, run_parallel, run_fail};

static cm_status run_at(const cm_run *r, int place)
{
    const cm_plugin_problem *p = seen_in(r->p);
    cameo_run api = {.size = sizeof api,
                     .call = &run_calls,
                     .host = (void *)r,
                     .problem = &p->seen,
                     .inputs = r->in,
                     .outputs = r->out,
                     .workspace = r->workspace};
    r->cx->message[0] = 0;
    return cm_plugin_status(r->cx, &p->row->op, tactic_of(r->p, place)->run(&api));
}

/* clang-format off */
#define PLACES(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)
#define PLACE(k)                                                                                   \
    static const char *reject_##k(const cm_problem *p) { return reject_at(p, k); }                 \
    static double cost_##k(const cm_problem *p, const cm_knobs *n)                                 \
    { (void)n; return cost_at(p, k); }                                                             \
    static size_t workspace_##k(const cm_problem *p, const cm_knobs *n)                            \
    { (void)n; return workspace_at(p, k); }                                                        \
    static cm_status run_##k(const cm_run *r) { return run_at(r, k); }                             \
    static cm_status ready_##k(cm_ctx *cx, cm_device *d, cm_arena *arena, const cm_problem *p,     \
                               const cm_knobs *n, const void **state)                              \
    { (void)n; return cm_plugin_kernel_ready(cx, d, arena, p, tactic_of(p, k), state); }
PLACES(PLACE)
#undef PLACE

#define SHARED(k) .reject = reject_##k, .cost = cost_##k, .workspace = workspace_##k
static const cm_tactic places[CM_DEVICE_COUNT][CAMEO_MAX_TACTICS] = {
#define PLACE(k) {SHARED(k), .run = run_##k},
    [CM_DEVICE_CPU] = {PLACES(PLACE)},
#undef PLACE
#define PLACE(k) {SHARED(k), .ready = ready_##k, .run = cm_plugin_kernel_run},
    [CM_DEVICE_CUDA] = {PLACES(PLACE)},
#undef PLACE
};
/* clang-format on */

static cm_status show(cm_arena *arena, const cm_tensor *const *from, int n,
                      const cameo_tensor *const **out)
{
    const cameo_tensor **list = cm_new_n(arena, n, const cameo_tensor *);
    cameo_tensor *tensors = cm_new_n(arena, n, cameo_tensor);
    if (!list || !tensors)
        return CM_ERR_MEMORY;
    for (int i = 0; i < n; i++) {
        if (!from[i])
            continue;
        cm_tensor_to_api(from[i], &tensors[i]);
        list[i] = &tensors[i];
    }
    *out = list;
    return CM_OK;
}

/* As problems.def's functions: false leaves the node to the reference. */
static bool fill(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p)
{
    cm_ctx cx = {.arena = arena, .scratch = arena};
    cm_plugin_problem *s = cm_new(arena, cm_plugin_problem);
    if (!s)
        return false;
    s->row = cm_plugin_row_of(op);
    s->seen = (cameo_problem){.size = sizeof s->seen,
                              .n_attrs = s->row->attrs.n_fields,
                              .n_inputs = p->n_in,
                              .n_outputs = p->n_out,
                              .threads = p->threads,
                              .level = p->target.level};
    p->as.custom.seen = s;
    return cm_plugin_attrs(&cx, arena, s->row, attr, &s->seen.attrs) == CM_OK &&
           show(arena, p->in, p->n_in, &s->seen.inputs) == CM_OK &&
           show(arena, p->out, p->n_out, &s->seen.outputs) == CM_OK;
}

static cm_status check(cm_ctx *cx, const cm_plugin_row *row, const cameo_plugin_tactic *t)
{
    enum { LONGEST_KERNEL_NAME = 60 };
    if (!t || !CM_PLUGIN_HAS(t, launch) || !t->name || !*t->name)
        return cm_fail(cx, CM_ERR_ARGUMENT, "a tactic has no name, or too small a struct");
    if (strpbrk(t->name, " \t\n"))
        return cm_fail(cx, CM_ERR_ARGUMENT, "the name of tactic '%s' holds white space", t->name);
    if (t->device != CAMEO_CPU && t->device != CAMEO_CUDA)
        return cm_fail(cx, CM_ERR_ARGUMENT, "tactic '%s' is for the unknown device %d", t->name,
                       (int)t->device);
    if (t->device == CAMEO_CPU ? !t->run : !t->source || !t->kernel || !t->launch)
        return cm_fail(cx, CM_ERR_ARGUMENT, "tactic '%s' lacks %s", t->name,
                       t->device == CAMEO_CPU ? "run" : "source, kernel or launch");
    if (t->device == CAMEO_CUDA && strlen(t->kernel) > LONGEST_KERNEL_NAME)
        return cm_fail(cx, CM_ERR_ARGUMENT, "tactic '%s' names a kernel of over %d letters",
                       t->name, LONGEST_KERNEL_NAME);
    if (t->in_place < 0 || t->in_place > row->op.max_in)
        return cm_fail(cx, CM_ERR_ARGUMENT, "tactic '%s' is in place of input %d", t->name,
                       t->in_place - 1);
    return CM_OK;
}

static cm_status add(cm_ctx *cx, cm_plugin_row *row, const cameo_plugin_tactic *t)
{
    cm_device_kind kind = t->device == CAMEO_CPU ? CM_DEVICE_CPU : CM_DEVICE_CUDA;
    int n = row->op.n_tactics[kind]++;
    if (n == CAMEO_MAX_TACTICS)
        return cm_fail(cx, CM_ERR_ARGUMENT, "over %d tactics for %s", n,
                       kind == CM_DEVICE_CPU ? "the CPU" : "CUDA");
    cm_tactic *to = &row->tactics[kind][n];
    row->own_tactics[kind][n] = t;
    *to = places[kind][n];
    to->name = t->name;
    to->in_place = t->in_place;
    return CM_OK;
}

cm_status cm_plugin_tactics(cm_ctx *cx, cm_plugin_row *row)
{
    const cameo_plugin_op *own = row->own;
    if (own->n_tactics < 0 || (own->n_tactics && !own->tactics))
        return cm_fail(cx, CM_ERR_ARGUMENT, "%d tactics without a list", own->n_tactics);
    for (int i = 0; i < own->n_tactics; i++) {
        CM_TRY(check(cx, row, own->tactics[i]));
        CM_TRY(add(cx, row, own->tactics[i]));
    }
    row->problem = (cm_problem_row){CM_OP_COUNT, CM_PROBLEM_CUSTOM, fill};
    row->op.problem = own->n_tactics ? &row->problem : NULL;
    for (int k = 0; k < CM_DEVICE_COUNT; k++)
        row->op.tactics[k] = row->tactics[k];
    return CM_OK;
}
