/* device_late.c -- steps whose sizes only the run tells, in a device's context: once their inputs have come they are
 * formed for the device, and again when those have other sizes than last time; what the device does not take
 * is the host's. Their values are wherever they were made, until somebody needs them on the other side.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/size.h"
#include "runtime/device.h"

enum {
    MOST_KNOWN = 64,  /* elements that tell sizes */
    GIVE_NS = 4000,   /* what giving the device a kernel takes the host */
    FETCH_NS = 15000, /* what waiting for a value and copying it takes */
};

/* ---- Where values are -------------------------------------------------------------------------- */

static bool is_constant(const cm_context *c, int32_t v)
{
    return c->engine->plan->values[v].storage == CM_STORE_CONSTANT;
}

static bool is_here(const cm_context *c, int32_t v, int where)
{
    return (where & CM_HERE) || is_constant(c, v) || c->device->late[v].here == c->device->run;
}

static bool is_there(const cm_context *c, int32_t v, int where)
{
    return (where & CM_THERE) || c->device->late[v].there == c->device->run;
}

static const void *at(const cm_context *c, int32_t v)
{
    const cm_device_state *d = c->device;
    return d->late[v].there == d->run ? d->late[v].at : d->tables.places[v].data;
}

/* At least so many bytes of the device's memory; half as much again as there was where that grows. */
static cm_status reserve(cm_ctx *cx, cm_device_state *d, cm_late_value *x, size_t bytes)
{
    void *p;
    if (x->room && bytes <= x->bytes)
        return CM_OK;
    if (bytes < x->bytes + x->bytes / 2)
        bytes = x->bytes + x->bytes / 2;
    CM_TRY(d->api->wait(cx, d->stream)); /* kernels may still read what is there */
    d->api->release(d->device, x->room);
    x->room = NULL;
    x->bytes = 0;
    CM_TRY(d->api->alloc(cx, d->device, bytes ? bytes : 1, &p));
    x->room = p;
    x->bytes = bytes;
    return CM_OK;
}

cm_status cm_late_down(cm_ctx *cx, cm_context *c, int32_t v, int where)
{
    cm_device_state *d = c->device;
    cm_slot *slot = &c->slots[v];
    size_t bytes = 0;
    if (is_here(c, v, where))
        return CM_OK;
    (void)cm_tensor_bytes(&slot->datum.tensor, &bytes); /* no more than there was memory for */
    CM_TRY(cm_room_reserve(cx, &slot->room, bytes, 0));
    if (bytes) {
        CM_TRY(d->api->download(cx, d->stream, slot->room.data, at(c, v), bytes));
        CM_TRY(d->api->wait(cx, d->stream));
    }
    slot->datum.tensor.data = slot->room.data;
    slot->owned = true;
    d->late[v].here = d->run;
    return CM_OK;
}

cm_status cm_fetch_late(cm_ctx *cx, cm_context *c, int32_t v)
{
    return cm_late_down(cx, c, v, 0);
}

static cm_status bring_up(cm_ctx *cx, cm_context *c, int32_t v, int where)
{
    cm_device_state *d = c->device;
    const cm_tensor *t = &c->slots[v].datum.tensor;
    cm_late_value *x = &d->late[v];
    size_t bytes = 0;
    if (is_there(c, v, where))
        return CM_OK;
    (void)cm_tensor_bytes(t, &bytes); /* the host has it */
    CM_TRY(reserve(cx, d, x, bytes));
    if (bytes)
        CM_TRY(d->api->upload(cx, d->stream, x->room, t->data, bytes));
    x->at = x->room;
    x->there = d->run;
    return CM_OK;
}

/* ---- Forming ----------------------------------------------------------------------------------- */

/* One step while it is formed; in its solution's arena. */
typedef struct {
    cm_ctx *cx;
    cm_context *c;
    const cm_ready_step *s;
    cm_solution *sol;
    const unsigned char *where;
    cm_late_operands x;
} forming;

