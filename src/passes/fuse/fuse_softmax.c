/* fuse_softmax.c -- Softmax and LogSoftmax from their pieces.
 *
 *     m = ReduceMax(x, 1)
 *     d = Sub(x, m)
 *     e = Exp(d)
 *     s = ReduceSum(e, 1)
 *     y = Div(e, s)
 *  becomes
 *     y = Softmax(x) {axis=1}
 *
 * Also without the maximum, with a Reciprocal, and with the axis dropped and put back. Log of a Softmax that
 * nobody else reads, Sub(d, Log(s)) and Sub(x, ReduceLogSumExp(x)) are LogSoftmax. Several axes in a row make
 * cameo.Softmax, and so do views around a plain one that put them together and apart again:
 *
 *     f = Flatten(x) {axis=2}
 *     p = Softmax(f)
 *     y = Reshape(p, Shape(x))
 *  becomes
 *     y = cameo.Softmax(x) {axis=2, count=3}
 *
 * or a plain Softmax where all of those axes but one have size 1.
 *
 * needs: types, uses    keeps: types, uses
 * numerics: where exp(x) was infinite, or the logarithm of 0 was taken, the composite has a number
 * SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>

#include "passes/norm_match.h"
#include "passes/views.h"

/* v = x less its maximum (or any x, then *x is v)? */
static void shifted(cm_stats *s, cm_value *v, cm_value **x)
{
    cm_stats before = *s;
    double low;
    cm_value *of;
    const cm_node *sub = cm_made_by(cm_past_casts(&s->form, v), CM_OP_SUB);
    *x = v;
    if (!sub)
        return;
    cm_note(&s->form, sub);
    cm_value *max = cm_past_layout(s, sub->in[1]);
    const cm_node *guard = cm_made_by(max, CM_OP_MAX); /* Max(-inf, m) */
    if (guard && cm_other_than_number(guard, &low) && low == -INFINITY) {
        cm_note(&s->form, guard);
        max = cm_other_than_number(guard, &low);
    }
    if (cm_reduced(s, max, CM_OP_REDUCE_MAX, &of) && cm_same_numbers(of, sub->in[0])) {
        cm_meets(s, sub->in[1]);
        *x = sub->in[0];
        return;
    }
    *s = before;
}

/* v = the sum of exp(t) */
static bool sum_of_exp(cm_stats *s, cm_value *v, cm_value **t)
{
    cm_stats before = *s;
    cm_value *of;
    const cm_node *e;
    if (cm_reduced(s, v, CM_OP_REDUCE_SUM, &of) &&
        (e = cm_made_by(cm_past_casts(&s->form, of), CM_OP_EXP))) {
        cm_note(&s->form, e);
        *t = e->in[0];
        return true;
    }
    *s = before;
    return false;
}

/* v = the logarithm of the sum of exp(t) */
static bool log_sum_of_exp(cm_stats *s, cm_value *v, cm_value **t)
{
    cm_stats before = *s;
    const cm_node *log = cm_made_by(cm_past_layout(s, v), CM_OP_LOG);
    cm_value *of;
    if (log) {
        cm_note(&s->form, log);
        return sum_of_exp(s, log->in[0], t);
    }
    *s = before;
    if (cm_reduced(s, v, CM_OP_REDUCE_LOG_SUM_EXP, t))
        return true;
    *s = before;
    const cm_node *e;
    if (cm_reduced(s, v, CM_OP_REDUCE_LOG_SUM, &of) &&
        (e = cm_made_by(cm_past_casts(&s->form, of), CM_OP_EXP))) {
        cm_note(&s->form, e);
        *t = e->in[0];
        return true;
    }
    return false;
}

/* n = exp(t) / sum exp(t)? */
static bool is_softmax(cm_node *n, cm_stats *s, cm_value **t)
{
    for (int i = 0; i < (cm_is(n, CM_OP_MUL) ? 2 : 1); i++) {
        *s = (cm_stats){.axes = 0};
        cm_value *below = n->in[1 - i];
        const cm_node *e = cm_made_by(cm_past_casts(&s->form, n->in[i]), CM_OP_EXP);
        if (!e)
            continue;
        cm_note(&s->form, e);
        cm_meets(s, below);
        if (cm_is(n, CM_OP_MUL)) {
            const cm_node *r = cm_made_by(cm_past_layout(s, below), CM_OP_RECIPROCAL);
            if (!r)
                continue;
            cm_note(&s->form, r);
            below = r->in[0];
        }
        if (sum_of_exp(s, below, t) && cm_same_numbers(*t, e->in[0]))
            return true;
    }
    return false;
}

/* The operator `op` over `count` axes of x from `axis` on, in the place of n. */
static cm_status put(cm_rewriter *rw, cm_node *n, cm_op_id op, cm_form *form, cm_value *x, int axis,
                     int count)
{
    void *attr;
    bool done;
    while (count > 1 && x->type.dims[axis + count - 1] == 1)
        count--;
    while (count > 1 && x->type.dims[axis] == 1) {
        axis++;
        count--;
    }
    cm_op_id as = count > 1 ? CM_OP_FUSED_SOFTMAX : op;
    CM_TRY(cm_new_attr(rw->cx, n->network, as, &attr));
    if (axis != cm_rank(x) - 1)
        CM_TRY(cm_attr_put_int(rw->cx, as, attr, "axis", axis));
    if (count > 1)
        CM_TRY(cm_attr_put_int(rw->cx, as, attr, "count", count));
    if (count > 1 && op == CM_OP_LOG_SOFTMAX)
        CM_TRY(cm_attr_put_int(rw->cx, as, attr, "log", 1));
    return cm_form_unary(rw, form, n, as, attr, x, &done);
}

