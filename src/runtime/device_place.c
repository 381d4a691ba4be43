/* device_place.c -- which steps go to the device, where values are, what is copied and in which order.
 * SPDX-License-Identifier: Apache-2.0 */
#include "runtime/device.h"

typedef struct {
    cm_ctx *cx;
    cm_context *c;
    cm_device_state *d;
    const cm_plan_list *main;
    int pending; /* first step in `order` of the segment that is open */
} placing;

bool cm_few_integers(const cm_tensor *t)
{
    enum { FEW = 16 };
    return !cm_dtype_is_float(t->dtype) && cm_tensor_elems(t) <= FEW;
}

static bool is_constant(const placing *p, int32_t v)
{
    return p->c->engine->plan->values[v].storage == CM_STORE_CONSTANT;
}

static cm_action *add_action(placing *p, cm_action_kind kind)
{
    cm_action *a = &p->d->tables.actions[p->d->tables.n_actions++];
    *a = (cm_action){.kind = kind};
    return a;
}

static void close_segment(placing *p)
{
    if (p->pending == p->d->tables.n_order)
        return;
    cm_action *a = add_action(p, CM_DO_SEGMENT);
    a->first = p->pending;
    a->n = p->d->tables.n_order - p->pending;
    const char *layer = p->d->tables.order[p->pending]->plan->name;
    a->name =
        p->c->heard ? cm_arena_printf(&p->c->bound_arena, "%d layers from %s", a->n, layer) : NULL;
    a->name = a->name ? a->name : layer;
    p->pending = p->d->tables.n_order;
}

/* Before a step of the host reads it. True: a wait must follow. */
static bool bring_down(placing *p, int32_t v)
{
    cm_place *x = &p->d->tables.places[v];
    if (is_constant(p, v) || x->host)
        return false;
    if (x->late) { /* it waits by itself, if there is anything to wait for */
        x->host = true;
        add_action(p, CM_DO_FETCH)->value = v;
        return false;
    }
    if (!x->away)
        return false;
    close_segment(p);
    x->host = x->down = true;
    add_action(p, CM_DO_DOWN)->value = v;
    return true;
}

/* Before a step of the device reads it. */
static void bring_up(placing *p, int32_t v)
{
    cm_place *x = &p->d->tables.places[v];
    if (is_constant(p, v) || x->away)
        return;
    x->away = x->up = true;
    if (!x->once)
        add_action(p, CM_DO_UP)->value = v;
}

static void place_on_host(placing *p, const cm_ready_step *s)
{
    const cm_plan_step *step = s->plan;
    bool wait = false;
    for (int i = 0; i < step->n_in; i++)
        wait |= step->in[i].value >= 0 && bring_down(p, step->in[i].value);
    for (int k = 0; k < step->n_lists; k++) {
        const cm_plan_list *inner = p->c->engine->lists[step->lists[k]].plan;
        for (int j = 0; j < inner->n_captures; j++)
            wait |= bring_down(p, inner->captures[j]);
    }
    if (wait)
        add_action(p, CM_DO_WAIT);
    add_action(p, CM_DO_HOST)->step = s;
    for (int o = 0; o < step->n_out; o++)
        if (step->out[o].value >= 0)
            p->d->tables.places[step->out[o].value].host = true;
}

/* A late step that the device may take: nothing is copied before its sizes have told. */
static void place_late(placing *p, const cm_ready_step *s)
{
    const cm_plan_step *step = s->plan;
    unsigned char *where = p->d->tables.where + p->d->tables.n_where;
    p->d->tables.n_where += step->n_in;
    for (int i = 0; i < step->n_in; i++) {
        int32_t v = step->in[i].value;
        if (v < 0 || is_constant(p, v))
            continue;
        cm_place *x = &p->d->tables.places[v];
        where[i] = (unsigned char)((x->host ? CM_HERE : 0) | (x->away ? CM_THERE : 0));
        x->held = x->held || x->away;
        if (x->away)
            close_segment(p);
    }
    cm_action *a = add_action(p, CM_DO_LATE);
    a->step = s;
    a->where = where;
    for (int o = 0; o < step->n_out; o++)
        if (step->out[o].value >= 0)
            p->d->tables.places[step->out[o].value].late = true;
}

static void place_away(placing *p, const cm_ready_step *s)
{
    const cm_plan_step *step = s->plan;
    const cm_solution *sol = &p->c->solutions[s->index];
    for (int i = 0; i < step->n_in; i++)
        if (step->in[i].value >= 0 && sol->in[i])
            bring_up(p, step->in[i].value);
    p->d->tables.order[p->d->tables.n_order++] = s;
    for (int o = 0; o < step->n_out; o++) {
        if (step->out[o].value < 0)
            continue;
        p->d->tables.places[step->out[o].value].away = true;
        p->d->tables.places[step->out[o].value].counted = sol->counted && sol->counted[o] >= 0;
        p->d->tables.places[step->out[o].value].late = sol->counted && sol->counted[o] >= 0;
    }
    if (!sol->counted)
        return;
    close_segment(p);
    add_action(p, CM_DO_COUNT)->step = s;
}

