/* infer_control.c -- types of If, Loop, Scan and SequenceMap, from their nested networks.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "ir/infer.h"
#include "ops/control.h"

static cm_status arity(cm_ctx *cx, const char *what, int found, int wanted)
{
    if (found == wanted)
        return CM_OK;
    return cm_fail(cx, CM_ERR_MODEL, "%s: found %d, wanted %d", what, found, wanted);
}

static cm_dim fresh(const cm_node *n, const char *what, cm_ctx *cx)
{
    char *hint = cm_arena_printf(cx->scratch, "%s.%s", n->name, what);
    return hint ? cm_dim_fresh(n->network->dims, hint, CM_DIM_SIZE) : CM_DIM_ERROR;
}

static void set_type(cm_value *v, const cm_type *t)
{
    if (!v)
        return;
    v->type = *t;
    v->elems = NULL;
    v->n_elems = 0;
}

static cm_status infer_if(cm_ctx *cx, cm_node *n)
{
    CM_TRY(arity(cx, "networks of an If", n->n_subs, 2));
    for (int s = 0; s < 2; s++) {
        CM_TRY(arity(cx, s ? "outputs of the else branch" : "outputs of the then branch",
                     n->subs[s]->n_outputs, n->n_out));
        CM_TRY(cm_infer_nodes(cx, n->subs[s]));
    }
    for (int o = 0; o < n->n_out; o++) {
        cm_type t;
        if (!n->out[o])
            continue;
        CM_TRY(cm_type_join(cx, n->network, n->name, &n->subs[0]->outputs[o]->type,
                            &n->subs[1]->outputs[o]->type, &t));
        set_type(n->out[o], &t);
    }
    return CM_OK;
}

/* Carried types: start from the initial values; what the body changes becomes unknown; repeat until
 * nothing changes. Three rounds reach every fixed point: a dim, then a rank, can be lost. */
static cm_status infer_carried(cm_ctx *cx, cm_node *n, cm_network *body, int n_carried,
                               cm_value *const *first_in, int body_in, int body_out)
{
    for (int i = 0; i < n_carried; i++) {
        if (!first_in[i])
            return cm_fail(cx, CM_ERR_MODEL, "carried value %d is absent", i);
        set_type(body->inputs[body_in + i], &first_in[i]->type);
    }
    bool changed = true;
    for (int round = 0; changed; round++) {
        CM_TRY(cm_infer_nodes(cx, body));
        changed = false;
        for (int i = 0; i < n_carried; i++) {
            cm_value *in = body->inputs[body_in + i];
            cm_type t;
            CM_TRY(cm_type_join(cx, n->network, n->name, &in->type,
                                &body->outputs[body_out + i]->type, &t));
            if (cm_type_equal(&t, &in->type))
                continue;
            if (round >= 3 && t.kind == CM_TENSOR)
                t.rank = -1;
            if (round >= 6)
                return CM_OK; /* nested element types: leave them as they are */
            set_type(in, &t);
            changed = true;
        }
    }
    return CM_OK;
}

/* A per-iteration result of type `t`, stacked along a new axis. */
static cm_status stacked(cm_ctx *cx, const cm_type *t, cm_dim n, int axis, cm_type *out)
{
    if (t->kind != CM_TENSOR && t->kind != CM_NOTHING)
        return cm_fail(cx, CM_ERR_MODEL, "a scanned output is not a tensor");
    *out = *t;
    if (t->kind == CM_NOTHING || t->rank < 0)
        return CM_OK;
    if (t->rank == CM_MAX_RANK)
        return cm_fail(cx, CM_ERR_UNSUPPORTED, "a scanned output has a rank over %d", CM_MAX_RANK);
    memmove(out->dims + axis + 1, t->dims + axis, (size_t)(t->rank - axis) * sizeof *t->dims);
    out->dims[axis] = n;
    out->rank = t->rank + 1;
    return CM_OK;
}

static cm_status infer_loop(cm_ctx *cx, cm_node *n)
{
    CM_TRY(arity(cx, "networks of a Loop", n->n_subs, 1));
    cm_network *body = n->subs[0];
    int n_carried = n->n_in - 2, n_scan = body->n_outputs - 1 - n_carried;
    CM_TRY(arity(cx, "inputs of the loop body", body->n_inputs, n_carried + 2));
    if (n_scan < 0)
        return cm_fail(cx, CM_ERR_MODEL, "the loop body has %d outputs, wanted at least %d",
                       body->n_outputs, n_carried + 1);
    CM_TRY(arity(cx, "outputs of the Loop", n->n_out, n_carried + n_scan));
    cm_type iter = cm_type_tensor(CM_I64, 0, NULL), cond = cm_type_tensor(CM_BOOL, 0, NULL);
    set_type(body->inputs[0], &iter);
    set_type(body->inputs[1], &cond);
    CM_TRY(infer_carried(cx, n, body, n_carried, n->in + 2, 2, 1));
    for (int i = 0; i < n_carried; i++)
        set_type(n->out[i], &body->inputs[2 + i]->type);
    if (n_scan == 0)
        return CM_OK;
    cm_dim trips = fresh(n, "trips", cx);
    if (trips == CM_DIM_ERROR)
        return cm_fail_memory(cx);
    for (int i = 0; i < n_scan; i++) {
        cm_type t;
        CM_TRY(stacked(cx, &body->outputs[1 + n_carried + i]->type, trips, 0, &t));
        set_type(n->out[n_carried + i], &t);
    }
    return CM_OK;
}

