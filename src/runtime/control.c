/* control.c -- If, Loop, Scan and SequenceMap.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A body's inputs and outputs are slots like any others. Carried values: in the first iteration a
 * body's input lies in the outer value's memory; from then on the room of the body's output and that
 * of its input change places where a step of the body made the output, and the rest (captured values,
 * views, other inputs) is copied to a pending room first, so that a body may exchange its inputs. On a device their
 * memory there changes places in the same way. */
#include "runtime/internal.h"

#include <string.h>

#include "ops/control.h"
#include "runtime/stack.h"

static const cm_plan_list *body_of(const cm_engine *e, const cm_ready_step *s)
{
    return &e->variant->lists[s->plan->lists[0]];
}

static int64_t entry(const cm_ints *list, int i)
{
    return i < list->n ? list->v[i] : 0;
}

int cm_control_carried(const cm_ready_step *s, int *first_in, int *first_out)
{
    *first_in = s->plan->kind == CM_STEP_LOOP ? 2 : 0;
    *first_out = s->plan->kind == CM_STEP_LOOP ? 1 : 0;
    if (s->plan->kind == CM_STEP_LOOP)
        return s->plan->n_in - 2;
    if (s->plan->kind == CM_STEP_SCAN)
        return s->plan->n_in - (int)((const cm_scan_attr *)s->attr)->num_scan_inputs;
    return 0;
}

static cm_status check_scan(cm_ctx *cx, const cm_ready_step *s)
{
    const cm_scan_attr *a = s->attr;
    if (a->num_scan_inputs < 1 || a->num_scan_inputs > s->plan->n_in)
        return cm_fail(cx, CM_ERR_PLAN, "num_scan_inputs is %lld with %d inputs",
                       (long long)a->num_scan_inputs, s->plan->n_in);
    const cm_ints *directions[] = {&a->scan_input_directions, &a->scan_output_directions};
    for (int k = 0; k < 2; k++)
        for (int64_t i = 0; i < directions[k]->n; i++)
            if (directions[k]->v[i] != 0 && directions[k]->v[i] != 1)
                return cm_fail(cx, CM_ERR_PLAN, "a direction is %lld, wanted 0 or 1",
                               (long long)directions[k]->v[i]);
    return CM_OK;
}

static const cm_op_id operators[] = {
    [CM_STEP_IF] = CM_OP_IF,
    [CM_STEP_LOOP] = CM_OP_LOOP,
    [CM_STEP_SCAN] = CM_OP_SCAN,
    [CM_STEP_MAP] = CM_OP_SEQUENCE_MAP,
};

cm_status cm_control_check(cm_ctx *cx, const cm_engine *e, const cm_ready_step *s)
{
    const cm_plan_step *p = s->plan;
    if (operators[p->kind] != s->op->id)
        return cm_fail(cx, CM_ERR_PLAN, "the operator does not go with the kind of step");
    bool is_if = p->kind == CM_STEP_IF, loop = p->kind == CM_STEP_LOOP;
    if (p->kind == CM_STEP_SCAN)
        CM_TRY(check_scan(cx, s));
    for (int i = loop ? 2 : 0; i < p->n_in; i++)
        if (p->in[i].value < 0)
            return cm_fail(cx, CM_ERR_PLAN, "input %d is absent", i);
    int first_in, first_out, n_carried = cm_control_carried(s, &first_in, &first_out);
    int least = first_out + (n_carried > p->n_out ? n_carried : p->n_out);
    for (int i = 0; i < p->n_lists; i++) {
        const cm_plan_list *l = &e->variant->lists[p->lists[i]];
        if (l->n_inputs != (is_if ? 0 : p->n_in) || l->n_outputs < least)
            return cm_fail(cx, CM_ERR_PLAN,
                           "a step list has %d inputs and %d outputs, wanted %d and at least %d",
                           l->n_inputs, l->n_outputs, is_if ? 0 : p->n_in, least);
    }
    return CM_OK;
}

