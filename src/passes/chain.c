/* chain.c -- several nodes in the place of one.
 * SPDX-License-Identifier: Apache-2.0 */
#include "passes/chain.h"

cm_value *cm_chain_make(cm_chain *c, cm_op_id op, void *attr, int n_in, cm_value *const *in)
{
    cm_node *n;
    if (c->st == CM_OK)
        c->st = cm_make_with(c->rw, c->at, op, attr, c->at, in, n_in, 1, &n);
    return c->st == CM_OK ? n->out[0] : NULL;
}

void *cm_chain_attr(cm_chain *c, cm_op_id op)
{
    void *attr = NULL;
    if (c->st == CM_OK)
        c->st = cm_new_attr(c->rw->cx, c->at->network, op, &attr);
    return attr;
}

void cm_chain_int(cm_chain *c, cm_op_id op, void *attr, const char *name, int64_t v)
{
    if (c->st == CM_OK)
        c->st = cm_attr_put_int(c->rw->cx, op, attr, name, v);
}

void cm_chain_ints(cm_chain *c, cm_op_id op, void *attr, const char *name, int k, const int64_t *v)
{
    if (c->st == CM_OK)
        c->st = cm_attr_put_ints(c->rw->cx, c->at->network, op, attr, name, v, k);
}

cm_value *cm_chain_number(cm_chain *c, cm_dtype t, double v)
{
    cm_value *out = NULL;
    if (c->st == CM_OK)
        c->st = cm_make_scalar(c->rw->cx, c->at->network, NULL, t, v, &out);
    return out;
}

cm_value *cm_chain_list(cm_chain *c, int k, const int64_t *v)
{
    cm_value *out = NULL;
    int64_t n = k;
    if (c->st == CM_OK)
        c->st = cm_make_const_i64(c->rw->cx, c->at->network, NULL, 1, &n, v, &out);
    return out;
}

cm_value *cm_chain_reduce(cm_chain *c, cm_op_id op, cm_value *x, int k, const int64_t *axes,
                          bool keep)
{
    void *attr = cm_chain_attr(c, op);
    cm_chain_int(c, op, attr, "keepdims", keep);
    return CM_THEN(c, op, attr, x, cm_chain_list(c, k, axes));
}

cm_value *cm_chain_cast(cm_chain *c, cm_value *x, cm_dtype to)
{
    void *attr = cm_chain_attr(c, CM_OP_CAST);
    cm_chain_int(c, CM_OP_CAST, attr, "to", to);
    return CM_THEN(c, CM_OP_CAST, attr, x);
}

cm_value *cm_chain_reshape(cm_chain *c, cm_value *x, int k, const int64_t *dims)
{
    return CM_THEN(c, CM_OP_RESHAPE, NULL, x, cm_chain_list(c, k, dims));
}

cm_value *cm_chain_slice(cm_chain *c, cm_value *x, int64_t axis, int64_t begin, int64_t end)
{
    return CM_THEN(c, CM_OP_SLICE, NULL, x, cm_chain_list(c, 1, &begin), cm_chain_list(c, 1, &end),
                   cm_chain_list(c, 1, &axis));
}

cm_value *cm_chain_widen(cm_chain *c, cm_value *x)
{
    bool half = x && (x->type.dtype == CM_F16 || x->type.dtype == CM_BF16);
    return half ? cm_chain_cast(c, x, CM_F32) : x;
}

void cm_chain_end(cm_chain *c, int o, cm_value *v)
{
    if (c->st == CM_OK && v->type.dtype != c->at->out[o]->type.dtype)
        v = cm_chain_cast(c, v, c->at->out[o]->type.dtype);
    if (c->st == CM_OK)
        c->st = cm_replace_uses(c->rw->cx, c->at->out[o], v);
}

static const cm_chain_form *form_of(const cm_node *n, const cm_chain_form *forms, int n_forms)
{
    for (int i = 0; i < n_forms; i++)
        if (forms[i].is(n))
            return &forms[i];
    return NULL;
}

cm_status cm_chain_rewrite(cm_rewriter *rw, cm_network *g, const cm_chain_form *forms, int n_forms)
{
    if (!rw->options->for_plan)
        return CM_OK;
    CM_FOR_NODES (n, g) {
        const cm_chain_form *form = form_of(n, forms, n_forms);
        cm_chain c = {rw, n, CM_OK};
        if (!form)
            continue;
        if (!cm_rewrite(rw, n))
            return CM_OK;
        form->expand(&c);
        CM_TRY(c.st);
        cm_drop_if_dead(n);
    }
    return CM_OK;
}