/* Is the form that is there for these very sizes, and the elements that told them? */
static cm_status still_fits(const forming *f, bool *fits)
{
    const cm_solution *sol = f->sol;
    *fits = sol->formed;
    for (int i = 0; *fits && i < sol->n_in; i++) {
        const cm_tensor *was = sol->in[i], *is = f->c->in[i] ? &f->c->in[i]->tensor : NULL;
        int32_t v = f->s->plan->in[i].value;
        *fits = !was == !is && (!was || (was->dtype == is->dtype && cm_tensor_same_shape(was, is)));
        if (!*fits || !was || !was->data || is_constant(f->c, v))
            continue;
        CM_TRY(cm_late_down(f->cx, f->c, v, f->where[i]));
        *fits = memcmp(was->data, f->c->in[i]->tensor.data,
                       (size_t)cm_tensor_elems(was) * cm_dtype_size(was->dtype)) == 0;
    }
    return CM_OK;
}

/* The elements of small integer inputs, and numbers, which may tell sizes. */
static cm_status lend_elements(forming *f)
{
    for (int i = 0; i < f->s->plan->n_in; i++) {
        cm_tensor *t = &f->x.in[i];
        int64_t most = cm_dtype_is_float(t->dtype) ? 1 : MOST_KNOWN;
        if (!f->sol->in[i] || f->x.constant[i] || t->packed || cm_tensor_elems(t) > most)
            continue;
        CM_TRY(cm_late_down(f->cx, f->c, f->s->plan->in[i].value, f->where[i]));
        size_t bytes = (size_t)cm_tensor_elems(t) * cm_dtype_size(t->dtype);
        void *data = cm_arena_alloc_n(&f->sol->late, bytes + 1, 1, 8, 0);
        if (!data)
            return cm_fail_memory(f->cx);
        if (bytes)
            memcpy(data, f->c->in[i]->tensor.data, bytes);
        t->data = data;
    }
    return CM_OK;
}

static bool outputs_known(const forming *f)
{
    bool known = cm_late_outputs(f->cx, f->c, f->s, f->sol, &f->x, f->sol->counted);
    for (int o = 0; known && o < f->s->plan->n_out; o++) {
        size_t bytes;
        known = !f->x.outs[o] || (cm_tensor_bytes(f->x.outs[o], &bytes) &&
                                  (f->sol->counted[o] < 0 || bytes <= CM_MOST_RESERVED));
    }
    return known;
}

static bool is_problem(forming *f)
{
    const cm_tensor *const *outs = (const cm_tensor *const *)f->x.outs;
    return outputs_known(f) && cm_form_problem(&f->sol->late, f->s, f->sol->in, f->x.constant, outs,
                                               &f->c->device->target, 1, &f->sol->p);
}

/* Arithmetic on a few integers that the host has is not worth a way to the device and back. */
static bool stays_small(const forming *f)
{
    const cm_plan_step *step = f->s->plan;
    bool small = true;
    for (int i = 0; small && i < step->n_in; i++)
        small = !f->sol->in[i] || f->x.constant[i] ||
                (cm_few_integers(&f->x.in[i]) && is_here(f->c, step->in[i].value, f->where[i]));
    for (int o = 0; small && o < step->n_out; o++)
        small = !f->x.outs[o] || cm_few_integers(f->x.outs[o]);
    return small;
}

/* In a loop's body each step is given to the device again and again, so that small ones cost more there than here. */
static bool pays(const forming *f)
{
    const cm_plan_step *step = f->s->plan;
    const cm_context *c = f->c;
    cm_choice choice = {.ns = 0};
    cm_problem p;
    if (!cm_is_looped(c, step))
        return true;
    cm_arena_mark mark = cm_arena_save(f->cx->scratch);
    if (cm_form_problem(f->cx->scratch, f->s, f->sol->in, f->x.constant,
                        (const cm_tensor *const *)f->x.outs, &c->target,
                        cm_threads_count(c->threads), &p))
        cm_select(c, f->s, &p, &choice);
    cm_arena_restore(f->cx->scratch, mark);
    if (!choice.tactic)
        return true; /* references are slow */
    for (int i = 0; i < step->n_in; i++)
        if (f->sol->in[i] && !is_here(c, step->in[i].value, f->where[i]))
            choice.ns += FETCH_NS;
    return f->sol->choice.ns + GIVE_NS <= choice.ns;
}

static bool is_counted(const cm_solution *sol, const cm_plan_step *step)
{
    for (int o = 0; o < step->n_out; o++)
        if (step->out[o].value >= 0 && sol->counted[o] >= 0)
            return true;
    return false;
}

