/* compare_bool.c -- comparing a bool with 0 or 1 is the bool or its opposite.
 *
 *     c = Unsqueeze(Cast(m) {to=i64})             m: bool
 *     y = Equal(c, @0)
 *  becomes
 *     y = Not(Unsqueeze(m))
 *
 * and Equal to 1 is m itself. One reshape may stand between. Fires when the number
 * has no more axes than m.
 *
 * needs: types, uses    keeps: types, uses
 * SPDX-License-Identifier: Apache-2.0
 */
#include "passes/match.h"

static bool is_view(const cm_node *n)
{
    return cm_is(n, CM_OP_RESHAPE) || cm_is(n, CM_OP_SQUEEZE) || cm_is(n, CM_OP_UNSQUEEZE);
}

/* The Cast of a bool behind v, and the view between or NULL. */
static cm_node *cast_of(const cm_value *v, cm_node **view)
{
    cm_node *n = v && v->producer && v->producer->network == v->network ? v->producer : NULL;
    *view = is_view(n) ? n : NULL;
    cm_node *cast = cm_made_by(*view ? n->in[0] : v, CM_OP_CAST);
    return cast && cm_rank(cast->in[0]) >= 0 && cast->in[0]->type.dtype == CM_BOOL ? cast : NULL;
}

static cm_status rewrite(cm_rewriter *rw, cm_node *n, cm_node *cast, const cm_node *view,
                         bool is_one)
{
    cm_value *m = cast->in[0];
    cm_node *y = NULL;
    void *attr;
    if (view) {
        cm_value *in[] = {m, view->n_in > 1 ? view->in[1] : NULL};
        CM_TRY(cm_attr_copy(rw->cx, n->network->arena, view->op->attrs, view->attr, &attr));
        CM_TRY(cm_make_with(rw, n, view->op->id, attr, view, in, view->n_in, 1, &y));
        m = y->out[0];
    }
    if (!is_one) {
        CM_TRY(cm_make(rw, n, CM_OP_NOT, n, &m, 1, 1, &y));
        m = y->out[0];
    }
    if (y)
        CM_TRY(cm_node_add_from(rw->cx, y, cast));
    CM_TRY(cm_replace(rw, n, m, y));
    cm_drop_if_dead(n);
    return CM_OK;
}

CM_PASS(compare_bool)
{
    CM_FOR_NODES (n, g) {
        double x;
        if (!cm_is(n, CM_OP_EQUAL) || !n->out[0]->n_uses)
            continue;
        int i = cm_is_const(n->in[1]) ? 0 : 1;
        cm_node *view, *cast = cast_of(n->in[i], &view);
        if (!cast || !cm_splat(n->in[1 - i], &x) || (x != 0 && x != 1) ||
            !cm_same_shape(n->in[i], n->out[0]))
            continue;
        if (!cm_rewrite(rw, n))
            return CM_OK;
        CM_TRY(rewrite(rw, n, cast, view, x == 1));
    }
    return CM_OK;
}
