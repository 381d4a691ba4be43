/* fuse_clip.c -- one Clip for bounds that follow each other.
 *
 *     a = Max(x, -1)           r = Relu(x)            a = Clip(x, -2, 5)
 *     y = Min(a, 1)            y = Min(r, 6)          y = Clip(a, 0, 9)
 *  becomes
 *     y = Clip(x, -1, 1)       y = Clip(x, 0, 6)      y = Clip(x, 0, 5)
 *
 * Relu, Clip with numbers for bounds, Max and Min with one number; the first read by the second only. Floats
 * only. What is left when nothing is above becomes Relu where the lower bound is 0. Not when a bound's shape
 * enlarges the result.
 *
 * needs: types, uses    keeps: types, uses
 * SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>

#include "passes/forms.h"

typedef struct {
    double low, high;
} range;

static bool bound(const cm_node *n, int i, double absent, double *out)
{
    *out = absent;
    return i >= n->n_in || !n->in[i] || cm_splat(n->in[i], out);
}

/* What n bounds, and how. NULL: it does something else. */
static cm_value *bounded(const cm_node *n, range *r)
{
    double c;
    cm_value *x = NULL;
    *r = (range){-INFINITY, INFINITY};
    if (cm_is(n, CM_OP_RELU)) {
        r->low = 0;
        x = n->in[0];
    } else if (cm_is(n, CM_OP_CLIP)) {
        if (bound(n, 1, -INFINITY, &r->low) && bound(n, 2, INFINITY, &r->high))
            x = n->in[0];
    } else if (cm_is(n, CM_OP_MAX) || cm_is(n, CM_OP_MIN)) {
        x = cm_other_than_number(n, &c);
        *(cm_is(n, CM_OP_MAX) ? &r->low : &r->high) = x ? c : 0;
    }
    bool ok = x && r->low <= r->high && cm_is_float(x) && cm_same_shape(x, n->out[0]);
    return ok && x->type.dtype == n->out[0]->type.dtype ? x : NULL;
}

static double within(double v, range r)
{
    return fmin(fmax(v, r.low), r.high);
}

static cm_status merge(cm_rewriter *rw, cm_node *n, cm_node *inner, cm_value *x, range r)
{
    cm_form f = {.n_nodes = 0};
    cm_value *in[3] = {x};
    cm_dtype t = x->type.dtype;
    cm_note(&f, inner);
    if (r.low == 0 && r.high == INFINITY)
        return cm_form_replace(rw, &f, n, CM_OP_RELU, NULL, in, 1);
    if (r.low > -INFINITY)
        CM_TRY(cm_make_scalar(rw->cx, n->network, "low", t, r.low, &in[1]));
    if (r.high < INFINITY)
        CM_TRY(cm_make_scalar(rw->cx, n->network, "high", t, r.high, &in[2]));
    return cm_form_replace(rw, &f, n, CM_OP_CLIP, NULL, in, in[2] ? 3 : in[1] ? 2 : 1);
}

CM_PASS(fuse_clip)
{
    cm_number_nodes(g);
    CM_FOR_NODES (n, g) {
        range outer, inner;
        if (n->n_out < 1 || !n->out[0] || !n->out[0]->n_uses)
            continue;
        cm_value *v = bounded(n, &outer);
        cm_node *first = v && cm_sole_use(v) ? cm_maker(v) : NULL;
        cm_value *x = first ? bounded(first, &inner) : NULL;
        if (!x)
            continue;
        if (!cm_rewrite(rw, n))
            return CM_OK;
        range both = {within(inner.low, outer), within(inner.high, outer)};
        CM_TRY(merge(rw, n, first, x, both));
        cm_drop_if_dead(n);
    }
    return CM_OK;
}
