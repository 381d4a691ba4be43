/* fuse_hardswish.c -- HardSigmoid and HardSwish from their pieces.
 *
 *     a = Add(x, 3)
 *     c = Clip(a, 0, 6)
 *     m = Mul(x, c)
 *     y = Div(m, 6)
 *  becomes
 *     y = HardSwish(x)
 *
 * The product of 1/6, x and Clip(x + 3, 0, 6) in any order and grouping, or of x and HardSigmoid {alpha=1/6,
 * beta=0.5}. Without the factor x: HardSigmoid, for any slope. Not when the result has another shape than x.
 *
 * needs: types, uses, fuse_clip    keeps: types, uses
 * numerics: the pieces are not rounded to the element type
 * SPDX-License-Identifier: Apache-2.0
 */
#include "passes/forms.h"

static bool bounds(const cm_node *clip, double *low, double *high)
{
    return clip->n_in == 3 && cm_splat(clip->in[1], low) && cm_splat(clip->in[2], high);
}

/* number * v = HardSigmoid(x) {alpha, beta}? */
static bool is_hard_sigmoid(cm_form *f, double number, cm_value *v, cm_value **x, double *alpha,
                            double *beta, double slack)
{
    double low, high, shift, c;
    const cm_node *n = cm_maker(cm_past_casts(f, v));
    if (cm_is(n, CM_OP_HARD_SIGMOID)) {
        cm_note(f, n);
        *x = n->in[0];
        *alpha = cm_float(n, "alpha");
        *beta = cm_float(n, "beta");
        return cm_near_number(number, 1, slack);
    }
    if (!cm_is(n, CM_OP_CLIP) || !bounds(n, &low, &high) || low != 0 ||
        !cm_near_number(number * high, 1, slack))
        return false;
    const cm_node *sum = cm_made_by(cm_past_casts(f, n->in[0]), CM_OP_ADD);
    cm_value *term = sum ? cm_other_than_number(sum, &shift) : NULL;
    if (!term)
        return false;
    cm_note(f, n);
    cm_note(f, sum);
    const cm_node *scaled = cm_made_by(term, CM_OP_MUL);
    cm_value *inner = scaled && cm_sole_use(term) ? cm_other_than_number(scaled, &c) : NULL;
    if (inner)
        cm_note(f, scaled);
    *x = inner ? inner : term;
    *alpha = number * (inner ? c : 1);
    *beta = number * shift;
    return true;
}

static cm_status make(cm_rewriter *rw, cm_node *n)
{
    cm_form whole = {.n_nodes = 0};
    cm_value *factor[2], *x;
    double number = 1, alpha, beta, slack = cm_slack(n->out[0]);
    int k = 1;
    bool done;
    if (cm_is(n, CM_OP_CLIP))
        factor[0] = n->out[0];
    else if (!cm_factors(&whole, n, &number, factor, 2, &k))
        return CM_OK;
    if (k == 1) {
        void *attr;
        if (!is_hard_sigmoid(&whole, number, factor[0], &x, &alpha, &beta, slack) ||
            cm_made_by(factor[0], CM_OP_HARD_SIGMOID))
            return CM_OK;
        CM_TRY(cm_new_attr(rw->cx, n->network, CM_OP_HARD_SIGMOID, &attr));
        CM_TRY(cm_attr_put_float(rw->cx, CM_OP_HARD_SIGMOID, attr, "alpha", alpha));
        CM_TRY(cm_attr_put_float(rw->cx, CM_OP_HARD_SIGMOID, attr, "beta", beta));
        return cm_form_unary(rw, &whole, n, CM_OP_HARD_SIGMOID, attr, x, &done);
    }
    for (int i = 0; i < 2; i++) {
        cm_form f = whole;
        if (!is_hard_sigmoid(&f, number, factor[1 - i], &x, &alpha, &beta, slack) ||
            !cm_same_numbers(x, factor[i]))
            continue;
        if (cm_near_number(alpha, 1.0 / 6, slack) && cm_near_number(beta, 0.5, slack))
            return cm_form_unary(rw, &f, n, CM_OP_HARD_SWISH, NULL, factor[i], &done);
        cm_near(rw, n, "HardSwish not fused: slope %g and shift %g, wanted 1/6 and 0.5", alpha,
                beta);
    }
    return CM_OK;
}

CM_PASS(fuse_hardswish)
{
    cm_number_nodes(g);
    CM_FOR_NODES (n, g) {
        if (n->n_out < 1 || !n->out[0] || !n->out[0]->n_uses || !cm_is_float(n->out[0]))
            continue;
        if (cm_is(n, CM_OP_MUL) || cm_is(n, CM_OP_DIV) || cm_is(n, CM_OP_CLIP))
            CM_TRY(make(rw, n));
        if (rw->n_rewrites >= rw->limit)
            return CM_OK;
    }
    return CM_OK;
}
