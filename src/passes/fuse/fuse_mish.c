/* fuse_mish.c -- softplus and Mish from their pieces.
 *
 *     e = Exp(x)
 *     a = Add(e, 1)
 *     s = Log(a)
 *     t = Tanh(s)
 *     y = Mul(x, t)
 *  becomes
 *     s = Softplus(x), then y = Mish(x)
 *
 * Not when the result has another shape than x.
 *
 * needs: types, uses    keeps: types, uses
 * numerics: the pieces are not rounded; where exp(x) was infinite softplus is x
 * SPDX-License-Identifier: Apache-2.0
 */
#include "passes/forms.h"

static cm_status make_softplus(cm_rewriter *rw, cm_node *n)
{
    cm_form f = {.n_nodes = 0};
    cm_value *x = NULL;
    double c;
    bool done;
    if (!cm_one_plus_exp(&f, n->in[0], &x, &c) || c != 1)
        return CM_OK;
    return cm_form_unary(rw, &f, n, CM_OP_SOFTPLUS, NULL, x, &done);
}

static cm_status make_mish(cm_rewriter *rw, cm_node *n)
{
    bool done;
    for (int i = 0; i < 2; i++) {
        cm_form f = {.n_nodes = 0};
        const cm_node *t = cm_made_by(cm_past_casts(&f, n->in[1 - i]), CM_OP_TANH);
        const cm_node *s = t ? cm_made_by(cm_past_casts(&f, t->in[0]), CM_OP_SOFTPLUS) : NULL;
        if (!s || !cm_same_numbers(s->in[0], n->in[i]))
            continue;
        cm_note(&f, t);
        cm_note(&f, s);
        return cm_form_unary(rw, &f, n, CM_OP_MISH, NULL, n->in[i], &done);
    }
    return CM_OK;
}

CM_PASS(fuse_mish)
{
    cm_number_nodes(g);
    CM_FOR_NODES (n, g) {
        if (n->n_out < 1 || !n->out[0] || !n->out[0]->n_uses || !cm_is_float(n->out[0]))
            continue;
        if (cm_is(n, CM_OP_LOG))
            CM_TRY(make_softplus(rw, n));
        else if (cm_is(n, CM_OP_MUL))
            CM_TRY(make_mish(rw, n));
        if (rw->n_rewrites >= rw->limit)
            return CM_OK;
    }
    return CM_OK;
}