static cm_status make(cm_rewriter *rw, cm_node *n, cm_op_id op, cm_stats *s, cm_value *x)
{
    int axis, count;
    if (!cm_stats_fit(s, x))
        return CM_OK;
    if (!cm_axes_in_a_row(s, &axis, &count)) {
        cm_near(rw, n, "softmax not fused: it is over axes that do not follow each other");
        return CM_OK;
    }
    return put(rw, n, op, &s->form, x, axis, count);
}

static cm_status from_quotient(cm_rewriter *rw, cm_node *n)
{
    cm_stats s;
    cm_value *t, *x;
    if (!is_softmax(n, &s, &t))
        return CM_OK;
    shifted(&s, t, &x);
    return make(rw, n, CM_OP_SOFTMAX, &s, x);
}

static cm_status from_difference(cm_rewriter *rw, cm_node *n)
{
    cm_stats s = {.axes = 0};
    cm_value *t, *x;
    cm_meets(&s, n->in[1]);
    if (!log_sum_of_exp(&s, n->in[1], &t) || !cm_same_numbers(t, n->in[0]))
        return CM_OK;
    shifted(&s, t, &x);
    return make(rw, n, CM_OP_LOG_SOFTMAX, &s, x);
}

static cm_status from_log(cm_rewriter *rw, cm_node *n)
{
    cm_form f = {.n_nodes = 0};
    const cm_node *softmax = cm_made_by(cm_past_casts(&f, n->in[0]), CM_OP_SOFTMAX);
    void *attr;
    bool done;
    if (!softmax || !cm_sole_use(softmax->out[0]))
        return CM_OK;
    cm_note(&f, softmax);
    CM_TRY(cm_new_attr(rw->cx, n->network, CM_OP_LOG_SOFTMAX, &attr));
    if (cm_int(softmax, "axis") != -1)
        CM_TRY(cm_attr_put_int(rw->cx, CM_OP_LOG_SOFTMAX, attr, "axis", cm_int(softmax, "axis")));
    return cm_form_unary(rw, &f, n, CM_OP_LOG_SOFTMAX, attr, softmax->in[0], &done);
}

static cm_dim product(cm_network *g, const cm_dim *d, int from, int to)
{
    cm_dim p = 1;
    for (int a = from; a < to; a++)
        p = cm_dim_mul(g->dims, p, d[a]);
    return p;
}

/* Which axes of x lie together in axis `at` of its view f? */
static bool axes_behind(const cm_value *x, const cm_value *f, int at, int *axis, int *count)
{
    cm_network *g = x->network;
    cm_dim before = product(g, f->type.dims, 0, at);
    cm_dim behind = product(g, f->type.dims, at + 1, f->type.rank);
    if (before == CM_DIM_ERROR || behind == CM_DIM_ERROR)
        return false;
    for (*axis = 0; *axis < cm_rank(x); ++*axis)
        for (*count = 1; *axis + *count <= cm_rank(x); ++*count)
            if (product(g, x->type.dims, 0, *axis) == before &&
                product(g, x->type.dims, *axis, *axis + *count) == f->type.dims[at] &&
                product(g, x->type.dims, *axis + *count, cm_rank(x)) == behind)
                return true;
    return false;
}

static cm_status from_views(cm_rewriter *rw, cm_node *n)
{
    cm_form f = {.n_nodes = 0};
    const cm_node *softmax = cm_maker(n->in[0]);
    if ((!cm_is(softmax, CM_OP_SOFTMAX) && !cm_is(softmax, CM_OP_LOG_SOFTMAX)) ||
        !cm_sole_use(softmax->out[0]) || cm_rank(softmax->in[0]) < 1)
        return CM_OK;
    const cm_node *view = cm_maker(softmax->in[0]);
    int at = (int)cm_int(softmax, "axis"), axis, count;
    at += at < 0 ? cm_rank(softmax->in[0]) : 0;
    if (!cm_is_view(view) || !cm_same_shape(view->in[0], n->out[0]) ||
        !axes_behind(view->in[0], softmax->in[0], at, &axis, &count))
        return CM_OK;
    cm_note(&f, view);
    cm_note(&f, softmax);
    return put(rw, n, softmax->op->id, &f, view->in[0], axis, count);
}

CM_PASS(fuse_softmax)
{
    cm_number_nodes(g);
    CM_FOR_NODES (n, g) {
        if (n->n_out < 1 || !n->out[0] || !n->out[0]->n_uses || !cm_is_float(n->out[0]))
            continue;
        if (cm_is(n, CM_OP_DIV) || cm_is(n, CM_OP_MUL))
            CM_TRY(from_quotient(rw, n));
        else if (cm_is(n, CM_OP_SUB))
            CM_TRY(from_difference(rw, n));
        else if (cm_is(n, CM_OP_LOG))
            CM_TRY(from_log(rw, n));
        else if (cm_is_view(n))
            CM_TRY(from_views(rw, n));
        if (rw->n_rewrites >= rw->limit)
            return CM_OK;
    }
    return CM_OK;
}
