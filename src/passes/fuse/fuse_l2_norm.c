/* fuse_l2_norm.c -- LpNormalization from its pieces.
 *
 *     n = ReduceL2(x, 1)
 *     c = Clip(n, 1e-12)
 *     e = Expand(c, Shape(x))
 *     y = Div(x, e)
 *  becomes
 *     y = LpNormalization(x) {axis=1, epsilon=1e-12}
 *
 * The norm by ReduceL2, or as the root of a sum of squares, bounded before or after the root or not at all; by
 * ReduceL1 with p=1; divided by, or multiplied by its Reciprocal. One axis only. Not when a number is added
 * to the norm instead.
 *
 * needs: types, uses, fuse_clip    keeps: types, uses
 * numerics: where the norm was 0 and unbounded the composite has 0
 * SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>

#include "passes/norm_match.h"

typedef struct {
    cm_stats stats;
    cm_value *x;
    int p;
    double epsilon;
} lp_norm;

/* v before Max(., number) or Clip from below; the number goes to *low. */
static cm_value *past_bound(cm_stats *s, cm_value *v, double *low)
{
    const cm_node *n = cm_maker(cm_past_layout(s, v));
    cm_value *inner = NULL;
    *low = 0;
    if (cm_is(n, CM_OP_MAX))
        inner = cm_other_than_number(n, low);
    else if (cm_is(n, CM_OP_CLIP) && n->n_in > 1 && cm_splat(n->in[1], low) &&
             (n->n_in < 3 || !n->in[2]))
        inner = n->in[0];
    if (!inner || *low < 0) {
        *low = 0;
        return v;
    }
    cm_note(&s->form, n);
    return inner;
}

static bool sum_of_squares(cm_stats *s, cm_value *v, cm_value **x)
{
    cm_stats before = *s;
    double two;
    if (cm_reduced(s, v, CM_OP_REDUCE_SUM_SQUARE, x))
        return true;
    *s = before;
    cm_value *of;
    if (!cm_reduced(s, v, CM_OP_REDUCE_SUM, &of))
        return false;
    const cm_node *n = cm_maker(cm_past_casts(&s->form, of));
    if (cm_is(n, CM_OP_MUL) && cm_same_numbers(n->in[0], n->in[1]))
        *x = n->in[0];
    else if (!cm_is(n, CM_OP_POW) || !(*x = cm_first_with_number(n, &two)) || two != 2)
        return false;
    cm_note(&s->form, n);
    return true;
}

/* v = the norm of x, bounded */
static bool is_norm(lp_norm *l, cm_value *v)
{
    double low;
    cm_stats before;
    v = past_bound(&l->stats, v, &l->epsilon);
    before = l->stats;
    l->p = 2;
    if (cm_reduced(&l->stats, v, CM_OP_REDUCE_L2, &l->x))
        return true;
    l->stats = before;
    l->p = 1;
    if (cm_reduced(&l->stats, v, CM_OP_REDUCE_L1, &l->x))
        return true;
    l->stats = before;
    l->p = 2;
    const cm_node *root = cm_made_by(cm_past_layout(&l->stats, v), CM_OP_SQRT);
    if (!root)
        return false;
    cm_note(&l->stats.form, root);
    v = past_bound(&l->stats, root->in[0], &low);
    l->epsilon = fmax(l->epsilon, sqrt(low));
    return sum_of_squares(&l->stats, v, &l->x);
}

static bool match(const cm_node *n, lp_norm *l)
{
    for (int i = 0; i < (cm_is(n, CM_OP_MUL) ? 2 : 1); i++) {
        *l = (lp_norm){.p = 0};
        cm_value *below = n->in[1 - i];
        cm_meets(&l->stats, below);
        if (cm_is(n, CM_OP_MUL)) {
            const cm_node *r = cm_made_by(cm_past_layout(&l->stats, below), CM_OP_RECIPROCAL);
            if (!r)
                continue;
            cm_note(&l->stats.form, r);
            below = r->in[0];
        }
        if (is_norm(l, below) && cm_same_numbers(n->in[i], l->x) && cm_stats_fit(&l->stats, l->x))
            return true;
    }
    return false;
}

static cm_status make(cm_rewriter *rw, cm_node *n, lp_norm *l)
{
    cm_op_id op = CM_OP_LP_NORMALIZATION;
    int axis = cm_one_axis(&l->stats);
    void *attr;
    bool done;
    if (axis < 0) {
        cm_near(rw, n, "normalisation by length not fused: it is over several axes");
        return CM_OK;
    }
    CM_TRY(cm_new_attr(rw->cx, n->network, op, &attr));
    if (axis != cm_rank(l->x) - 1)
        CM_TRY(cm_attr_put_int(rw->cx, op, attr, "axis", axis));
    if (l->p != 2)
        CM_TRY(cm_attr_put_int(rw->cx, op, attr, "p", l->p));
    if (l->epsilon > 0)
        CM_TRY(cm_attr_put_float(rw->cx, op, attr, "epsilon", l->epsilon));
    return cm_form_unary(rw, &l->stats.form, n, op, attr, l->x, &done);
}

CM_PASS(fuse_l2_norm)
{
    cm_number_nodes(g);
    CM_FOR_NODES (n, g) {
        lp_norm l;
        if ((!cm_is(n, CM_OP_DIV) && !cm_is(n, CM_OP_MUL)) || !n->out[0]->n_uses ||
            !cm_is_float(n->out[0]) || !match(n, &l))
            continue;
        CM_TRY(make(rw, n, &l));
        if (rw->n_rewrites >= rw->limit)
            return CM_OK;
    }
    return CM_OK;
}
