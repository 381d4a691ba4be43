/* infer.c -- types of a whole network: each operator's rule, in order.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ir/infer.h"

#include <string.h>

#include "ops/infer.h"

/* The value as a rule sees it. Sub-byte constants are packed, and no rule looks into those. */
static cm_infer_in seen(const cm_value *v)
{
    cm_infer_in in = {0};
    if (!v)
        return in;
    in.type = &v->type;
    in.constant = v->constant && !v->constant->packed ? v->constant : NULL;
    in.elems = v->elems;
    in.n_elems = v->n_elems;
    return in;
}

/* A symbol that inference made up for a value of node n: its name begins with n's. */
static bool is_own_symbol(const cm_network *g, cm_dim d, const cm_node *n)
{
    int s = cm_dim_symbol_index(g->dims, d);
    size_t k = strlen(n->name);
    const char *name = s < 0 ? "" : cm_dim_symbol_name(g->dims, s);
    return !strncmp(name, n->name, k) && name[k] == '.';
}

/* Inferring a node again makes up new symbols for what only the data tells; the ones it made up before
 * stand in the types of its readers, so they stay. */
static void keep_own_symbols(const cm_network *g, const cm_node *n, const cm_type *old, cm_type *t)
{
    if (old->kind != CM_TENSOR || t->kind != CM_TENSOR || old->rank != t->rank)
        return;
    for (int i = 0; i < t->rank; i++)
        if (is_own_symbol(g, t->dims[i], n) && is_own_symbol(g, old->dims[i], n))
            t->dims[i] = old->dims[i];
}

static cm_status keep(cm_ctx *cx, cm_network *g, const cm_infer_out *o, cm_value *v)
{
    cm_type old = v->type;
    v->type = o->type;
    keep_own_symbols(g, v->producer, &old, &v->type);
    v->elems = NULL;
    v->n_elems = 0;
    bool integer = o->type.kind == CM_TENSOR &&
                   (cm_dtype_is_integer(o->type.dtype) || o->type.dtype == CM_BOOL);
    if (o->n_elems < 0 || !integer || o->type.rank < 0)
        return CM_OK;
    v->elems = cm_arena_memdup(g->arena, o->elems, (size_t)o->n_elems * sizeof *o->elems);
    v->n_elems = o->n_elems;
    return v->elems ? CM_OK : cm_fail_memory(cx);
}

static cm_status infer_plain(cm_ctx *cx, cm_node *n)
{
    cm_infer_in *in;
    cm_infer_out *out;
    CM_NEW_N(cx, cx->scratch, in, n->n_in, cm_infer_in);
    CM_NEW_N(cx, cx->scratch, out, n->n_out, cm_infer_out);
    for (int i = 0; i < n->n_in; i++)
        in[i] = seen(n->in[i]);
    for (int o = 0; o < n->n_out; o++)
        out[o].wanted = n->out[o] != NULL;
    cm_infer f = {
        .cx = cx,
        .dims = n->network->dims,
        .op = n->op,
        .attr = n->attr,
        .hint = n->name,
        .n_in = n->n_in,
        .in = in,
        .n_out = n->n_out,
        .out = out,
        .epilogue = &n->epilogue,
    };
    CM_TRY(cm_op_infer(&f));
    for (int o = 0; o < n->n_out; o++)
        if (n->out[o])
            CM_TRY(keep(cx, n->network, &out[o], n->out[o]));
    return CM_OK;
}

cm_status cm_node_infer(cm_ctx *cx, cm_node *n)
{
    cm_arena_mark mark = cm_arena_save(cx->scratch);
    bool control = n->op->traits & CM_CONTROL;
    cm_status st = control ? cm_infer_control(cx, n) : infer_plain(cx, n);
    cm_arena_restore(cx->scratch, mark);
    if (st == CM_OK || st == CM_ERR_CANCELLED)
        return st;
    return cm_while(cx, st, "%s node '%s'", n->op->name, n->name);
}

cm_status cm_infer_nodes(cm_ctx *cx, cm_network *g)
{
    CM_FOR_NODES (n, g)
        CM_TRY(cm_node_infer(cx, n));
    return CM_OK;
}

cm_status cm_network_infer(cm_ctx *cx, cm_network *g)
{
    for (int i = 0; i < g->n_inputs; i++)
        if (g->inputs[i]->type.kind == CM_NOTHING)
            return cm_fail(cx, CM_ERR_MODEL, "input '%s' has no type", g->inputs[i]->name);
    return cm_infer_nodes(cx, g);
}

static cm_status join_elem(cm_ctx *cx, cm_network *g, const char *hint, const cm_type *a,
                           const cm_type *b, const cm_type **out)
{
    *out = a ? a : b;
    if (!a || !b || cm_type_equal(a, b))
        return CM_OK;
    cm_type *t;
    CM_NEW(cx, g->arena, t, cm_type);
    *out = t;
    return cm_type_join(cx, g, hint, a, b, t);
}

cm_status cm_type_join(cm_ctx *cx, cm_network *g, const char *hint, const cm_type *a,
                       const cm_type *b, cm_type *out)
{
    if (a->kind == CM_NOTHING || b->kind == CM_NOTHING) {
        *out = a->kind == CM_NOTHING ? *b : *a;
        return CM_OK;
    }
    if (a->kind != b->kind)
        return cm_fail(cx, CM_ERR_MODEL,
                       "a value would be of two kinds, such as tensor and sequence");
    *out = *a;
    if (a->kind == CM_SEQUENCE || a->kind == CM_OPTIONAL)
        return join_elem(cx, g, hint, a->elem, b->elem, &out->elem);
    if (a->dtype != b->dtype || a->key != b->key)
        return cm_fail(cx, CM_ERR_MODEL, "a value would have two element types, %s and %s",
                       cm_dtype_name(a->dtype), cm_dtype_name(b->dtype));
    if (a->kind != CM_TENSOR)
        return CM_OK;
    if (a->rank != b->rank)
        out->rank = -1;
    for (int i = 0; i < out->rank; i++) {
        if (a->dims[i] == b->dims[i])
            continue;
        out->dims[i] = cm_dim_fresh(g->dims, hint, CM_DIM_SIZE);
        if (out->dims[i] == CM_DIM_ERROR)
            return cm_fail_memory(cx);
    }
    return CM_OK;
}
