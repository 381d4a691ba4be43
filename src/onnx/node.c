/* node.c -- one ONNX node: its names resolved, its form brought up to date, into the network.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "onnx/import.h"
#include "onnx/upgrade/upgrade.h"

/* What to call the node in messages and reports: its name, or its first output's. */
static cm_status name_node(cm_pending *u, const pb_node *p)
{
    cm_importer *im = u->im;
    cm_str s = p->name;
    for (size_t i = 0; i < p->output.n && !s.n; i++)
        s = p->output.v[i];
    const char *name = cm_onnx_name(im, s);
    u->op = cm_onnx_name(im, p->op_type);
    u->name = name ? cm_arena_printf(im->tmp, "%s%s", u->scope->prefix, name) : NULL;
    return u->op && u->name ? CM_OK : cm_fail_memory(im->cx);
}

static cm_status read_names(cm_pending *u, const pb_node *p)
{
    cm_importer *im = u->im;
    if (p->input.n > INT16_MAX || p->output.n > INT16_MAX)
        return cm_fail(im->cx, CM_ERR_UNSUPPORTED, "it has over %d inputs or outputs", INT16_MAX);
    u->n_in = (int)p->input.n;
    u->n_out = (int)p->output.n;
    u->cap_in = u->n_in + 4;
    CM_NEW_N(im->cx, im->tmp, u->in, u->cap_in, cm_value *);
    CM_NEW_N(im->cx, im->tmp, u->out, u->n_out, const char *);
    for (int i = 0; i < u->n_in; i++) {
        const char *name = cm_onnx_name(im, p->input.v[i]);
        if (!name)
            return cm_fail_memory(im->cx);
        if (!*name)
            continue;
        cm_status st = cm_onnx_lookup(im, u->scope, name, &u->in[i]);
        if (st != CM_OK)
            return cm_while(im->cx, st, "input %d", i);
    }
    for (int i = 0; i < u->n_out; i++) {
        u->out[i] = cm_onnx_name(im, p->output.v[i]);
        if (!u->out[i])
            return cm_fail_memory(im->cx);
    }
    return CM_OK;
}

static cm_status add_constant(cm_pending *u)
{
    cm_importer *im = u->im;
    cm_tensor *t;
    cm_value *v;
    if (u->n_out != 1 || !*u->out[0])
        return cm_fail(im->cx, CM_ERR_MODEL, "it has %d outputs, wanted 1 with a name", u->n_out);
    CM_NEW(im->cx, im->arena, t, cm_tensor);
    CM_TRY(cm_onnx_constant(u, t));
    CM_TRY(cm_network_add_constant(im->cx, u->scope->g, cm_onnx_value_name(u, u->out[0]), t, &v));
    return cm_onnx_bind(im, u->scope, u->out[0], v);
}

const char *cm_onnx_value_name(cm_pending *u, const char *name)
{
    const cm_scope *s = u->scope;
    const char *given = s->rename ? cm_map_get(s->rename, name) : NULL;
    if (given || !*name || !*s->prefix)
        return given ? given : name;
    given = cm_arena_printf(u->im->tmp, "%s%s", s->prefix, name);
    return given ? given : name;
}

static cm_status check_arity(cm_pending *u, const cm_op *op)
{
    cm_ctx *cx = u->im->cx;
    while (u->n_in > op->min_in && !u->in[u->n_in - 1])
        u->n_in--;
    while (u->n_out > op->min_out && !*u->out[u->n_out - 1])
        u->n_out--;
    bool named = u->n_out == 0 && op->min_out == 0;
    for (int i = 0; i < u->n_out; i++)
        named |= *u->out[i] != 0;
    if (!named)
        return cm_fail(cx, CM_ERR_MODEL, "none of its outputs has a name");
    if (u->n_in < op->min_in || u->n_in > op->max_in)
        return cm_fail(cx, CM_ERR_MODEL, "it has %d inputs, wanted %s %d", u->n_in,
                       op->min_in == op->max_in ? "exactly"
                       : u->n_in < op->min_in   ? "at least"
                                                : "at most",
                       u->n_in < op->min_in ? op->min_in : op->max_in);
    if (u->n_out > op->max_out)
        return cm_fail(cx, CM_ERR_MODEL, "it has %d outputs, wanted at most %d", u->n_out,
                       op->max_out);
    for (int i = 0; i < op->min_in && !*u->domain && !(op->traits & CM_CONTROL); i++)
        if (!u->in[i])
            return cm_fail(cx, CM_ERR_MODEL, "input %d is absent", i);
    return CM_OK;
}

