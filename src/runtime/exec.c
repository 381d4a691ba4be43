/* exec.c -- walks a step list.
 * SPDX-License-Identifier: Apache-2.0
 *
 * An evaluate step calls the operator's reference with a host that gives planned memory where it
 * suffices and the value's own room where not. A view costs nothing: its output is its input's memory
 * under another shape. What is not a plain tensor is copied into the slot's room at once, since
 * evaluators lend it. */
#include "runtime/internal.h"

#include <string.h>

#include "ops/eval.h"

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

static cm_status evaluate(cm_ctx *cx, cm_context *c, const cm_ready_step *s)
{
    const cm_plan_step *p = s->plan;
    output_host user = {c, s};
    cm_eval_host host = {give_memory, &user};
    gather_inputs(c, p);
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

static cm_status run_step(cm_ctx *cx, cm_context *c, const cm_ready_step *s)
{
    if (s->control >= 0)
        return cm_run_control(cx, c, s);
    bool done = false;
    if (s->op->traits & CM_VIEW)
        CM_TRY(view(cx, c, s, &done));
    return done ? CM_OK : evaluate(cx, c, s);
}

cm_status cm_run_list(cm_ctx *cx, cm_context *c, int list)
{
    const cm_ready_list *l = &c->engine->lists[list];
    for (int i = 0; i < l->plan->n_steps; i++) {
        const cm_ready_step *s = &l->steps[i];
        CM_TRY(cm_check_cancel(cx));
        uint64_t start = c->profile ? cm_now_ns() : 0;
        cm_arena_mark mark = cm_arena_save(cx->scratch);
        cm_status st = run_step(cx, c, s);
        cm_arena_restore(cx->scratch, mark);
        if (st != CM_OK)
            return cm_while(cx, st, "%s node '%s'", s->plan->op, s->plan->name);
        if (c->profile)
            c->profile(c->profile_user, s->index, start, cm_now_ns());
    }
    return CM_OK;
}
