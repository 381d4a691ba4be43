/* binding.c -- bindings at rest, taken up again and given up.
 * SPDX-License-Identifier: Apache-2.0 */
#include "runtime/binding.h"

#include <string.h>

#include "runtime/by_value.h"
#include "runtime/device.h"

/* What a slot has from its binding. */
typedef struct {
    cm_datum datum;
    size_t offset, planned;
    int interval;
    bool shaped;
} kept_slot;

struct cm_binding {
    bool valid; /* complete: `inputs` and `away` are what it is for */
    uint64_t used;
    cm_datum *inputs;
    bool *away;            /* per input and output: is its memory the device's? */
    const void **elements; /* per input, see by_value.h */
    kept_slot *slots;
    /* The context's tables, while it works with another one. */
    cm_arena arena;
    cm_solution *solutions;
    int *last;
    int64_t *symbols;
    int n_intervals;
    cm_interval *intervals;
    int32_t *interval_values;
    size_t memory_used, packed_bytes;
    bool lean;
    cm_device_tables device;
};

/* The tables of a binding that was never used. */
static cm_status make(cm_ctx *cx, cm_context *c, cm_binding **out)
{
    const cm_engine *e = c->engine;
    int n_values = e->plan->n_values, n_in = cm_engine_n_inputs(e);
    cm_binding *b;
    CM_NEW(cx, &c->arena, b, cm_binding);
    CM_NEW_N(cx, &c->arena, b->inputs, n_in, cm_datum);
    CM_NEW_N(cx, &c->arena, b->away, n_in + cm_engine_n_outputs(e), bool);
    CM_NEW_N(cx, &c->arena, b->elements, n_in, const void *);
    CM_NEW_N(cx, &c->arena, b->slots, n_values, kept_slot);
    CM_NEW_N(cx, &c->arena, b->solutions, e->n_steps, cm_solution);
    CM_NEW_N(cx, &c->arena, b->last, n_values, int);
    CM_NEW_N(cx, &c->arena, b->symbols, cm_dim_symbol_count(e->plan->dims), int64_t);
    CM_NEW_N(cx, &c->arena, b->intervals, n_values + e->n_steps, cm_interval);
    CM_NEW_N(cx, &c->arena, b->interval_values, n_values + e->n_steps, int32_t);
    cm_arena_init(&b->arena, c->allocator);
    *out = b;
    return CM_OK;
}

/* ---- What a binding is for -------------------------------------------------------------------- */

static bool is_away(const cm_context *c, int i)
{
    int n_in = cm_engine_n_inputs(c->engine);
    if (!c->device)
        return false;
    return i < n_in ? c->device->in_at[i] != NULL : c->device->out_at[i - n_in] != NULL;
}

static bool same_shapes(const cm_context *c, const cm_binding *b)
{
    int n_in = cm_engine_n_inputs(c->engine), n = n_in + cm_engine_n_outputs(c->engine);
    if (!b || !b->valid)
        return false;
    for (int i = 0; i < n_in; i++) {
        const cm_datum *x = &c->inputs[i], *y = &b->inputs[i];
        if (x->kind != y->kind ||
            (x->kind == CM_TENSOR && !cm_tensor_same_shape(&x->tensor, &y->tensor)))
            return false;
    }
    for (int i = 0; c->device && i < n; i++)
        if (b->away[i] != is_away(c, i))
            return false;
    return true;
}

static bool fits(const cm_context *c, const cm_binding *b)
{
    return same_shapes(c, b) && (!c->device || cm_same_elements(c, b->elements));
}

bool cm_binding_fits(const cm_context *c)
{
    return fits(c, c->bindings[c->binding]);
}

void cm_binding_done(cm_context *c)
{
    cm_binding *b = c->bindings[c->binding];
    int n_in = cm_engine_n_inputs(c->engine), n = n_in + cm_engine_n_outputs(c->engine);
    if (n_in)
        memcpy(b->inputs, c->inputs, (size_t)n_in * sizeof *c->inputs);
    for (int i = 0; i < n; i++)
        b->away[i] = is_away(c, i);
    b->valid = true;
}