/* Names for the node's outputs, at least `n` of them. */
static cm_status output_names(cm_pending *u, int n, const char ***out)
{
    const char **names;
    CM_NEW_N(u->im->cx, u->im->tmp, names, n, const char *);
    for (int i = 0; i < n; i++)
        names[i] = i < u->n_out ? cm_onnx_value_name(u, u->out[i]) : "";
    *out = names;
    return CM_OK;
}

cm_status cm_onnx_emit(cm_pending *u)
{
    cm_importer *im = u->im;
    const cm_op *op = cm_onnx_find_op(im, u->domain, u->op);
    cm_network *subs[2];
    const char **names = NULL;
    cm_node *n;
    void *attr;
    int n_subs = 0;
    if (!op)
        return cm_fail(im->cx, CM_ERR_UNSUPPORTED, "the operator is not supported");
    CM_TRY(check_arity(u, op));
    CM_TRY(cm_onnx_subgraphs(u, subs, &n_subs));
    CM_TRY(cm_onnx_attr_struct(u, op, &attr));
    int n_out = u->n_out > op->min_out ? u->n_out : op->min_out;
    if (n_subs && op->id == CM_OP_LOOP)
        n_out = subs[0]->n_outputs - 1;
    else if (n_subs)
        n_out = subs[0]->n_outputs;
    CM_TRY(output_names(u, n_out, &names));
    CM_TRY(cm_network_add_node(im->cx, u->scope->g, NULL, op, u->name, attr, u->in, u->n_in, names,
                               n_out, &n));
    if (n_subs)
        CM_TRY(cm_node_set_subs(im->cx, n, subs, n_subs));
    u->named = true;
    CM_TRY(cm_node_infer(im->cx, n));
    u->named = false;
    for (int i = 0; i < u->n_out; i++) {
        cm_value *v = n->out[i];
        if (v && i < u->n_unwrap && u->unwrap[i])
            CM_TRY(cm_up_unary(u, "OptionalGetElement", v, &v));
        if (v)
            CM_TRY(cm_onnx_bind(im, u->scope, u->out[i], v));
    }
    return CM_OK;
}

static cm_status import_node(cm_pending *u, const pb_node *p)
{
    cm_importer *im = u->im;
    CM_TRY(cm_onnx_domain(im, p->domain, &u->domain));
    u->version = cm_onnx_version(u->scope, u->domain);
    CM_TRY(read_names(u, p));
    CM_TRY(cm_onnx_attributes(u, p));
    const pb_function *f = cm_onnx_find_function(im, u->domain, u->op, p->overload);
    if (f)
        return cm_onnx_call(u, f);
    if (!*u->domain && strcmp(u->op, "Constant") == 0)
        return add_constant(u);
    CM_TRY(cm_onnx_upgrade(u));
    return u->done ? CM_OK : cm_onnx_emit(u);
}

cm_status cm_onnx_node(cm_importer *im, cm_scope *s, const pb_node *p)
{
    cm_pending u = {.im = im, .scope = s};
    CM_TRY(name_node(&u, p));
    cm_status st = import_node(&u, p);
    bool deep = strlen(im->cx->message) > sizeof im->cx->message / 3; /* enough of where we are */
    if (st == CM_OK || u.named || deep)
        return st;
    return cm_while(im->cx, st, "%s node '%s'", u.op, u.name);
}
