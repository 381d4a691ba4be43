/* flatten_matmul.c -- products of weights need no reshape to two axes and back.
 *
 *     a = Reshape(x, @[-1, 768])                x: f32[batch,seq,768]
 *     p = MatMul(a, @w)
 *     b = Add(p, @bias)                         (or none)
 *     y = Reshape(b, @[0, 0, 12, 64])           begins with batch and seq again
 *  becomes
 *     p = MatMul(x, @w)
 *     b = Add(p, @bias)
 *     y = Reshape(b, @[0, 0, 12, 64])           none when the shape is right
 *
 * Fires when the first reshape only joins leading axes and the second begins with them again; nobody else reads what is
 * between. The first reshape stays when others read it.
 *
 * needs: types, uses, products as MatMul    keeps: types, uses
 * SPDX-License-Identifier: Apache-2.0
 */
#include "passes/linear.h"
#include "passes/views.h"

/* What was joined to two axes. */
static cm_value *before_joining(const cm_value *a)
{
    cm_node *r = a->producer;
    if (!cm_is_view(r) || r->network != a->network || cm_rank(a) != 2)
        return NULL;
    cm_value *x = r->in[0];
    int rank = cm_rank(x);
    return rank > 2 && x->type.dtype == a->type.dtype && x->type.dims[rank - 1] == a->type.dims[1]
               ? x
               : NULL;
}

/* Does y begin with all axes of x but the last? */
static bool begins_like(const cm_value *y, const cm_value *x)
{
    int lead = cm_rank(x) - 1;
    if (cm_rank(y) <= lead)
        return false;
    for (int i = 0; i < lead; i++)
        if (y->type.dims[i] != x->type.dims[i])
            return false;
    return true;
}

static cm_status rebuild(cm_rewriter *rw, cm_node *r, const cm_linear *l, cm_value *x)
{
    cm_node *y;
    int64_t shape[CM_MAX_RANK];
    CM_TRY(cm_make(rw, r, CM_OP_MATMUL, l->node, (cm_value *[]){x, l->weights}, 2, 1, &y));
    if (l->add)
        CM_TRY(cm_make(rw, r, CM_OP_ADD, l->add, (cm_value *[]){y->out[0], l->bias}, 2, 1, &y));
    if (!cm_type_equal(&y->out[0]->type, &r->out[0]->type)) {
        if (!cm_reshape_target(&y->out[0]->type, &r->out[0]->type, shape))
            return cm_fail(rw->cx, CM_ERR_INTERNAL, "no shape for '%s'", r->name);
        CM_TRY(cm_make_reshape(rw, r, y->out[0], shape, cm_rank(r->out[0]), r, &y));
    }
    CM_TRY(cm_replace(rw, r, y->out[0], y));
    cm_drop_if_dead(r);
    return CM_OK;
}

/* The result's own shape, without its reshape, can be said. */
static bool can_say(const cm_linear *l, const cm_value *x, const cm_value *y)
{
    cm_type t = x->type;
    int64_t shape[CM_MAX_RANK];
    t.dims[t.rank - 1] = l->channels;
    return cm_type_equal(&t, &y->type) || cm_reshape_target(&t, &y->type, shape);
}

CM_PASS(flatten_matmul)
{
    CM_FOR_NODES (r, g) {
        cm_linear l;
        if (!cm_is_view(r) || !r->out[0]->n_uses || !cm_linear_find(r->in[0], &l) ||
            l.node->op->id != CM_OP_MATMUL || (l.bias && cm_rank(l.bias) > 1))
            continue;
        cm_value *x = before_joining(l.node->in[0]);
        if (!x)
            continue;
        if (!begins_like(r->out[0], x) || !can_say(&l, x, r->out[0])) {
            cm_near(rw, r, "product not taken out of its reshapes: the second divides otherwise");
            continue;
        }
        if (!cm_rewrite(rw, r))
            return CM_OK;
        CM_TRY(rebuild(rw, r, &l, x));
    }
    return CM_OK;
}
