/* sink_expand.c -- Expand after pointwise work, or not at all.
 *
 *     e = Expand(x, s)                      r = Relu(x)
 *     y = Relu(e)              becomes      y = Expand(r, s)
 *
 *     e = Expand(x, s)   y = Add(e, z)      y = Add(x, z)         z has the full shape
 *
 * The work is done on the smaller tensor. A pointwise node with several operands broadcasts by itself: an
 * Expand before it goes when the result keeps its shape without; else the Expand moves behind it when the
 * other operands are single numbers. Only an Expand that nobody else reads moves.
 *
 * needs: types, uses    keeps: types, uses
 * SPDX-License-Identifier: Apache-2.0
 */
#include "passes/match.h"

static bool broadcasts(const cm_node *n)
{
    return (n->op->traits & CM_ELTWISE) && (n->op->traits & CM_PURE) && !n->epilogue.program &&
           n->n_out == 1 && cm_rank(n->out[0]) >= 0 &&
           (n->op->id != CM_OP_CLIP && n->op->id != CM_OP_PRELU && n->op->id != CM_OP_CAST);
}

/* Does the result keep its shape when input i is x? Every axis must come from another operand. */
static bool shape_without(const cm_node *n, int i, const cm_value *x)
{
    const cm_type *out = &n->out[0]->type;
    int skip = out->rank - cm_rank(x);
    if (cm_rank(x) < 0 || skip < 0)
        return false;
    for (int a = 0; a < out->rank; a++) {
        bool given = out->dims[a] == 1 || (a >= skip && x->type.dims[a - skip] == out->dims[a]);
        if (a >= skip && x->type.dims[a - skip] != 1 && x->type.dims[a - skip] != out->dims[a])
            return false;
        for (int k = 0; k < n->n_in && !given; k++) {
            int s = out->rank - cm_rank(n->in[k]);
            given = k != i && n->in[k] && cm_rank(n->in[k]) >= 0 && a >= s &&
                    n->in[k]->type.dims[a - s] == out->dims[a];
        }
        if (!given)
            return false;
    }
    return true;
}

/* Are all inputs but i single numbers that add no axes to x? */
static bool others_single(const cm_node *n, int i, const cm_value *x)
{
    for (int k = 0; k < n->n_in; k++)
        if (k != i && n->in[k] && (cm_volume(n->in[k]) != 1 || cm_rank(n->in[k]) > cm_rank(x)))
            return false;
    return true;
}

static cm_status move_behind(cm_rewriter *rw, cm_node *n, int i, cm_node *e)
{
    cm_value *in[8];
    cm_node *m, *x;
    void *attr;
    for (int k = 0; k < n->n_in; k++)
        in[k] = k == i ? e->in[0] : n->in[k];
    CM_TRY(cm_attr_copy(rw->cx, n->network->arena, n->op->attrs, n->attr, &attr));
    CM_TRY(cm_make_with(rw, n, n->op->id, attr, n, in, n->n_in, 1, &m));
    CM_TRY(cm_make(rw, n, CM_OP_EXPAND, e, (cm_value *[]){m->out[0], e->in[1]}, 2, 1, &x));
    CM_TRY(cm_replace(rw, n, x->out[0], NULL));
    cm_drop_if_dead(n);
    return CM_OK;
}

CM_PASS(sink_expand)
{
    CM_FOR_NODES (n, g) {
        if (!broadcasts(n) || n->n_in > 8 || !n->out[0]->n_uses || n->op->id == CM_OP_POINTWISE)
            continue;
        for (int i = 0; i < n->n_in; i++) {
            cm_node *e = cm_made_by(n->in[i], CM_OP_EXPAND);
            if (!e || cm_rank(e->in[0]) < 0)
                continue;
            bool drop = n->n_in > 1 && shape_without(n, i, e->in[0]);
            bool behind = !drop && cm_sole_use(n->in[i]) && others_single(n, i, e->in[0]) &&
                          cm_same_shape(n->in[i], n->out[0]);
            if (!drop && !behind)
                continue;
            if (!cm_rewrite(rw, n))
                return CM_OK;
            if (behind) {
                CM_TRY(move_behind(rw, n, i, e));
                break;
            }
            CM_TRY(cm_node_set_input(rw->cx, n, i, e->in[0]));
            CM_TRY(cm_node_infer(rw->cx, n));
        }
    }
    return CM_OK;
}
