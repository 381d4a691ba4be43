/* unflatten_products.c -- products of rows read them in the shape that they come in.
 *
 *     f = Reshape(x, [-1, 768])           x: [batch, len, 768]
 *     p = MatMul(f, @w)
 *     a = Add(p, @b)
 *     y = Reshape(a, [batch, len, 3072])
 *  becomes
 *     p = MatMul(x, @w)
 *     y = Add(p, @b)                       two reshapes that cancel are left to merge_views
 *
 * The reshape moves down, past the product with a constant matrix and a constant row added to it. Fires when it
 * keeps the last axis; the result's reshape must be sayable without shape arithmetic.
 *
 * needs: types, uses    keeps: types, uses
 * SPDX-License-Identifier: Apache-2.0
 */
#include <string.h>

#include "passes/heads_view.h"

/* v is x under another shape with the same last axis: x, else NULL. */
static cm_value *unflattened(const cm_value *v)
{
    cm_node *n = cm_made_by(v, CM_OP_RESHAPE);
    if (!n || cm_rank(v) < 2 || cm_rank(n->in[0]) < 2 || n->in[0]->network != v->network)
        return NULL;
    const cm_type *from = &n->in[0]->type, *to = &v->type;
    return from->dims[from->rank - 1] == to->dims[to->rank - 1] ? n->in[0] : NULL;
}

/* A constant that is the same for every row. */
static bool is_row(const cm_value *v)
{
    if (!cm_is_const(v))
        return false;
    for (int i = 0; i < v->constant->rank - 1; i++)
        if (v->constant->dims[i] != 1)
            return false;
    return true;
}

/* Which input of n is rows of a flattened tensor, or -1. */
static int flat_input(const cm_node *n)
{
    if (cm_is(n, CM_OP_MATMUL))
        return unflattened(n->in[0]) && cm_is_const(n->in[1]) && cm_rank(n->in[1]) == 2 ? 0 : -1;
    if (!cm_is(n, CM_OP_ADD))
        return -1;
    for (int i = 0; i < 2; i++)
        if (unflattened(n->in[i]) && cm_sole_use(n->in[i]) && is_row(n->in[1 - i]) &&
            n->in[1 - i]->constant->rank <= cm_rank(unflattened(n->in[i])) &&
            cm_same_shape(n->in[i], n->out[0]))
            return i;
    return -1;
}

CM_PASS(unflatten_products)
{
    CM_FOR_NODES (n, g) {
        int i = flat_input(n);
        if (i < 0 || !n->out[0]->n_uses)
            continue;
        cm_value *x = unflattened(n->in[i]), *in[2] = {n->in[0], n->in[1]}, *y;
        const cm_type *t = &n->out[0]->type;
        cm_dim made[CM_MAX_RANK];
        memcpy(made, x->type.dims, (size_t)x->type.rank * sizeof *made);
        made[x->type.rank - 1] = t->dims[t->rank - 1];
        if (!cm_can_reshape(x->type.rank, made, t->rank, t->dims))
            continue;
        if (!cm_rewrite(rw, n))
            return CM_OK;
        cm_node *m;
        in[i] = x;
        CM_TRY(cm_make(rw, n, n->op->id, n, in, 2, 1, &m));
        CM_TRY(cm_view_as(rw, n, n, m->out[0], t->rank, t->dims, &y));
        CM_TRY(cm_replace(rw, n, y, m));
        cm_drop_if_dead(n);
    }
    return CM_OK;
}