cm_status cm_control_create(cm_ctx *cx, cm_context *c, const cm_ready_step *s)
{
    cm_control *k = &c->controls[s->control];
    int first_in, first_out, n = cm_control_carried(s, &first_in, &first_out);
    CM_NEW_N(cx, &c->arena, k->pending, n, cm_room);
    CM_NEW_N(cx, &c->arena, k->next, n, cm_datum);
    CM_NEW_N(cx, &c->arena, k->copied, n, bool);
    k->n_carried = n;
    bool stacks = s->plan->kind == CM_STEP_LOOP || s->plan->kind == CM_STEP_SCAN;
    int n_stacks = stacks && s->plan->n_out > n ? s->plan->n_out - n : 0;
    CM_NEW_N(cx, &c->arena, k->stacks, n_stacks, cm_stack);
    k->n_stacks = n_stacks;
    int n_scanned = s->plan->kind == CM_STEP_SCAN ? s->plan->n_in - n : 0;
    CM_NEW_N(cx, &c->arena, k->unpacked, n_scanned, cm_room);
    CM_NEW_N(cx, &c->arena, k->scanned, n_scanned, cm_tensor);
    k->n_scanned = n_scanned;
    return CM_OK;
}

void cm_control_destroy(cm_context *c, int control)
{
    cm_control *k = &c->controls[control];
    for (int i = 0; i < k->n_carried; i++)
        cm_room_deinit(c->allocator, &k->pending[i]);
    for (int i = 0; i < k->n_scanned; i++)
        cm_room_deinit(c->allocator, &k->unpacked[i]);
}

static const cm_datum *datum_of(const cm_context *c, int32_t value)
{
    return &c->slots[value].datum;
}

static cm_status one_element(cm_ctx *cx, const cm_datum *d, cm_dtype dtype, const char *what)
{
    if (d->kind == CM_TENSOR && d->tensor.dtype == dtype && cm_tensor_elems(&d->tensor) == 1)
        return CM_OK;
    return cm_fail(cx, CM_ERR_DATA, "the %s is not one %s element", what, cm_dtype_name(dtype));
}

static cm_status read_condition(cm_ctx *cx, const cm_context *c, int32_t value, bool *out)
{
    const cm_datum *d = datum_of(c, value);
    CM_TRY(one_element(cx, d, CM_BOOL, "condition"));
    *out = *(const unsigned char *)d->tensor.data != 0;
    return CM_OK;
}

static cm_status run_if(cm_ctx *cx, cm_context *c, const cm_ready_step *s)
{
    const cm_plan_step *p = s->plan;
    bool then;
    CM_TRY(read_condition(cx, c, p->in[0].value, &then));
    int list = p->lists[then ? 0 : 1];
    CM_TRY(cm_run_list(cx, c, list));
    const cm_plan_list *l = &c->engine->variant->lists[list];
    for (int o = 0; o < p->n_out; o++) {
        if (p->out[o].value < 0)
            continue;
        CM_TRY(cm_inner_fetch(cx, c, l->outputs[o], list));
        cm_slot *slot = &c->slots[p->out[o].value];
        slot->datum = *datum_of(c, l->outputs[o]); /* its memory lives as long: see lifetimes */
        slot->owned = false;
    }
    return CM_OK;
}

/* The outer values are the first ones carried. */
static void begin_carried(cm_context *c, const cm_ready_step *s)
{
    int first_in, first_out, n = cm_control_carried(s, &first_in, &first_out);
    const cm_plan_list *body = body_of(c->engine, s);
    for (int k = 0; k < n; k++) {
        cm_slot *to = &c->slots[body->inputs[first_in + k]];
        to->datum = *datum_of(c, s->plan->in[first_in + k].value);
        to->owned = false;
        cm_inner_lend(c, body->inputs[first_in + k], s->plan->in[first_in + k].value, 0);
        c->slots[body->outputs[first_out + k]].moved = false;
    }
}

static void swap_rooms(cm_room *a, cm_room *b)
{
    cm_room t = *a;
    *a = *b;
    *b = t;
}

