/* move_qdq.c -- values are moved as integers: before they are dequantised, and after they are quantised.
 *
 *     d = DequantizeLinear(q, @s, @z)            t = Transpose(x)
 *     y = Transpose(d)                           y = QuantizeLinear(t, @s, @z)
 *  becomes
 *     t = Transpose(q)                           q = QuantizeLinear(x, @s, @z)
 *     y = DequantizeLinear(t, @s, @z)            y = Transpose(q)
 *
 * so that less is moved, and integers stand next to the nodes that can compute with them. The first past views,
 * Transpose, Slice, Gather, Split, DepthToSpace and SpaceToDepth; the second past those that keep all elements. One scale
 * for all elements; past a Transpose, also one per index of an axis, which is translated. Nobody else may read the value
 * between the two.
 *
 * Before constants are folded, so that weights next to integers are seen to be that.
 *
 * needs: types, uses    keeps: types, uses
 * SPDX-License-Identifier: Apache-2.0
 */
#include "passes/qdq.h"
#include "passes/transposes.h"

static bool keeps_all(const cm_node *n)
{
    switch (n->op->id) {
    case CM_OP_RESHAPE:
    case CM_OP_FLATTEN:
    case CM_OP_SQUEEZE:
    case CM_OP_UNSQUEEZE:
    case CM_OP_TRANSPOSE:
    case CM_OP_DEPTH_TO_SPACE:
    case CM_OP_SPACE_TO_DEPTH:
        return !n->epilogue.program;
    default:
        return false;
    }
}

static bool keeps_some(const cm_node *n)
{
    return keeps_all(n) || cm_is(n, CM_OP_SLICE) || cm_is(n, CM_OP_GATHER) || cm_is(n, CM_OP_SPLIT);
}

/* q: a QuantizeLinear or DequantizeLinear in front of m, or behind it. Can they change places? The axis of its scale
 * then, or -1: one scale for all. */
static bool can_swap(const cm_node *q, const cm_node *m, bool behind, int64_t *axis)
{
    int64_t perm[CM_MAX_RANK], inverse[CM_MAX_RANK];
    int rank = cm_rank(m->in[0]);
    *axis = -1;
    if (cm_int(q, "block_size") || rank < 0)
        return false;
    if (cm_rank(q->in[1]) <= 1 && cm_volume(q->in[1]) == 1)
        return true;
    if (!cm_is(m, CM_OP_TRANSPOSE) || cm_rank(q->in[1]) != 1 || !cm_perm(m, perm))
        return false;
    *axis = cm_int(q, "axis");
    *axis += *axis < 0 ? rank : 0;
    if (*axis < 0 || *axis >= rank)
        return false;
    cm_perm_inverse(perm, rank, inverse);
    *axis = behind ? perm[*axis] : inverse[*axis];
    return true;
}

/* A copy of q, before `before`, reading v. */
static cm_status copy_q(cm_rewriter *rw, cm_node *before, const cm_node *q, cm_value *v,
                        int64_t axis, cm_node **out)
{
    cm_value *in[] = {v, q->in[1], q->n_in > 2 ? q->in[2] : NULL};
    void *attr;
    CM_TRY(cm_attr_copy(rw->cx, q->network->arena, q->op->attrs, q->attr, &attr));
    if (axis >= 0)
        CM_TRY(cm_attr_put_int(rw->cx, q->op->id, attr, "axis", axis));
    return cm_make_with(rw, before, q->op->id, attr, q, in, q->n_in, 1, out);
}

/* A copy of m, before `before`, reading v. */
static cm_status copy_m(cm_rewriter *rw, cm_node *before, const cm_node *m, cm_value *v,
                        cm_node **out)
{
    cm_value *in[] = {v, NULL, NULL, NULL, NULL};
    void *attr;
    for (int i = 1; i < m->n_in; i++)
        in[i] = m->in[i];
    CM_TRY(cm_attr_copy(rw->cx, m->network->arena, m->op->attrs, m->attr, &attr));
    CM_TRY(cm_make_with(rw, before, m->op->id, attr, m, in, m->n_in, m->n_out, out));
    for (int o = 0; o < m->n_out; o++) /* sizes that have symbols keep them */
        for (int d = 0; m->out[o] && d < cm_rank(m->out[o]); d++)
            (*out)->out[o]->type.dims[d] = m->out[o]->type.dims[d];
    return CM_OK;
}

/* m moves what was dequantised for it alone. */
static cm_status sink(cm_rewriter *rw, cm_node *m)
{
    cm_node *dq = cm_made_by(m->in[0], CM_OP_DEQUANTIZE_LINEAR), *moved, *y;
    int64_t axis;
    if (!dq || cm_only_reader(m->in[0]) != m || !can_swap(dq, m, false, &axis))
        return CM_OK;
    for (int o = 0; o < m->n_out; o++)
        if (!m->out[o] || cm_rank(m->out[o]) < 0)
            return CM_OK;
    if (!cm_rewrite(rw, m))
        return CM_OK;
    CM_TRY(copy_m(rw, m, m, dq->in[0], &moved));
    for (int o = 0; o < m->n_out; o++) {
        CM_TRY(copy_q(rw, m, dq, moved->out[o], axis, &y));
        CM_TRY(cm_replace_uses(rw->cx, m->out[o], y->out[0]));
    }
    cm_drop_if_dead(m);
    return CM_OK;
}

/* q quantises what was moved for it alone. */
static cm_status hoist(cm_rewriter *rw, cm_node *q)
{
    cm_node *m = q->in[0]->producer, *first, *y;
    int64_t axis;
    if (!m || m->network != q->network || !keeps_all(m) || cm_only_reader(q->in[0]) != q ||
        cm_is_const(m->in[0]) || !can_swap(q, m, true, &axis) || cm_rank(m->out[0]) < 0)
        return CM_OK;
    if (!cm_rewrite(rw, q))
        return CM_OK;
    CM_TRY(copy_q(rw, q, q, m->in[0], axis, &first));
    CM_TRY(copy_m(rw, q, m, first->out[0], &y));
    CM_TRY(cm_replace_uses(rw->cx, q->out[0], y->out[0]));
    cm_drop_if_dead(q);
    return CM_OK;
}

CM_PASS(move_qdq)
{
    CM_FOR_NODES (n, g) {
        if (rw->n_rewrites >= rw->limit)
            return CM_OK;
        if (n->n_out < 1 || !n->out[0] || !n->out[0]->n_uses)
            continue;
        if (cm_is(n, CM_OP_QUANTIZE_LINEAR))
            CM_TRY(hoist(rw, n));
        else if (keeps_some(n))
            CM_TRY(sink(rw, n));
    }
    return CM_OK;
}
