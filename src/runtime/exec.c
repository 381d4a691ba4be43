/* exec.c -- walks a step list.
 * SPDX-License-Identifier: Apache-2.0
 *
 * An evaluate step calls the operator's reference with a host that gives planned memory where it
 * suffices and the value's own room where not. A view costs nothing: its output is its input's memory
 * under another shape. What is not a plain tensor is copied into the slot's room at once, since
 * evaluators lend it. */
#include "runtime/bands.h"

#include <string.h>

#include "ops/eval.h"
#include "runtime/device.h"

typedef struct {
    cm_context *c;
    const cm_ready_step *step;
} output_host;

cm_status cm_callers_memory(cm_ctx *cx, cm_context *c, int o, const cm_tensor *t, size_t bytes,
                            void **out)
{
    cm_output_binding *b = &c->outputs[o];
    *out = NULL;
    if (b->fn) {
        *out = b->fn(b->user, o, t, bytes);
        if (!*out)
            return cm_fail(cx, CM_ERR_MEMORY, "the caller gave no memory for output '%s'",
                           cm_engine_output_name(c->engine, o));
        b->data = *out;
        b->bytes = bytes;
    } else if (b->data) {
        if (bytes > b->bytes)
            return cm_fail(cx, CM_ERR_ARGUMENT, "output '%s' has %zu bytes, its memory only %zu",
                           cm_engine_output_name(c->engine, o), bytes, b->bytes);
        *out = b->data;
    }
    return CM_OK;
}

static cm_status give_memory(void *user, cm_ctx *cx, int output, cm_tensor *t)
{
    output_host *h = user;
    cm_context *c = h->c;
    cm_slot *s = &c->slots[h->step->plan->out[output].value];
    size_t bytes;
    if (!cm_tensor_bytes(t, &bytes))
        return cm_fail(cx, CM_ERR_DATA, "output %d is too large", output);
    s->owned = false;
    t->capacity_bytes = bytes;
    if (s->output >= 0 && t->dtype != CM_STR) {
        CM_TRY(cm_callers_memory(cx, c, s->output, t, bytes, &t->data));
        if (t->data)
            return CM_OK;
    }
    if (bytes && bytes <= s->planned) {
        t->data = (unsigned char *)c->memory + s->offset;
        t->capacity_bytes = s->planned;
        return CM_OK;
    }
    CM_TRY(cm_room_reserve(cx, &s->room, bytes, 0));
    t->data = s->room.data;
    t->capacity_bytes = s->room.bytes;
    s->owned = true;
    return CM_OK;
}

static void gather_inputs(cm_context *c, const cm_plan_step *p)
{
    for (int i = 0; i < p->n_in; i++)
        c->in[i] = p->in[i].value >= 0 ? &c->slots[p->in[i].value].datum : NULL;
}

/* Inputs in the layouts that the step wants. */
static void convert_inputs(cm_context *c, const cm_ready_step *s, cm_solution *sol)
{
    if (!sol->n_conversions)
        return;
    uint64_t start = c->profile ? cm_now_ns() : 0;
    for (int i = 0; i < sol->n_conversions; i++) {
        cm_conversion *k = &sol->conversions[i];
        const cm_tensor *from = &c->slots[s->plan->in[k->input].value].datum.tensor;
        cm_tensor *to = &k->to.tensor;
        to->data = (unsigned char *)c->memory + sol->offset + k->offset;
        cm_backend_at(0)->copy(c->target.level, c->threads, cm_dtype_size(to->dtype), to->rank,
                               to->dims, from->data, from->strides, to->data, to->strides);
    }
    if (c->profile)
        sol->conversion_ns = cm_now_ns() - start;
}

static cm_status evaluate(cm_ctx *cx, cm_context *c, const cm_ready_step *s, cm_solution *sol)
{
    const cm_plan_step *p = s->plan;
    output_host user = {c, s};
    cm_eval_host host = {give_memory, &user};
    gather_inputs(c, p);
    convert_inputs(c, s, sol);
    for (int i = 0; i < sol->n_conversions; i++)
        c->in[sol->conversions[i].input] = &sol->conversions[i].to;
    for (int i = 0; i < p->n_out; i++) {
        c->out[i] = NULL;
        if (p->out[i].value < 0)
            continue;
        cm_slot *slot = &c->slots[p->out[i].value];
        slot->datum = (cm_datum){0};
        slot->owned = false;
        c->out[i] = &slot->datum;
    }
    cm_eval e = {
        .cx = cx,
        .op = s->op,
        .attr = s->attr,
        .prepared = s->prepared,
        .n_in = p->n_in,
        .in = c->in,
        .n_out = p->n_out,
        .out = c->out,
        .threads = c->threads,
        .random = &c->random,
        .host = &host,
        .epilogue = &p->epilogue,
    };
    CM_TRY(cm_op_eval(&e));
    for (int i = 0; i < p->n_out; i++) {
        if (!c->out[i] || cm_datum_is_plain(c->out[i]))
            continue;
        cm_slot *slot = &c->slots[p->out[i].value];
        cm_datum lent = slot->datum;
        CM_TRY(cm_room_copy(cx, &slot->room, &lent, &slot->datum));
        slot->owned = true;
    }
    return CM_OK;
}