/* The body's outputs become its inputs. */
static cm_status carry(cm_ctx *cx, cm_context *c, const cm_ready_step *s)
{
    cm_control *ctl = &c->controls[s->control];
    int first_in, first_out, n = cm_control_carried(s, &first_in, &first_out);
    const cm_plan_list *body = body_of(c->engine, s);
    const int32_t *ins = body->inputs + first_in, *outs = body->outputs + first_out;
    for (int k = 0; k < n; k++) {
        cm_slot *from = &c->slots[outs[k]];
        ctl->copied[k] = false;
        if (outs[k] == ins[k])
            continue;
        if (c->engine->values[outs[k]].movable && !from->moved &&
            (from->owned || cm_inner_away(c, outs[k]))) {
            from->moved = true;
            continue;
        }
        CM_TRY(cm_inner_fetch(cx, c, outs[k], s->plan->lists[0]));
        CM_TRY(cm_room_copy(cx, &ctl->pending[k], &from->datum, &ctl->next[k]));
        ctl->copied[k] = true;
    }
    for (int k = 0; k < n; k++) {
        cm_slot *from = &c->slots[outs[k]], *to = &c->slots[ins[k]];
        if (outs[k] == ins[k])
            continue;
        swap_rooms(ctl->copied[k] ? &ctl->pending[k] : &from->room, &to->room);
        to->datum = ctl->copied[k] ? ctl->next[k] : from->datum;
        to->owned = ctl->copied[k] || from->owned;
        if (ctl->copied[k]) {
            cm_inner_put(c, ins[k]);
        } else {
            cm_inner_carry(c, outs[k], ins[k]);
            from->moved = from->owned = false;
        }
    }
    return CM_OK;
}

/* The last ones carried become the step's outputs. */
static cm_status end_carried(cm_ctx *cx, cm_context *c, const cm_ready_step *s)
{
    int first_in, first_out, n = cm_control_carried(s, &first_in, &first_out);
    const cm_plan_list *body = body_of(c->engine, s);
    for (int k = 0; k < n && k < s->plan->n_out; k++) {
        if (s->plan->out[k].value < 0)
            continue;
        CM_TRY(cm_inner_fetch(cx, c, body->inputs[first_in + k], s->plan->lists[0]));
        cm_slot *from = &c->slots[body->inputs[first_in + k]],
                *to = &c->slots[s->plan->out[k].value];
        if (from->owned) {
            swap_rooms(&from->room, &to->room);
            to->datum = from->datum;
            from->owned = false;
        } else {
            cm_datum d = from->datum;
            CM_TRY(cm_room_copy(cx, &to->room, &d, &to->datum));
        }
        to->owned = true;
    }
    return CM_OK;
}

static cm_status add_to_stacks(cm_ctx *cx, cm_context *c, const cm_ready_step *s)
{
    cm_control *ctl = &c->controls[s->control];
    int first_in, first_out, n = cm_control_carried(s, &first_in, &first_out);
    const cm_plan_list *body = body_of(c->engine, s);
    for (int k = 0; k < ctl->n_stacks; k++) {
        int32_t out = s->plan->out[n + k].value;
        if (out < 0)
            continue;
        CM_TRY(cm_inner_fetch(cx, c, body->outputs[first_out + n + k], s->plan->lists[0]));
        cm_status st = cm_stack_add(cx, &ctl->stacks[k], &c->slots[out],
                                    datum_of(c, body->outputs[first_out + n + k]));
        if (st != CM_OK)
            return cm_while(cx, st, "output %d", n + k);
    }
    return CM_OK;
}

static cm_status end_stacks(cm_ctx *cx, cm_context *c, const cm_ready_step *s)
{
    cm_control *ctl = &c->controls[s->control];
    for (int k = 0; k < ctl->n_stacks; k++) {
        int32_t out = s->plan->out[ctl->n_carried + k].value;
        if (out >= 0)
            CM_TRY(cm_stack_end(cx, c, &ctl->stacks[k], &c->slots[out],
                                &c->engine->plan->values[out].type));
    }
    return CM_OK;
}

