/* device_bind.c -- after values were placed: kernels ready, memory of the device, weights there; in this order, since what can be
 * had decides which tactic runs, and that how much memory it needs and how its weights lie.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/size.h"
#include "runtime/device.h"

static size_t bytes_of(const cm_context *c, int32_t v)
{
    size_t n = 0;
    (void)cm_tensor_bytes(&c->slots[v].datum.tensor, &n); /* checked when it was shaped */
    return n;
}

/* Lifetimes in the device's arena, in the order in which they begin; a step's workspace is owned by -1 - its index, signals by SIGNALS. */
enum { SIGNALS = INT32_MIN };
typedef struct {
    int n;
    cm_interval *v;
    int32_t *owner;
} lifetimes;

static void add_lifetime(lifetimes *l, int32_t owner, cm_interval x)
{
    l->v[l->n] = x;
    l->owner[l->n++] = owner;
}

/* Steps run one after the other: they share what is zero between them. */
static void collect_signals(cm_context *c, lifetimes *l)
{
    cm_device_tables *t = &c->device->tables;
    t->signals_bytes = 0;
    for (int i = 0; i < t->n_order; i++) {
        const cm_solution *sol = &c->solutions[t->order[i]->index];
        const cm_tactic *by = sol->way == CM_WAY_TACTIC && !sol->joined ? sol->choice.tactic : NULL;
        size_t bytes = by && by->signals ? by->signals(&sol->p, &sol->choice.knobs) : 0;
        t->signals_bytes = bytes > t->signals_bytes ? bytes : t->signals_bytes;
    }
    if (t->signals_bytes)
        add_lifetime(l, SIGNALS, (cm_interval){0, INT_MAX, t->signals_bytes, 0});
}

/* What is copied up has its memory for good: the copy may come before the segment's first kernel. */
static void collect_copies(cm_context *c, lifetimes *l)
{
    for (int v = 0; v < c->engine->plan->n_values; v++) {
        cm_place *x = &c->device->tables.places[v];
        if (x->up || x->down)
            x->bytes = bytes_of(c, v);
        if (x->up)
            add_lifetime(l, v, (cm_interval){0, INT_MAX, x->bytes, 0});
    }
}

static void collect_steps(const cm_context *c, lifetimes *l)
{
    const cm_device_state *d = c->device;
    int begin = 0; /* of the step that does the next one too */
    for (int i = 0; i < d->tables.n_order; i++) {
        const cm_ready_step *s = d->tables.order[i];
        const cm_solution *sol = &c->solutions[s->index];
        bool view = sol->way == CM_WAY_VIEW;
        if (sol->then)
            begin = s->begin;
        if (sol->workspace && !sol->joined) {
            int last = view ? c->last[s->plan->out[0].value] : s->end;
            add_lifetime(l, -1 - s->index, (cm_interval){s->begin, last, sol->workspace, 0});
        }
        bool written = !view && (!sol->then || sol->p.kept);
        for (int o = 0; written && o < s->plan->n_out; o++) {
            int32_t v = s->plan->out[o].value;
            if (v < 0)
                continue;
            int from = sol->joined ? begin : s->begin;
            add_lifetime(l, v, (cm_interval){from, c->last[v], bytes_of(c, v), 0});
        }
    }
}

static cm_status reserve_device(cm_ctx *cx, cm_device_state *d, size_t bytes)
{
    void *p;
    d->tables.memory_used = bytes;
    if (d->memory && bytes <= d->memory_bytes)
        return CM_OK;
    d->api->release(d->device, d->memory);
    d->memory = NULL;
    d->memory_bytes = 0;
    d->moves++;
    CM_TRY(d->api->alloc(cx, d->device, bytes, &p));
    d->memory = p;
    d->memory_bytes = bytes;
    return CM_OK;
}

/* Copies of values; a line for each count. */
static cm_status reserve_pinned(cm_ctx *cx, cm_context *c)
{
    cm_device_state *d = c->device;
    size_t total = 0;
    void *p;
    for (int i = 0; i < d->tables.n_order; i++) {
        cm_solution *sol = &c->solutions[d->tables.order[i]->index];
        sol->count = total;
        total += sol->counted ? CM_MEMORY_ALIGN : 0;
    }
    for (int v = 0; v < c->engine->plan->n_values; v++) {
        cm_place *x = &d->tables.places[v];
        if ((!x->up && !x->down) || x->counted)
            continue;
        x->pinned = total;
        if (!cm_add(total, x->bytes, &total) || !cm_align_up(total, CM_MEMORY_ALIGN, &total))
            return cm_fail_memory(cx);
    }
    if (d->pinned && total <= d->pinned_bytes)
        return CM_OK;
    d->api->release_host(d->device, d->pinned);
    d->pinned = NULL;
    d->pinned_bytes = 0;
    d->moves++;
    CM_TRY(d->api->alloc_host(cx, d->device, total, &p));
    d->pinned = p;
    d->pinned_bytes = total;
    return CM_OK;
}

