/* fuse_silu.c -- sigmoid and SiLU from their pieces.
 *
 *     s = Sigmoid(x)           n = Neg(x)
 *     y = Mul(x, s)            e = Exp(n)
 *                              a = Add(e, 1)
 *  becomes                     y = Div(1, a)
 *     y = Swish(x)          becomes
 *                              y = Sigmoid(x)
 *
 * x sigmoid(c x) is Swish {alpha=c}: 1.702 makes the quick GELU. Reciprocal does as well as a division, and
 * x / (1 + exp(-x)) is a Swish too. Not when the result has another shape than x.
 *
 * needs: types, uses    keeps: types, uses
 * numerics: the pieces are not rounded to the element type
 * SPDX-License-Identifier: Apache-2.0
 */
#include "passes/forms.h"

static cm_status make_swish(cm_rewriter *rw, cm_form *f, cm_node *n, cm_value *x, double alpha)
{
    void *attr;
    bool done;
    CM_TRY(cm_new_attr(rw->cx, n->network, CM_OP_SWISH, &attr));
    if (!cm_near_number(alpha, 1, 1e-7))
        CM_TRY(cm_attr_put_float(rw->cx, CM_OP_SWISH, attr, "alpha", alpha));
    return cm_form_unary(rw, f, n, CM_OP_SWISH, attr, x, &done);
}

/* x * Sigmoid(alpha x) */
static cm_status from_product(cm_rewriter *rw, cm_node *n)
{
    cm_form whole = {.n_nodes = 0};
    cm_value *factor[2];
    double number, alpha;
    int k;
    if (!cm_factors(&whole, n, &number, factor, 2, &k) || k != 2 || number != 1)
        return CM_OK;
    for (int i = 0; i < 2; i++) {
        cm_form f = whole;
        const cm_node *s = cm_made_by(cm_past_casts(&f, factor[1 - i]), CM_OP_SIGMOID);
        if (!s || !cm_multiple(&f, s->in[0], factor[i], &alpha))
            continue;
        cm_note(&f, s);
        return make_swish(rw, &f, n, factor[i], alpha);
    }
    return CM_OK;
}

/* 1 / (1 + exp(-x)), x / (1 + exp(-x)) */
static cm_status from_quotient(cm_rewriter *rw, cm_node *n)
{
    cm_form f = {.n_nodes = 0};
    bool is_reciprocal = cm_is(n, CM_OP_RECIPROCAL) || cm_is_number(n->in[0], 1, 0), done;
    cm_value *x = is_reciprocal ? NULL : n->in[0], *below = n->in[n->n_in - 1];
    double c;
    if (!cm_one_plus_exp(&f, below, &x, &c))
        return CM_OK;
    if (!is_reciprocal)
        return c < 0 ? make_swish(rw, &f, n, x, -c) : CM_OK;
    return c == -1 ? cm_form_unary(rw, &f, n, CM_OP_SIGMOID, NULL, x, &done) : CM_OK;
}

CM_PASS(fuse_silu)
{
    cm_number_nodes(g);
    CM_FOR_NODES (n, g) {
        if (n->n_out < 1 || !n->out[0] || !n->out[0]->n_uses || !cm_is_float(n->out[0]))
            continue;
        if (cm_is(n, CM_OP_MUL))
            CM_TRY(from_product(rw, n));
        else if (cm_is(n, CM_OP_DIV) || cm_is(n, CM_OP_RECIPROCAL))
            CM_TRY(from_quotient(rw, n));
        if (rw->n_rewrites >= rw->limit)
            return CM_OK;
    }
    return CM_OK;
}