/* Iteration number or condition: one element in the slot's room. */
static cm_status set_scalar(cm_ctx *cx, cm_context *c, int32_t value, cm_dtype dtype, int64_t v)
{
    const cm_type *t = &c->engine->plan->values[value].type;
    cm_slot *s = &c->slots[value];
    int64_t one = 1;
    int rank = t->kind == CM_TENSOR && t->rank == 1;
    CM_TRY(cm_room_reserve(cx, &s->room, sizeof v, 0));
    s->datum = (cm_datum){.kind = CM_TENSOR};
    if (!cm_tensor_shape(&s->datum.tensor, dtype, rank, &one))
        return cm_fail(cx, CM_ERR_INTERNAL, "a scalar has no shape");
    s->datum.tensor.data = s->room.data;
    s->datum.tensor.capacity_bytes = s->room.bytes;
    s->owned = true;
    cm_set_i64(dtype, s->room.data, 0, v);
    cm_inner_put(c, value);
    return CM_OK;
}

static cm_status iterate(cm_ctx *cx, cm_context *c, const cm_ready_step *s, int64_t i)
{
    cm_status st = cm_check_cancel(cx);
    if (st == CM_OK)
        st = cm_run_list(cx, c, s->plan->lists[0]);
    return st == CM_OK ? st : cm_while(cx, st, "iteration %lld", (long long)i);
}

static cm_status run_loop(cm_ctx *cx, cm_context *c, const cm_ready_step *s)
{
    const cm_plan_step *p = s->plan;
    const cm_plan_list *body = body_of(c->engine, s);
    cm_control *ctl = &c->controls[s->control];
    int64_t trips = INT64_MAX;
    bool go = true;
    if (p->in[0].value >= 0) {
        const cm_datum *d = datum_of(c, p->in[0].value);
        CM_TRY(one_element(cx, d, CM_I64, "trip count"));
        trips = *(const int64_t *)d->tensor.data;
    }
    if (p->in[1].value >= 0)
        CM_TRY(read_condition(cx, c, p->in[1].value, &go));
    begin_carried(c, s);
    for (int k = 0; k < ctl->n_stacks; k++)
        cm_stack_begin(&ctl->stacks[k], -1, trips == INT64_MAX ? 0 : trips, 0, false);
    for (int64_t i = 0; go && i < trips; i++) {
        CM_TRY(set_scalar(cx, c, body->inputs[0], CM_I64, i));
        CM_TRY(set_scalar(cx, c, body->inputs[1], CM_BOOL, go));
        CM_TRY(iterate(cx, c, s, i));
        CM_TRY(cm_inner_fetch(cx, c, body->outputs[0], p->lists[0]));
        CM_TRY(read_condition(cx, c, body->outputs[0], &go));
        CM_TRY(add_to_stacks(cx, c, s));
        CM_TRY(carry(cx, c, s));
    }
    CM_TRY(end_carried(cx, c, s));
    return end_stacks(cx, c, s);
}

/* Scanned inputs unpacked where they must be; *length is that of the scanned axes. */
static cm_status begin_scanned(cm_ctx *cx, cm_context *c, const cm_ready_step *s, int64_t *length)
{
    const cm_scan_attr *a = s->attr;
    cm_control *ctl = &c->controls[s->control];
    for (int m = 0; m < ctl->n_scanned; m++) {
        const cm_datum *d = datum_of(c, s->plan->in[ctl->n_carried + m].value);
        cm_tensor *t = &ctl->scanned[m];
        if (d->kind != CM_TENSOR)
            return cm_fail(cx, CM_ERR_DATA, "scanned input %d is not a tensor", m);
        *t = d->tensor;
        int64_t axis = entry(&a->scan_input_axes, m);
        if (axis < -t->rank || axis >= t->rank)
            return cm_fail(cx, CM_ERR_DATA,
                           "scanned input %d: axis %lld is out of range for rank %d", m,
                           (long long)axis, t->rank);
        int64_t n = t->dims[axis < 0 ? axis + t->rank : axis];
        if (m && n != *length)
            return cm_fail(cx, CM_ERR_DATA, "scanned input %d has length %lld, input 0 %lld", m,
                           (long long)n, (long long)*length);
        *length = n;
        if (t->packed && cm_dtype_is_sub_byte(t->dtype)) {
            CM_TRY(cm_room_reserve(cx, &ctl->unpacked[m], (size_t)cm_tensor_elems(t), 0));
            cm_unpack_sub_byte(t->dtype, t->data, cm_tensor_elems(t), ctl->unpacked[m].data);
            t->data = ctl->unpacked[m].data;
            t->packed = false;
        }
    }
    return CM_OK;
}