/* The shape that a view gives its input. */
static cm_status view_shape(cm_ctx *cx, const cm_context *c, const cm_ready_step *s, cm_tensor *t)
{
    int n_in = s->plan->n_in;
    cm_infer_in *in;
    cm_infer_out *out;
    cm_type *types;
    CM_NEW_N(cx, cx->scratch, in, n_in, cm_infer_in);
    CM_NEW_N(cx, cx->scratch, types, n_in, cm_type);
    CM_NEW_N(cx, cx->scratch, out, s->plan->n_out, cm_infer_out);
    for (int i = 0; i < n_in; i++) {
        if (!c->in[i])
            continue;
        types[i] = cm_type_of_datum(c->in[i]);
        in[i].type = &types[i];
        if (i > 0 && c->in[i]->kind == CM_TENSOR)
            in[i].constant = &c->in[i]->tensor;
    }
    out[0].wanted = true;
    cm_infer f = {.cx = cx,
                  .op = s->op,
                  .attr = s->attr,
                  .n_in = n_in,
                  .in = in,
                  .n_out = s->plan->n_out,
                  .out = out};
    CM_TRY(cm_op_infer(&f));
    const cm_type *r = &out[0].type;
    if (r->kind != CM_TENSOR || r->rank < 0 || !cm_tensor_shape(t, r->dtype, r->rank, r->dims))
        t->rank = -1;
    return CM_OK;
}

/* The output lies in the input's memory. *done false: it cannot, evaluate it. */
static cm_status view(cm_ctx *cx, cm_context *c, const cm_ready_step *s, bool *done)
{
    const cm_plan_step *p = s->plan;
    *done = false;
    gather_inputs(c, p);
    if (!c->in[0] || p->out[0].value < 0)
        return CM_OK;
    cm_datum d = *c->in[0];
    if (d.kind == CM_TENSOR) {
        CM_TRY(view_shape(cx, c, s, &d.tensor));
        if (d.tensor.rank < 0 || d.tensor.dtype != c->in[0]->tensor.dtype ||
            cm_tensor_elems(&d.tensor) != cm_tensor_elems(&c->in[0]->tensor))
            return CM_OK;
    } else if (s->op->id != CM_OP_IDENTITY) {
        return CM_OK;
    }
    cm_slot *slot = &c->slots[p->out[0].value];
    slot->datum = d;
    slot->owned = false;
    *done = true;
    return CM_OK;
}

/* Where output o of a step goes, whose sizes stand in its slot. */
static cm_status output_memory(cm_ctx *cx, cm_context *c, const cm_ready_step *s, int o)
{
    cm_slot *slot = &c->slots[s->plan->out[o].value];
    if (slot->output < 0 && slot->planned) {
        slot->datum.tensor.data = (unsigned char *)c->memory + slot->offset;
        return CM_OK;
    }
    output_host user = {c, s};
    return give_memory(&user, cx, o, &slot->datum.tensor);
}

/* What other cores read is written only where it changes: they keep it in their caches. */
static void set(const void **to, const void *value)
{
    if (*to != value)
        *to = value;
}

/* Returns the elements of all outputs. */
static int64_t set_pointers(cm_context *c, const cm_ready_step *s, cm_solution *sol)
{
    const cm_plan_step *p = s->plan;
    for (int i = 0; i < p->n_in; i++) {
        if (!sol->in[i])
            continue;
        set(&sol->data[i],
            sol->packed[i] ? sol->packed[i] : c->slots[p->in[i].value].datum.tensor.data);
    }
    for (int i = 0; i < sol->n_conversions; i++)
        sol->data[sol->conversions[i].input] = sol->conversions[i].to.tensor.data;
    int64_t elems = 0;
    for (int o = 0; o < p->n_out; o++) {
        if (p->out[o].value < 0)
            continue;
        sol->out_data[o] = c->slots[p->out[o].value].datum.tensor.data;
        elems += cm_tensor_elems(sol->p.out[o]);
    }
    return elems;
}

static cm_run run_of(cm_ctx *cx, const cm_context *c, const cm_solution *sol, void *workspace)
{
    static _Alignas(64) unsigned char nothing[64]; /* of no bytes, for those who asked for none */
    return (cm_run){.cx = cx,
                    .p = &sol->p,
                    .k = &sol->choice.knobs,
                    .in = sol->data,
                    .out = sol->out_data,
                    .operands = sol->data + sol->p.n_in,
                    .workspace = workspace ? workspace : nothing,
                    .threads = c->threads,
                    .ahead = sol->ahead,
                    .ahead_bytes = sol->ahead_bytes};
}

