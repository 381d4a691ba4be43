/* control.c -- graphs inside nodes: the branches of If, the bodies of Loop, Scan and SequenceMap.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "onnx/import.h"

static cm_status find_graph(cm_pending *u, const char *name, const cm_attribute **out)
{
    *out = cm_onnx_find_attr(u, name);
    if (!*out || !(*out)->p->g)
        return cm_fail(u->im->cx, CM_ERR_MODEL, "the graph '%s' is missing", name);
    return CM_OK;
}

static cm_status import_graph(cm_pending *u, const cm_attribute *a, const cm_type *inputs,
                              int n_inputs, cm_network **out)
{
    cm_status st = cm_onnx_subgraph(u->im, u->scope->g, a->scope, a->p->g, inputs, n_inputs, out);
    bool deep = strlen(u->im->cx->message) > sizeof u->im->cx->message / 3;
    return st == CM_OK || deep ? st : cm_while(u->im->cx, st, "%s", a->name);
}

static cm_status wrong(cm_pending *u, const char *graph, const char *what, size_t found, int wanted)
{
    return cm_fail(u->im->cx, CM_ERR_MODEL, "%s has %zu %s, wanted %d", graph, found, what, wanted);
}

static cm_status import_if(cm_pending *u, cm_network **subs)
{
    static const char *const names[] = {"then_branch", "else_branch"};
    const cm_attribute *a[2];
    for (int i = 0; i < 2; i++) {
        CM_TRY(find_graph(u, names[i], &a[i]));
        if (a[i]->p->g->output.n < (size_t)u->n_out)
            return wrong(u, names[i], "outputs", a[i]->p->g->output.n, u->n_out);
        if (a[i]->p->g->output.n != a[0]->p->g->output.n)
            return wrong(u, names[i], "outputs", a[i]->p->g->output.n, (int)a[0]->p->g->output.n);
    }
    for (int i = 0; i < 2; i++) {
        CM_TRY(import_graph(u, a[i], NULL, 0, &subs[i]));
        if (subs[i]->n_inputs != 0)
            return wrong(u, names[i], "inputs", (size_t)subs[i]->n_inputs, 0);
    }
    return CM_OK;
}

/* A carried value on entry: element type and rank of what the node gives; sizes may change. */
static cm_status carried_type(cm_pending *u, const cm_value *v, cm_type *out)
{
    if (!v)
        return cm_fail(u->im->cx, CM_ERR_MODEL, "a carried value is absent");
    *out = v->type;
    for (int i = 0; out->kind == CM_TENSOR && i < out->rank; i++) {
        out->dims[i] = cm_dim_fresh(u->scope->g->dims, "carried", CM_DIM_SIZE);
        if (out->dims[i] == CM_DIM_ERROR)
            return cm_fail_memory(u->im->cx);
    }
    return CM_OK;
}

/* A body may take an optional and give back what is in it. Then it is wrapped on the way back to
 * the next round, and unwrapped after the last. */
static cm_status wrap_optionals(cm_pending *u, cm_network *body, int n_carried)
{
    cm_importer *im = u->im;
    for (int i = 0; i < n_carried; i++) {
        cm_value *v = body->outputs[1 + i];
        cm_node *n;
        if (u->in[2 + i]->type.kind != CM_OPTIONAL || v->type.kind == CM_OPTIONAL ||
            v->type.kind == CM_NOTHING)
            continue;
        if (!u->unwrap)
            CM_NEW_N(im->cx, im->tmp, u->unwrap, n_carried, bool);
        u->unwrap[i] = true;
        const cm_op *op = cm_onnx_find_op(im, "", "Optional");
        if (!op)
            return cm_fail(im->cx, CM_ERR_UNSUPPORTED, "the operator Optional is not supported");
        CM_TRY(cm_network_add_node(im->cx, body, NULL, op, u->name, NULL, &v, 1, NULL, 1, &n));
        CM_TRY(cm_node_infer(im->cx, n));
        CM_TRY(cm_network_set_output(im->cx, body, 1 + i, n->out[0]));
    }
    if (u->unwrap)
        u->n_unwrap = n_carried;
    return CM_OK;
}