/* Slice `index` of scanned input m into the body's input: in place along axis 0, else gathered. */
static cm_status set_slice(cm_ctx *cx, cm_context *c, const cm_ready_step *s, int m, int axis,
                           int64_t index)
{
    const cm_control *ctl = &c->controls[s->control];
    const cm_tensor *t = &ctl->scanned[m];
    int32_t whole = s->plan->in[ctl->n_carried + m].value,
            slice = body_of(c->engine, s)->inputs[ctl->n_carried + m];
    cm_slot *slot = &c->slots[slice];
    int64_t dims[CM_MAX_RANK];
    for (int i = 0, k = 0; i < t->rank; i++)
        if (i != axis)
            dims[k++] = t->dims[i];
    cm_datum d = {.kind = CM_TENSOR};
    if (!cm_tensor_shape(&d.tensor, t->dtype, t->rank - 1, dims))
        return cm_fail(cx, CM_ERR_INTERNAL, "a slice is larger than its tensor");
    size_t inner = (size_t)cm_dims_product(t->dims, axis + 1, t->rank) * cm_dtype_size(t->dtype);
    int64_t outer = cm_dims_product(t->dims, 0, axis);
    size_t bytes = (size_t)outer * inner;
    const unsigned char *from = (const unsigned char *)t->data + (size_t)index * inner;
    if (axis == 0) {
        d.tensor.data = (void *)from;
    } else {
        CM_TRY(cm_room_reserve(cx, &slot->room, bytes, 0));
        d.tensor.data = slot->room.data;
        for (int64_t i = 0; inner && i < outer; i++)
            memcpy((unsigned char *)d.tensor.data + (size_t)i * inner,
                   from + (size_t)(i * t->dims[axis]) * inner, inner);
    }
    d.tensor.capacity_bytes = bytes;
    slot->datum = d;
    slot->owned = false; /* strings in it belong to the input */
    if (axis == 0 && t->data == datum_of(c, whole)->tensor.data)
        cm_inner_lend(c, slice, whole, (size_t)index * inner);
    else
        cm_inner_put(c, slice);
    return CM_OK;
}

static cm_status run_scan(cm_ctx *cx, cm_context *c, const cm_ready_step *s)
{
    const cm_scan_attr *a = s->attr;
    cm_control *ctl = &c->controls[s->control];
    int64_t length = 0;
    CM_TRY(begin_scanned(cx, c, s, &length));
    begin_carried(c, s);
    for (int k = 0; k < ctl->n_stacks; k++)
        cm_stack_begin(&ctl->stacks[k], length, 0, entry(&a->scan_output_axes, k),
                       entry(&a->scan_output_directions, k));
    for (int64_t i = 0; i < length; i++) {
        for (int m = 0; m < ctl->n_scanned; m++) {
            const cm_tensor *t = &ctl->scanned[m];
            int64_t axis = entry(&a->scan_input_axes, m);
            bool back = entry(&a->scan_input_directions, m);
            CM_TRY(set_slice(cx, c, s, m, (int)(axis < 0 ? axis + t->rank : axis),
                             back ? length - 1 - i : i));
        }
        CM_TRY(iterate(cx, c, s, i));
        CM_TRY(add_to_stacks(cx, c, s));
        CM_TRY(carry(cx, c, s));
    }
    CM_TRY(end_carried(cx, c, s));
    return end_stacks(cx, c, s);
}