/* ---- Taking turns ----------------------------------------------------------------------------- */

static void put_to_rest(cm_context *c)
{
    cm_binding *b = c->bindings[c->binding];
    b->arena = c->bound_arena;
    b->solutions = c->solutions;
    b->last = c->last;
    b->symbols = c->symbols;
    b->n_intervals = c->n_intervals;
    b->intervals = c->intervals;
    b->interval_values = c->interval_values;
    b->memory_used = c->memory_used;
    b->packed_bytes = c->packed_bytes;
    b->lean = c->lean;
    if (c->device)
        b->device = c->device->tables;
    for (int v = 0; b->valid && v < c->engine->plan->n_values; v++) {
        const cm_slot *s = &c->slots[v];
        b->slots[v] = (kept_slot){s->datum, s->offset, s->planned, s->interval, s->shaped};
    }
}

static void take_up(cm_context *c, int which)
{
    cm_binding *b = c->bindings[which];
    c->binding = which;
    c->elements = b->elements;
    c->bound_arena = b->arena;
    c->solutions = b->solutions;
    c->last = b->last;
    c->symbols = b->symbols;
    c->n_intervals = b->n_intervals;
    c->intervals = b->intervals;
    c->interval_values = b->interval_values;
    c->memory_used = b->memory_used;
    c->packed_bytes = b->packed_bytes;
    c->lean = b->lean;
    if (c->device)
        c->device->tables = b->device;
    for (int v = 0; b->valid && v < c->engine->plan->n_values; v++) {
        cm_slot *s = &c->slots[v];
        const kept_slot *k = &b->slots[v];
        if (c->engine->plan->values[v].storage == CM_STORE_CONSTANT)
            continue;
        s->datum = k->datum;
        s->offset = k->offset;
        s->planned = k->planned;
        s->interval = k->interval;
        s->shaped = k->shaped;
        s->owned = false;
    }
}

/* Which one to make anew. */
static int oldest(const cm_context *c)
{
    int best = 0;
    for (int i = 0; i < CM_MOST_BINDINGS; i++) {
        if (!c->bindings[i] || !c->bindings[i]->valid)
            return i;
        if (c->bindings[i]->used < c->bindings[best]->used)
            best = i;
    }
    return best;
}

cm_status cm_bindings_create(cm_ctx *cx, cm_context *c)
{
    CM_TRY(make(cx, c, &c->bindings[0]));
    take_up(c, 0);
    return CM_OK;
}

cm_status cm_binding_take(cm_ctx *cx, cm_context *c, bool *found)
{
    int which = 0;
    put_to_rest(c);
    bool elsewhere = false;
    for (; which < CM_MOST_BINDINGS && !fits(c, c->bindings[which]); which++)
        elsewhere = elsewhere || same_shapes(c, c->bindings[which]);
    *found = which < CM_MOST_BINDINGS;
    if (!*found) {
        if (elsewhere)
            cm_count_elements_changed(c);
        which = oldest(c);
        if (!c->bindings[which])
            CM_TRY(make(cx, c, &c->bindings[which]));
        c->bindings[which]->valid = false;
    }
    take_up(c, which);
    c->bindings[which]->used = ++c->turn;
    return CM_OK;
}

void cm_bindings_destroy(cm_context *c)
{
    if (c->bindings[c->binding])
        put_to_rest(c);
    for (int i = 0; i < CM_MOST_BINDINGS; i++) {
        if (!c->bindings[i])
            continue;
        c->bindings[i]->valid = false; /* slots are of no more use */
        take_up(c, i);
        if (c->device)
            cm_forget_places(c);
        for (int s = 0; s < c->engine->n_steps; s++)
            cm_arena_deinit(&c->solutions[s].late);
        cm_arena_deinit(&c->bound_arena);
    }
}

size_t cm_bindings_bytes(const cm_context *c)
{
    size_t n = 0;
    for (int i = 0; i < CM_MOST_BINDINGS; i++)
        if (c->bindings[i] && i != c->binding)
            n += c->bindings[i]->arena.total;
    return n;
}
