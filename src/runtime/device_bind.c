/* device_bind.c -- after values were placed: memory of the device, weights there, kernels ready.
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
 * then. Failures are met again, and told, by the calls that follow. */
static void warm(void *arg, int64_t begin, int64_t end)
{
    cm_context *c = arg;
    for (int64_t i = begin; i < end; i++) {
        const cm_solution *sol = &c->solutions[c->device->tables.order[i]->index];
        const cm_tactic *t = sol->choice.tactic;
        const void *state;
        cm_arena arena;
        cm_ctx cx = {.allocator = c->allocator, .arena = &arena, .scratch = &arena};
        if (sol->way != CM_WAY_TACTIC || sol->joined || !t->ready)
            continue;
        cm_arena_init(&arena, c->allocator);
        (void)!t->ready(&cx, c->device->device, &arena, &sol->p, &sol->choice.knobs, &state);
        cm_arena_deinit(&arena);
    }
}

static cm_status ready_step(cm_ctx *cx, cm_context *c, const cm_ready_step *s)
{
    cm_device_state *d = c->device;
    cm_solution *sol = &c->solutions[s->index];
    const cm_tactic *t = sol->choice.tactic;
    for (int i = 0; i < sol->n_conversions; i++)
        CM_TRY(
            d->api->copy_ready(cx, d->device, cm_dtype_size(sol->conversions[i].to.tensor.dtype)));
    if (sol->way != CM_WAY_TACTIC)
        return CM_OK;
    if (t->ready && !sol->joined)
        CM_TRY(t->ready(cx, d->device, &c->bound_arena, &sol->p, &sol->choice.knobs, &sol->state));
    for (int i = 0; d->stream && i < s->plan->n_in; i++)
        if (sol->in[i] &&
            c->engine->plan->values[s->plan->in[i].value].storage == CM_STORE_CONSTANT)
            CM_TRY(cm_device_weight(cx, c, s, sol, i, &sol->packed[i]));
    return CM_OK;
}

cm_status cm_device_bind(cm_ctx *cx, cm_context *c)
{
    cm_device_state *d = c->device;
    d->resident = -1;
    CM_TRY(plan_memory(cx, c));
    cm_parallel(c->threads, d->tables.n_order, 1, warm, c);
    for (int i = 0; i < d->tables.n_order; i++) {
        const cm_ready_step *s = d->tables.order[i];
        cm_status st = ready_step(cx, c, s);
        if (st != CM_OK)
            return cm_while(cx, st, "%s node '%s'", s->plan->op, s->plan->name);
    }
    return CM_OK;
}