static int64_t entry(const cm_ints *list, int i)
{
    return i < list->n ? list->v[i] : 0;
}

static cm_status scan_axis(cm_ctx *cx, int64_t axis, int rank, int *out)
{
    if (axis < -rank || axis >= rank)
        return cm_fail(cx, CM_ERR_MODEL, "scan axis %lld is out of range for rank %d",
                       (long long)axis, rank);
    *out = (int)(axis < 0 ? axis + rank : axis);
    return CM_OK;
}

/* The type of one slice of scanned input i; *length is the axis that is cut, when known. */
static cm_status slice_type(cm_ctx *cx, const cm_type *t, int64_t axis, cm_type *out,
                            cm_dim *length)
{
    if (t->kind != CM_TENSOR)
        return cm_fail(cx, CM_ERR_MODEL, "a scanned input is not a tensor");
    *out = *t;
    if (t->rank < 0)
        return CM_OK;
    int a;
    CM_TRY(scan_axis(cx, axis, t->rank, &a));
    if (*length == CM_DIM_ERROR)
        *length = t->dims[a];
    memmove(out->dims + a, t->dims + a + 1, (size_t)(t->rank - a - 1) * sizeof *t->dims);
    out->rank--;
    return CM_OK;
}

static cm_status infer_scan(cm_ctx *cx, cm_node *n)
{
    CM_TRY(arity(cx, "networks of a Scan", n->n_subs, 1));
    cm_network *body = n->subs[0];
    const cm_scan_attr *a = n->attr;
    if (a->num_scan_inputs < 1 || a->num_scan_inputs > n->n_in)
        return cm_fail(cx, CM_ERR_MODEL, "num_scan_inputs is %lld with %d inputs",
                       (long long)a->num_scan_inputs, n->n_in);
    int m = (int)a->num_scan_inputs, n_state = n->n_in - m, k = n->n_out - n_state;
    CM_TRY(arity(cx, "inputs of the scan body", body->n_inputs, n->n_in));
    CM_TRY(arity(cx, "outputs of the scan body", body->n_outputs, n->n_out));
    if (k < 0)
        return cm_fail(cx, CM_ERR_MODEL, "%d outputs for %d states", n->n_out, n_state);
    cm_dim length = CM_DIM_ERROR;
    for (int i = 0; i < m; i++) {
        cm_type t;
        if (!n->in[n_state + i])
            return cm_fail(cx, CM_ERR_MODEL, "scanned input %d is absent", i);
        CM_TRY(
            slice_type(cx, &n->in[n_state + i]->type, entry(&a->scan_input_axes, i), &t, &length));
        set_type(body->inputs[n_state + i], &t);
    }
    CM_TRY(infer_carried(cx, n, body, n_state, n->in, 0, 0));
    for (int i = 0; i < n_state; i++)
        set_type(n->out[i], &body->inputs[i]->type);
    if (length == CM_DIM_ERROR)
        length = fresh(n, "length", cx);
    if (length == CM_DIM_ERROR)
        return cm_fail_memory(cx);
    for (int i = 0; i < k; i++) {
        const cm_type *each = &body->outputs[n_state + i]->type;
        int axis = 0;
        cm_type t;
        if (each->kind == CM_TENSOR && each->rank >= 0)
            CM_TRY(scan_axis(cx, entry(&a->scan_output_axes, i), each->rank + 1, &axis));
        CM_TRY(stacked(cx, each, length, axis, &t));
        set_type(n->out[n_state + i], &t);
    }
    return CM_OK;
}

static cm_status infer_map(cm_ctx *cx, cm_node *n)
{
    CM_TRY(arity(cx, "networks of a SequenceMap", n->n_subs, 1));
    cm_network *body = n->subs[0];
    CM_TRY(arity(cx, "inputs of the map's body", body->n_inputs, n->n_in));
    CM_TRY(arity(cx, "outputs of the map's body", body->n_outputs, n->n_out));
    if (!n->in[0] || n->in[0]->type.kind != CM_SEQUENCE)
        return cm_fail(cx, CM_ERR_MODEL, "input 0 is not a sequence");
    for (int i = 0; i < n->n_in; i++) {
        if (!n->in[i])
            return cm_fail(cx, CM_ERR_MODEL, "input %d is absent", i);
        const cm_type *t = &n->in[i]->type;
        if (t->kind == CM_SEQUENCE && t->elem)
            t = t->elem;
        set_type(body->inputs[i], t);
    }
    CM_TRY(cm_infer_nodes(cx, body));
    for (int o = 0; o < n->n_out; o++) {
        cm_type *elem, t = {.kind = CM_SEQUENCE};
        CM_NEW(cx, n->network->arena, elem, cm_type);
        *elem = body->outputs[o]->type;
        t.elem = elem;
        set_type(n->out[o], &t);
    }
    return CM_OK;
}

cm_status cm_infer_control(cm_ctx *cx, cm_node *n)
{
    switch (n->op->id) {
    case CM_OP_IF:
        return infer_if(cx, n);
    case CM_OP_LOOP:
        return infer_loop(cx, n);
    case CM_OP_SCAN:
        return infer_scan(cx, n);
    case CM_OP_SEQUENCE_MAP:
        return infer_map(cx, n);
    default:
        return cm_fail(cx, CM_ERR_INTERNAL, "%s is no control operator", n->op->name);
    }
}