static cm_status plan_memory(cm_ctx *cx, cm_context *c)
{
    cm_device_state *d = c->device;
    size_t total;
    lifetimes l = {0};
    int most = c->engine->plan->n_values + c->engine->n_steps + 1;
    CM_NEW_N(cx, &c->bound_arena, l.v, most, cm_interval);
    CM_NEW_N(cx, &c->bound_arena, l.owner, most, int32_t);
    collect_signals(c, &l);
    collect_copies(c, &l);
    collect_steps(c, &l);
    CM_TRY(cm_memory_plan(cx, &c->bound_arena, l.v, l.n, &total));
    if (d->stream) {
        CM_TRY(reserve_device(cx, d, total));
        CM_TRY(reserve_pinned(cx, c));
    }
    for (int i = 0; i < l.n; i++) {
        int32_t v = l.owner[i];
        if (v == SIGNALS) {
            d->tables.signals = l.v[i].offset;
            continue;
        }
        if (v < 0) {
            c->solutions[-1 - v].offset = l.v[i].offset;
            continue;
        }
        d->tables.places[v].planned = true;
        d->tables.places[v].offset = l.v[i].offset;
    }
    return CM_OK;
}

/* Kernels are compiled by all threads at once; what `ready` makes there is thrown away, but the device has them
 * then. Failures and refusals are met again, and told, by the calls that follow. */
static void warm(void *arg, int64_t begin, int64_t end)
{
    cm_context *c = arg;
    for (int64_t i = begin; i < end; i++) {
        const cm_ready_step *s = c->device->tables.order[i];
        cm_solution sol = c->solutions[s->index];
        cm_arena arena;
        cm_ctx cx = {.allocator = c->allocator, .arena = &arena, .scratch = &arena};
        if (sol.way != CM_WAY_TACTIC || sol.joined || !sol.choice.tactic->ready)
            continue;
        cm_arena_init(&arena, c->allocator);
        (void)!cm_device_ready(&cx, c, s, &sol, &arena);
        cm_arena_deinit(&arena);
    }
}

/* The workspace of another tactic than it was planned for; conversions stay behind it. */
static cm_status renew_workspace(cm_ctx *cx, cm_solution *sol)
{
    const cm_tactic *t = sol->choice.tactic;
    size_t own = t->workspace ? t->workspace(&sol->p, &sol->choice.knobs) : 0;
    size_t was = sol->n_conversions ? sol->conversions[0].offset : sol->workspace;
    if (!cm_align_up(own, CM_MEMORY_ALIGN, &own) ||
        !cm_add(own, sol->workspace - was, &sol->workspace))
        return cm_fail_memory(cx);
    for (int i = 0; i < sol->n_conversions; i++)
        sol->conversions[i].offset = sol->conversions[i].offset - was + own;
    return CM_OK;
}

static cm_status ready_step(cm_ctx *cx, cm_context *c, const cm_ready_step *s)
{
    cm_device_state *d = c->device;
    cm_solution *sol = &c->solutions[s->index];
    const cm_ready_step *then = sol->then;
    for (int i = 0; i < sol->n_conversions; i++)
        CM_TRY(
            d->api->copy_ready(cx, d->device, cm_dtype_size(sol->conversions[i].to.tensor.dtype)));
    if (sol->way != CM_WAY_TACTIC || sol->joined)
        return CM_OK;
    CM_TRY(cm_device_ready(cx, c, s, sol, &c->bound_arena));
    if (then && !sol->then)
        c->solutions[then->index].joined = false;
    return sol->refused ? renew_workspace(cx, sol) : CM_OK;
}

static cm_status bring_weights(cm_ctx *cx, cm_context *c, const cm_ready_step *s)
{
    cm_solution *sol = &c->solutions[s->index];
    for (int i = 0; sol->way == CM_WAY_TACTIC && i < s->plan->n_in; i++)
        if (sol->in[i] &&
            c->engine->plan->values[s->plan->in[i].value].storage == CM_STORE_CONSTANT)
            CM_TRY(cm_device_weight(cx, c, s, sol, i, &sol->packed[i]));
    return CM_OK;
}

typedef cm_status (*step_fn)(cm_ctx *, cm_context *, const cm_ready_step *);

/* Of the device's, in order. */
static cm_status each_step(cm_ctx *cx, cm_context *c, step_fn fn)
{
    for (int i = 0; i < c->device->tables.n_order; i++) {
        const cm_ready_step *s = c->device->tables.order[i];
        cm_status st = fn(cx, c, s);
        if (st != CM_OK)
            return cm_while(cx, st, "%s node '%s'", s->plan->op, s->plan->name);
    }
    return CM_OK;
}

static void tell_refused(cm_ctx *cx, cm_context *c)
{
    const cm_device_tables *t = &c->device->tables;
    const cm_ready_step *first = NULL;
    int n = 0;
    for (int i = 0; i < t->n_order; i++) {
        if (!c->solutions[t->order[i]->index].refused)
            continue;
        first = first ? first : t->order[i];
        n++;
    }
    if (first)
        cm_tell_refused(cx, c, first, &c->solutions[first->index], n - 1);
}

cm_status cm_device_bind(cm_ctx *cx, cm_context *c)
{
    cm_device_state *d = c->device;
    d->resident = -1;
    cm_parallel(c->threads, d->tables.n_order, 1, warm, c);
    CM_TRY(each_step(cx, c, ready_step));
    CM_TRY(plan_memory(cx, c));
    if (d->stream)
        CM_TRY(each_step(cx, c, bring_weights));
    tell_refused(cx, c);
    return CM_OK;
}