/* A type without its shapes, which are those of one item only. */
static cm_status shapeless(cm_ctx *cx, cm_arena *arena, const cm_type *t, const cm_type **out)
{
    *out = NULL;
    if (!t || t->kind == CM_NOTHING)
        return CM_OK;
    cm_type *copy;
    CM_NEW(cx, arena, copy, cm_type);
    *copy = (cm_type){
        .kind = t->kind, .dtype = t->dtype, .key = t->key, .rank = t->kind == CM_TENSOR ? -1 : 0};
    CM_TRY(shapeless(cx, arena, t->elem, &copy->elem));
    *out = copy;
    return CM_OK;
}

static cm_status begin_sequence(cm_ctx *cx, cm_slot *slot, const cm_type *each, int64_t n)
{
    cm_arena *arena;
    CM_TRY(cm_room_arena(cx, &slot->room, &arena));
    slot->datum = (cm_datum){.kind = CM_SEQUENCE, .n = n};
    slot->owned = true;
    CM_NEW_N(cx, arena, slot->datum.items, n, cm_datum);
    return shapeless(cx, arena, each, &slot->datum.elem);
}

static cm_status run_map(cm_ctx *cx, cm_context *c, const cm_ready_step *s)
{
    const cm_plan_step *p = s->plan;
    const cm_plan_list *body = body_of(c->engine, s);
    const cm_datum *over = datum_of(c, p->in[0].value);
    if (over->kind != CM_SEQUENCE)
        return cm_fail(cx, CM_ERR_DATA, "input 0 is not a sequence");
    for (int i = 1; i < p->n_in; i++) {
        const cm_datum *d = datum_of(c, p->in[i].value);
        if (d->kind == CM_SEQUENCE && d->n != over->n)
            return cm_fail(cx, CM_ERR_DATA, "input %d has %lld items, input 0 %lld", i,
                           (long long)d->n, (long long)over->n);
    }
    for (int o = 0; o < p->n_out; o++)
        if (p->out[o].value >= 0)
            CM_TRY(begin_sequence(cx, &c->slots[p->out[o].value],
                                  &c->engine->plan->values[body->outputs[o]].type, over->n));
    for (int64_t k = 0; k < over->n; k++) {
        for (int i = 0; i < p->n_in; i++) {
            const cm_datum *d = datum_of(c, p->in[i].value);
            cm_slot *slot = &c->slots[body->inputs[i]];
            slot->datum = d->kind == CM_SEQUENCE ? d->items[k] : *d;
            slot->owned = false;
            cm_inner_put(c, body->inputs[i]);
        }
        CM_TRY(iterate(cx, c, s, k));
        for (int o = 0; o < p->n_out; o++) {
            if (p->out[o].value < 0)
                continue;
            cm_slot *slot = &c->slots[p->out[o].value];
            CM_TRY(cm_inner_fetch(cx, c, body->outputs[o], p->lists[0]));
            CM_TRY(cm_datum_copy(cx, cm_room_current(&slot->room), datum_of(c, body->outputs[o]),
                                 &slot->datum.items[k]));
        }
    }
    return CM_OK;
}

cm_status cm_run_control(cm_ctx *cx, cm_context *c, const cm_ready_step *s)
{
    switch (s->plan->kind) {
    case CM_STEP_IF:
        return run_if(cx, c, s);
    case CM_STEP_LOOP:
        return run_loop(cx, c, s);
    case CM_STEP_SCAN:
        return run_scan(cx, c, s);
    case CM_STEP_MAP:
        return run_map(cx, c, s);
    case CM_STEP_PROBLEM:
    case CM_STEP_COPY:
        break;
    }
    return cm_fail(cx, CM_ERR_INTERNAL, "step kind %d is no control step", s->plan->kind);
}