static cm_status make_ready(forming *f)
{
    cm_solution *sol = f->sol;
    CM_TRY(cm_device_ready(f->cx, f->c, f->s, sol, &sol->late));
    for (int i = 0; i < f->s->plan->n_in; i++)
        if (sol->in[i] && f->x.constant[i])
            CM_TRY(cm_device_weight(f->cx, f->c, f->s, sol, i, &sol->packed[i]));
    if (sol->refused)
        cm_tell_refused(f->cx, f->c, f->s, sol, 0);
    const cm_tactic *t = sol->choice.tactic;
    sol->workspace = t->workspace ? t->workspace(&sol->p, &sol->choice.knobs) : 0;
    if (!is_counted(sol, f->s->plan))
        sol->counted = NULL;
    return CM_OK;
}

/* sol->choice.tactic NULL: it is not for the device. */
static cm_status form(forming *f)
{
    cm_solution *sol = f->sol;
    CM_TRY(cm_late_gather(f->cx, f->c, f->s->plan, sol, &f->x));
    CM_NEW_N(f->cx, &sol->late, sol->counted, f->s->plan->n_out, int);
    bool is = is_problem(f);
    if (!is && !sol->late.failed) {
        CM_TRY(lend_elements(f));
        is = is_problem(f);
    }
    if (sol->late.failed)
        return cm_fail_memory(f->cx);
    sol->small = is && stays_small(f);
    if (!is)
        sol->p.kind =
            CM_PROBLEM_EVALUATE; /* so that reports do not ask tactics about half a problem */
    if (!is || sol->small)
        return CM_OK;
    sol->p.lean = f->c->lean;
    sol->p.tf32 = f->c->engine->tf32;
    cm_select(f->c, f->s, &sol->p, &sol->choice);
    sol->small = sol->choice.tactic && !pays(f);
    if (sol->small)
        sol->choice = (cm_choice){0};
    if (!sol->choice.tactic)
        return CM_OK;
    cm_status st = make_ready(f);
    if (st != CM_ERR_DEVICE)
        return st;
    sol->choice =
        (cm_choice){0}; /* no NVRTC, no image of the kernel: sizes were not known to the build */
    return CM_OK;
}

static cm_status prepare(cm_ctx *cx, cm_context *c, const cm_action *a, cm_solution *sol)
{
    forming f = {.cx = cx, .c = c, .s = a->step, .sol = sol, .where = a->where};
    bool fits;
    if (!a->step->problem || !cm_late_takes(c, a->step->plan)) {
        sol->choice.tactic = NULL;
        sol->formed = false;
        return CM_OK;
    }
    CM_TRY(still_fits(&f, &fits));
    if (fits)
        return CM_OK;
    cm_late_forget(cx, c, sol);
    CM_TRY(form(&f));
    sol->formed = true;
    return CM_OK;
}

/* ---- Running ----------------------------------------------------------------------------------- */

static cm_status set_pointers(cm_ctx *cx, cm_context *c, const cm_action *a, cm_solution *sol)
{
    cm_device_state *d = c->device;
    const cm_plan_step *step = a->step->plan;
    for (int i = 0; i < step->n_in; i++) {
        int32_t v = step->in[i].value;
        if (!sol->in[i])
            continue;
        if (!is_constant(c, v))
            CM_TRY(bring_up(cx, c, v, a->where[i]));
        sol->data[i] = is_constant(c, v) ? sol->packed[i] : at(c, v);
    }
    for (int o = 0; o < step->n_out; o++) {
        int32_t v = step->out[o].value;
        size_t bytes = 0;
        if (v < 0)
            continue;
        (void)cm_tensor_bytes(sol->p.out[o], &bytes); /* checked when it was formed */
        CM_TRY(reserve(cx, d, &d->late[v], bytes));
        sol->out_data[o] = d->late[v].room;
        d->tables.places[v].data = d->late[v].at = d->late[v].room;
        d->late[v].there = d->run;
        c->slots[v].datum = (cm_datum){.kind = CM_TENSOR, .tensor = *sol->p.out[o]};
        c->slots[v].owned = false;
    }
    return reserve(cx, d, &d->late_workspace, sol->workspace);
}

static cm_status run_away(cm_ctx *cx, cm_context *c, const cm_action *a, cm_solution *sol)
{
    cm_device_state *d = c->device;
    int64_t *count = sol->counted ? d->late_count : NULL;
    CM_TRY(set_pointers(cx, c, a, sol));
    CM_TRY(cm_launch_step(cx, c, a->step, sol, d->late_workspace.room, count));
    if (!count)
        return CM_OK;
    CM_TRY(d->api->wait(cx, d->stream));
    CM_TRY(cm_check_fault(cx, c));
    return cm_shape_counted(cx, c, a->step, sol, *(volatile int64_t *)count);
}

