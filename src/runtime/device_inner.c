/* device_inner.c -- lists inside control steps, in a device's context: each of their steps is a late one. What a body
 * carries to its next iteration stays where it was made; whatever the control step itself looks at (conditions, what is
 * stacked, results) is fetched for it.
 * SPDX-License-Identifier: Apache-2.0 */
#include "runtime/device.h"

/* Where a step of the list finds v: its own list's values are late ones, those from outside the host has. */
static int where_is(const cm_context *c, int32_t v, int list)
{
    const cm_place *x = &c->device->tables.places[v];
    if (c->engine->values[v].list == list)
        return 0;
    return CM_HERE | (x->away && !x->up && !x->late ? CM_THERE : 0);
}

/* For steps that only the host has, with the lists inside them. */
static cm_status run_on_host(cm_ctx *cx, cm_context *c, const cm_ready_step *s, int list)
{
    const cm_plan_step *step = s->plan;
    for (int i = 0; i < step->n_in; i++)
        if (step->in[i].value >= 0)
            CM_TRY(cm_inner_fetch(cx, c, step->in[i].value, list));
    for (int k = 0; k < step->n_lists; k++) {
        const cm_plan_list *inner = c->engine->lists[step->lists[k]].plan;
        for (int j = 0; j < inner->n_captures; j++)
            CM_TRY(cm_inner_fetch(cx, c, inner->captures[j], list));
    }
    return cm_late_here(cx, c, s);
}

cm_status cm_run_inner(cm_ctx *cx, cm_context *c, int list)
{
    const cm_ready_list *l = &c->engine->lists[list];
    cm_device_state *d = c->device;
    for (int k = 0; k < l->plan->n_steps; k++) {
        const cm_ready_step *s = &l->steps[k];
        cm_action a = {.kind = CM_DO_LATE, .step = s, .where = d->where};
        for (int i = 0; i < s->plan->n_in; i++) {
            int32_t v = s->plan->in[i].value;
            a.where[i] = (unsigned char)(v >= 0 ? where_is(c, v, list) : 0);
        }
        for (int o = 0; o < s->plan->n_out; o++) /* of the iteration before */
            if (s->plan->out[o].value >= 0)
                d->late[s->plan->out[o].value].here = d->late[s->plan->out[o].value].there = 0;
        c->solutions[s->index].ran = d->run;
        bool may_go = s->control < 0 && (s->problem || (s->op->traits & CM_SHAPE_ONLY));
        CM_TRY(may_go ? cm_run_late(cx, c, &a) : run_on_host(cx, c, s, list));
    }
    return CM_OK;
}

cm_status cm_inner_fetch(cm_ctx *cx, cm_context *c, int32_t v, int list)
{
    return c->device ? cm_late_down(cx, c, v, where_is(c, v, list)) : CM_OK;
}

void cm_inner_put(cm_context *c, int32_t v)
{
    if (!c->device)
        return;
    c->device->late[v].here = c->device->run;
    c->device->late[v].there = 0;
}

void cm_inner_lend(cm_context *c, int32_t v, int32_t outer, size_t offset)
{
    enum { ALIGNED = 16 }; /* kernels read whole vectors */
    cm_device_state *d = c->device;
    cm_inner_put(c, v);
    if (!d || offset % ALIGNED)
        return;
    const cm_place *x = &d->tables.places[outer];
    bool late = d->late[outer].there == d->run;
    if (!late && !(x->away && !x->up && !x->late))
        return;
    d->late[v].at = (const unsigned char *)(late ? d->late[outer].at : x->data) + offset;
    d->late[v].there = d->run;
}

bool cm_inner_away(const cm_context *c, int32_t v)
{
    const cm_device_state *d = c->device;
    return d && d->late[v].there == d->run && d->late[v].here != d->run;
}

void cm_inner_carry(cm_context *c, int32_t from, int32_t to)
{
    if (!c->device)
        return;
    cm_late_value *a = &c->device->late[from], *b = &c->device->late[to], was = *b;
    b->here = a->here;
    b->there = a->there;
    b->room = a->room;
    b->bytes = a->bytes;
    b->at = a->room;
    *a = (cm_late_value){.room = was.room, .bytes = was.bytes};
}

bool cm_is_looped(const cm_context *c, const cm_plan_step *s)
{
    for (int o = 0; o < s->n_out; o++)
        if (s->out[o].value >= 0)
            return c->device->looped[c->engine->values[s->out[o].value].list];
    return false;
}

bool cm_inner_not_run(const cm_context *c, int step)
{
    const cm_plan_list *main = &c->engine->variant->lists[0];
    const cm_plan_step *s = c->engine->steps[step];
    bool inner = s < main->steps || s >= main->steps + main->n_steps;
    return inner && c->device && c->device->run && c->solutions[step].ran != c->device->run;
}

static void find_looped(cm_context *c, int list, bool looped)
{
    const cm_ready_list *l = &c->engine->lists[list];
    c->device->looped[list] = looped;
    for (int i = 0; i < l->plan->n_steps; i++)
        for (int k = 0; k < l->steps[i].plan->n_lists; k++)
            find_looped(c, l->steps[i].plan->lists[k],
                        looped || l->steps[i].plan->kind != CM_STEP_IF);
}

cm_status cm_inner_create(cm_ctx *cx, cm_context *c)
{
    CM_NEW_N(cx, &c->arena, c->device->looped, c->engine->variant->n_lists, bool);
    CM_NEW_N(cx, &c->arena, c->device->where, c->engine->max_in, unsigned char);
    find_looped(c, 0, false);
    return CM_OK;
}