static cm_status import_loop(cm_pending *u, cm_network **subs)
{
    const cm_attribute *a;
    cm_type *in;
    CM_TRY(find_graph(u, "body", &a));
    const pb_graph *g = a->p->g;
    int n_carried = u->n_in - 2;
    if (g->input.n != (size_t)u->n_in)
        return wrong(u, "the body", "inputs", g->input.n, u->n_in);
    if (g->output.n < (size_t)n_carried + 1)
        return cm_fail(u->im->cx, CM_ERR_MODEL, "the body has %zu outputs, wanted at least %d",
                       g->output.n, n_carried + 1);
    if (g->output.n - 1 < (size_t)u->n_out)
        return wrong(u, "the body", "outputs", g->output.n, u->n_out + 1);
    CM_NEW_N(u->im->cx, u->im->tmp, in, u->n_in, cm_type);
    in[0] = cm_type_tensor(CM_I64, 0, NULL);
    in[1] = cm_type_tensor(CM_BOOL, 0, NULL);
    for (int i = 0; i < n_carried; i++)
        CM_TRY(carried_type(u, u->in[2 + i], &in[2 + i]));
    CM_TRY(import_graph(u, a, in, u->n_in, &subs[0]));
    return wrap_optionals(u, subs[0], n_carried);
}

static int64_t entry(const cm_attribute *a, int i)
{
    return a && (size_t)i < a->p->ints.n ? a->p->ints.v[i] : 0;
}

static void drop_axis(cm_type *t, int64_t axis)
{
    if (t->kind != CM_TENSOR || t->rank < 1 || axis < -t->rank || axis >= t->rank)
        return; /* inference says what is wrong */
    int a = (int)(axis < 0 ? axis + t->rank : axis);
    t->rank--;
    memmove(t->dims + a, t->dims + a + 1, (size_t)(t->rank - a) * sizeof *t->dims);
}

static cm_status import_scan(cm_pending *u, cm_network **subs)
{
    const cm_attribute *a, *axes = cm_onnx_find_attr(u, "scan_input_axes");
    const cm_attribute *num = cm_onnx_find_attr(u, "num_scan_inputs");
    cm_type *in;
    CM_TRY(find_graph(u, "body", &a));
    const pb_graph *g = a->p->g;
    if (!num || num->p->i < 1 || num->p->i > u->n_in)
        return cm_fail(u->im->cx, CM_ERR_MODEL, "num_scan_inputs is %s",
                       num ? "out of range" : "missing");
    if (g->input.n != (size_t)u->n_in)
        return wrong(u, "the body", "inputs", g->input.n, u->n_in);
    if (g->output.n < (size_t)u->n_out)
        return wrong(u, "the body", "outputs", g->output.n, u->n_out);
    int n_state = u->n_in - (int)num->p->i;
    CM_NEW_N(u->im->cx, u->im->tmp, in, u->n_in, cm_type);
    for (int i = 0; i < u->n_in; i++) {
        if (i < n_state) {
            CM_TRY(carried_type(u, u->in[i], &in[i]));
            continue;
        }
        if (!u->in[i])
            return cm_fail(u->im->cx, CM_ERR_MODEL, "input %d is absent", i);
        in[i] = u->in[i]->type;
        drop_axis(&in[i], entry(axes, i - n_state));
    }
    return import_graph(u, a, in, u->n_in, &subs[0]);
}

static cm_status import_map(cm_pending *u, cm_network **subs)
{
    const cm_attribute *a;
    cm_type *in;
    CM_TRY(find_graph(u, "body", &a));
    if (a->p->g->input.n != (size_t)u->n_in)
        return wrong(u, "the body", "inputs", a->p->g->input.n, u->n_in);
    if (a->p->g->output.n < (size_t)u->n_out)
        return wrong(u, "the body", "outputs", a->p->g->output.n, u->n_out);
    CM_NEW_N(u->im->cx, u->im->tmp, in, u->n_in, cm_type);
    for (int i = 0; i < u->n_in; i++) {
        if (!u->in[i])
            return cm_fail(u->im->cx, CM_ERR_MODEL, "input %d is absent", i);
        const cm_type *t = &u->in[i]->type;
        if (t->kind == CM_SEQUENCE && t->elem)
            in[i] = *t->elem;
        else if (t->kind == CM_TENSOR)
            in[i] = *t;
    }
    return import_graph(u, a, in, u->n_in, &subs[0]);
}

cm_status cm_onnx_subgraphs(cm_pending *u, cm_network **subs, int *n_subs)
{
    static const struct {
        const char *op;
        cm_status (*import)(cm_pending *u, cm_network **subs);
        int n_subs;
    } rows[] = {
        {"If", import_if, 2},
        {"Loop", import_loop, 1},
        {"Scan", import_scan, 1},
        {"SequenceMap", import_map, 1},
    };
    *n_subs = 0;
    for (int i = 0; i < CM_COUNT(rows) && !*u->domain; i++) {
        if (strcmp(u->op, rows[i].op) != 0)
            continue;
        *n_subs = rows[i].n_subs;
        return rows[i].import(u, subs);
    }
    return CM_OK;
}