/* One that is profiled is waited for. */
static cm_status time_away(cm_ctx *cx, cm_context *c, const cm_action *a, cm_solution *sol)
{
    cm_device_state *d = c->device;
    if (!c->profile)
        return run_away(cx, c, a, sol);
    CM_TRY(d->api->wait(cx, d->stream));
    uint64_t start = cm_now_ns();
    CM_TRY(run_away(cx, c, a, sol));
    CM_TRY(d->api->wait(cx, d->stream));
    c->profile(c->profile_user, a->step->index, start, cm_now_ns());
    return CM_OK;
}

/* The inputs are in the host's memory. */
cm_status cm_late_here(cm_ctx *cx, cm_context *c, const cm_ready_step *s)
{
    CM_TRY(cm_run_step(cx, c, s));
    for (int o = 0; o < s->plan->n_out; o++)
        if (s->plan->out[o].value >= 0)
            c->device->late[s->plan->out[o].value].here = c->device->run;
    return CM_OK;
}

static cm_status run_here(cm_ctx *cx, cm_context *c, const cm_action *a)
{
    const cm_plan_step *step = a->step->plan;
    bool shapes = a->step->op->traits & CM_SHAPE_ONLY;
    for (int i = 0; !shapes && i < step->n_in; i++)
        if (step->in[i].value >= 0)
            CM_TRY(cm_late_down(cx, c, step->in[i].value, a->where[i]));
    return cm_late_here(cx, c, a->step);
}

static cm_status run_late(cm_ctx *cx, cm_context *c, const cm_action *a, bool *away)
{
    const cm_ready_step *s = a->step;
    cm_solution *sol = &c->device->late_forms[s->index];
    for (int i = 0; i < s->plan->n_in; i++)
        c->in[i] = s->plan->in[i].value >= 0 ? &c->slots[s->plan->in[i].value].datum : NULL;
    CM_TRY(prepare(cx, c, a, sol));
    *away = sol->choice.tactic != NULL;
    c->solutions[s->index].small = sol->small;
    if (!*away)
        return CM_OK;
    c->solutions[s->index].choice = sol->choice; /* for reports; the host forms its own */
    c->solutions[s->index].formed = false;
    return time_away(cx, c, a, sol);
}

cm_status cm_run_late(cm_ctx *cx, cm_context *c, const cm_action *a)
{
    const cm_ready_step *s = a->step;
    bool away = false;
    CM_TRY(cm_check_cancel(cx));
    cm_arena_mark mark = cm_arena_save(cx->scratch);
    if (c->heard)
        cm_range_push(s->plan->name);
    cm_status st = run_late(cx, c, a, &away);
    if (c->heard)
        cm_range_pop();
    cm_arena_restore(cx->scratch, mark);
    c->solutions[s->index].away = away;
    if (st != CM_OK)
        return cm_while(cx, st, "%s node '%s'", s->plan->op, s->plan->name);
    return away ? CM_OK : run_here(cx, c, a);
}

/* ---- Lifetimes --------------------------------------------------------------------------------- */

cm_status cm_late_create(cm_ctx *cx, cm_context *c)
{
    cm_device_state *d = c->device;
    void *p;
    CM_NEW_N(cx, &c->arena, d->late, c->engine->plan->n_values, cm_late_value);
    CM_NEW_N(cx, &c->arena, d->late_forms, c->engine->n_steps, cm_solution);
    CM_TRY(cm_inner_create(cx, c));
    if (!d->stream)
        return CM_OK;
    CM_TRY(d->api->alloc_host(cx, d->device, sizeof *d->late_count, &p));
    d->late_count = p;
    return CM_OK;
}

void cm_late_destroy(cm_context *c)
{
    cm_device_state *d = c->device;
    for (int v = 0; d->late && v < c->engine->plan->n_values; v++)
        d->api->release(d->device, d->late[v].room);
    for (int i = 0; d->late_forms && i < c->engine->n_steps; i++)
        cm_arena_deinit(&d->late_forms[i].late);
    d->api->release(d->device, d->late_workspace.room);
    if (d->late_count)
        d->api->release_host(d->device, d->late_count);
}