/* A view is where its input is; a constant's is the host's, from where the device may want it. */
static void place_view(placing *p, const cm_ready_step *s, cm_solution *sol)
{
    const cm_place *from = &p->d->tables.places[s->plan->in[0].value];
    bool constant = is_constant(p, s->plan->in[0].value);
    sol->away = from->away && !constant;
    if (sol->away)
        place_away(p, s);
    if (!sol->away || (from->host && !sol->n_conversions)) /* both, where there are both */
        place_on_host(p, s);
}

static void place_step(placing *p, const cm_ready_step *s)
{
    cm_solution *sol = &p->c->solutions[s->index];
    if (s->control < 0 && sol->way == CM_WAY_KNOWN) {
        for (int o = 0; o < s->plan->n_out; o++)
            if (s->plan->out[o].value >= 0)
                p->d->tables.places[s->plan->out[o].value].host =
                    p->d->tables.places[s->plan->out[o].value].once = true;
    } else if (s->control < 0 && sol->way == CM_WAY_VIEW) {
        place_view(p, s, sol);
    } else if (s->control < 0 && sol->away) {
        place_away(p, s);
    } else if (s->control < 0 && sol->way == CM_WAY_LATE &&
               (s->problem || (s->op->traits & CM_SHAPE_ONLY))) {
        place_late(p, s);
    } else {
        place_on_host(p, s);
    }
}

static void place_outputs(placing *p)
{
    for (int i = 0; i < p->main->n_outputs; i++)
        if (!p->d->out_at[i])
            bring_down(p, p->main->outputs[i]);
    close_segment(p);
    for (int i = 0; i < p->main->n_outputs; i++)
        if (p->d->out_at[i])
            add_action(p, CM_DO_OUT)->value = i;
}

/* One action a step, one copy a value and direction, one wait a step. */
static cm_status make_tables(cm_ctx *cx, cm_context *c)
{
    cm_device_state *d = c->device;
    int n_values = c->engine->plan->n_values, n_steps = c->engine->n_steps;
    CM_NEW_N(cx, &c->bound_arena, d->tables.places, n_values, cm_place);
    CM_NEW_N(cx, &c->bound_arena, d->tables.actions,
             3 * n_steps + 2 * n_values + 2 + c->engine->lists[0].plan->n_outputs, cm_action);
    CM_NEW_N(cx, &c->bound_arena, d->tables.order, n_steps, const cm_ready_step *);
    int n_where = 0;
    for (int i = 0; i < c->engine->lists[0].plan->n_steps; i++)
        n_where += c->engine->lists[0].steps[i].plan->n_in;
    CM_NEW_N(cx, &c->bound_arena, d->tables.where, n_where, unsigned char);
    d->tables.n_where = 0;
    CM_NEW_N(cx, &c->bound_arena, d->tables.recorded_in, cm_engine_n_inputs(c->engine),
             const void *);
    CM_NEW_N(cx, &c->bound_arena, d->tables.recorded_out, cm_engine_n_outputs(c->engine), void *);
    CM_NEW_N(cx, &c->bound_arena, d->tables.recorded_bytes, cm_engine_n_outputs(c->engine), size_t);
    return CM_OK;
}

cm_status cm_place_values(cm_ctx *cx, cm_context *c)
{
    const cm_ready_list *l = &c->engine->lists[0];
    CM_TRY(make_tables(cx, c));
    placing p = {.cx = cx, .c = c, .d = c->device, .main = l->plan};
    for (int i = 0; i < l->plan->n_inputs; i++) {
        cm_place *x = &p.d->tables.places[l->plan->inputs[i]];
        x->host = !p.d->in_at[i];
        x->away = !x->host;
    }
    for (int i = 0; i < l->plan->n_steps; i++)
        place_step(&p, &l->steps[i]);
    place_outputs(&p);
    /* What is copied down stays until the segment is through, wherever in it it was made. */
    for (int v = 0; v < c->engine->plan->n_values; v++)
        if (p.d->tables.places[v].down || p.d->tables.places[v].held)
            c->last[v] = INT_MAX;
    return CM_OK;
}

void cm_forget_places(cm_context *c)
{
    cm_device_state *d = c->device;
    for (int i = 0; i < d->tables.n_actions; i++)
        d->api->recording_close(d->device, d->tables.actions[i].recording);
    d->tables.n_actions = d->tables.n_order = 0;
    d->tables.actions = NULL;
    d->tables.recorded = false;
}