/* Where nothing needs memory there is none. */
static void *bound_workspace(const cm_context *c, const cm_solution *sol)
{
    return c->memory ? (unsigned char *)c->memory + sol->offset : NULL;
}

static cm_status bound_outputs(cm_ctx *cx, cm_context *c, const cm_ready_step *s)
{
    for (int o = 0; o < s->plan->n_out; o++)
        if (s->plan->out[o].value >= 0)
            CM_TRY(output_memory(cx, c, s, o));
    return CM_OK;
}

cm_status cm_set_pointers(cm_ctx *cx, cm_context *c, const cm_ready_step *s, cm_solution *sol)
{
    CM_TRY(bound_outputs(cx, c, s));
    set_pointers(c, s, sol);
    return CM_OK;
}

cm_run cm_run_of(cm_ctx *cx, const cm_context *c, const cm_solution *sol)
{
    return run_of(cx, c, sol, bound_workspace(c, sol));
}

static cm_status run_tactic(cm_ctx *cx, cm_context *c, const cm_ready_step *s, cm_solution *sol,
                            void *workspace)
{
    if (set_pointers(c, s, sol) == 0)
        return CM_OK;
    cm_run r = run_of(cx, c, sol, workspace);
    return sol->choice.tactic->run(&r);
}

static cm_status run_bound(cm_ctx *cx, cm_context *c, const cm_ready_step *s, cm_solution *sol)
{
    convert_inputs(c, s, sol);
    CM_TRY(bound_outputs(cx, c, s));
    return run_tactic(cx, c, s, sol, bound_workspace(c, sol));
}

static cm_status run_bound_view(cm_ctx *cx, cm_context *c, const cm_ready_step *s, cm_solution *sol)
{
    (void)cx;
    cm_tensor *t = &c->slots[s->plan->out[0].value].datum.tensor;
    convert_inputs(c, s, sol);
    t->data = sol->n_conversions ? sol->conversions[0].to.tensor.data
                                 : c->slots[s->plan->in[0].value].datum.tensor.data;
    return CM_OK;
}

static cm_status run_late(cm_ctx *cx, cm_context *c, const cm_ready_step *s, cm_solution *sol)
{
    bool done = false;
    if (s->op->traits & CM_VIEW)
        CM_TRY(view(cx, c, s, &done));
    if (done)
        return CM_OK;
    gather_inputs(c, s->plan);
    CM_TRY(cm_prepare_late(cx, c, s, sol));
    if (!sol->choice.tactic)
        return evaluate(cx, c, s, sol);
    output_host user = {c, s};
    for (int o = 0; o < s->plan->n_out; o++) {
        if (s->plan->out[o].value < 0)
            continue;
        cm_slot *slot = &c->slots[s->plan->out[o].value];
        slot->datum = (cm_datum){.kind = CM_TENSOR, .tensor = *sol->p.out[o]};
        CM_TRY(give_memory(&user, cx, o, &slot->datum.tensor));
    }
    return run_tactic(cx, c, s, sol, c->late_workspace.data);
}

static cm_status run_step(cm_ctx *cx, cm_context *c, const cm_ready_step *s)
{
    if (s->control >= 0)
        return cm_run_control(cx, c, s);
    cm_solution *sol = &c->solutions[s->index];
    switch (sol->way) {
    case CM_WAY_TACTIC:
        return run_bound(cx, c, s, sol);
    case CM_WAY_VIEW:
        return run_bound_view(cx, c, s, sol);
    case CM_WAY_EVALUATOR:
        return evaluate(cx, c, s, sol);
    case CM_WAY_KNOWN:
        return CM_OK;
    case CM_WAY_LATE:
        break;
    }
    return run_late(cx, c, s, sol);
}

cm_status cm_run_step(cm_ctx *cx, cm_context *c, const cm_ready_step *s)
{
    CM_TRY(cm_check_cancel(cx));
    uint64_t start = c->profile ? cm_now_ns() : 0;
    cm_arena_mark mark = cm_arena_save(cx->scratch);
    if (c->heard)
        cm_range_push(s->plan->name);
    cm_status st = run_step(cx, c, s);
    if (c->heard)
        cm_range_pop();
    cm_arena_restore(cx->scratch, mark);
    if (st != CM_OK)
        return cm_while(cx, st, "%s node '%s'", s->plan->op, s->plan->name);
    if (c->profile)
        c->profile(c->profile_user, s->index, start, cm_now_ns());
    return CM_OK;
}

cm_status cm_run_list(cm_ctx *cx, cm_context *c, int list)
{
    const cm_ready_list *l = &c->engine->lists[list];
    if (c->device)
        return cm_run_inner(cx, c, list);
    for (int i = 0, n; i < l->plan->n_steps; i += n) {
        const cm_ready_step *s = &l->steps[i];
        n = s->control >= 0 ? 0 : c->solutions[s->index].chain;
        n = n > 1 ? n : 1;
        CM_TRY(n > 1 ? cm_run_chain(cx, c, s) : cm_run_step(cx, c, s));
    }
    return CM_OK;
}
