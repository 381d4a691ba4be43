/* hoist_invariants.c -- what an iteration computes from nothing of its own is computed once, before.
 *
 *     y = Loop(n, _, x) do ... t = Exp(k) u = Add(c, t) return go, u end       k from outside
 *  becomes
 *     t = Exp(k)
 *     y = Loop(n, _, x) do ... u = Add(c, t) return go, u end
 *
 * For bodies of Loop and Scan: pure nodes all of whose inputs are constants or captured. The loop may run
 * never, so only nodes that cannot fail move, unless it surely runs: no division of integers, no index, and
 * shapes that fit whatever the symbols are.
 *
 * needs: types, uses    keeps: types, uses
 * SPDX-License-Identifier: Apache-2.0
 */
#include "ir/clone.h"
#include "passes/loops.h"

static bool is_static(const cm_value *v)
{
    int64_t dims[CM_MAX_RANK];
    return v && v->type.kind == CM_TENSOR && cm_static_shape(v, dims);
}

/* Do the shapes of all inputs broadcast, whatever the symbols are? */
static bool surely_broadcast(const cm_node *n)
{
    for (int i = 0; i < n->n_in; i++) {
        const cm_value *a = n->in[i], *out = n->out[0];
        if (!a)
            continue;
        if (cm_rank(a) < 0 || cm_rank(out) < cm_rank(a))
            return false;
        int shift = out->type.rank - a->type.rank;
        for (int k = 0; k < a->type.rank; k++)
            if (a->type.dims[k] != 1 && a->type.dims[k] != out->type.dims[k + shift])
                return false;
    }
    return true;
}

static bool shapes_fit(const cm_node *n)
{
    bool all_static = true;
    for (int i = 0; i < n->n_in; i++)
        all_static &= !n->in[i] || is_static(n->in[i]);
    return all_static || ((n->op->traits & CM_ELTWISE) && surely_broadcast(n));
}

/* Nothing in the data can make n fail? */
static bool takes_any_data(const cm_node *n)
{
    if (n->in[0] && n->in[0]->type.dtype == CM_STR)
        return false;
    switch (n->op->id) {
    case CM_OP_DIV:
    case CM_OP_MOD:
    case CM_OP_POW:
        return cm_is_float(n->in[0]);
    case CM_OP_CAST:
        return n->out[0]->type.dtype != CM_STR;
    case CM_OP_MATMUL:
    case CM_OP_GEMM:
    case CM_OP_CONV:
    case CM_OP_TRANSPOSE:
    case CM_OP_SOFTMAX:
    case CM_OP_LAYER_NORMALIZATION:
    case CM_OP_CONCAT:
    case CM_OP_SHAPE:
    case CM_OP_SIZE:
        return true;
    case CM_OP_RESHAPE:
    case CM_OP_UNSQUEEZE:
    case CM_OP_SQUEEZE:
    case CM_OP_EXPAND:
        return n->n_in > 1 && cm_is_const(n->in[1]);
    default:
        return n->op->traits & CM_ELTWISE;
    }
}

static bool surely_runs(const cm_node *loop)
{
    int64_t trips;
    if (loop->op->id == CM_OP_SCAN)
        return cm_scan_trips(loop, &trips) && trips > 0;
    return cm_loop_trips(loop, &trips) && trips > 0;
}

static bool is_invariant(const cm_node *n, const cm_network *body)
{
    if (!(n->op->traits & CM_PURE) || n->n_subs || !n->n_in || n->n_out < 1 || !n->out[0])
        return false;
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] && !n->in[i]->constant && !cm_value_is_captured_by(n->in[i], body))
            return false;
    for (int o = 0; o < n->n_out; o++)
        if (n->out[o] && n->out[o]->n_uses)
            return true;
    return false;
}

CM_PASS(hoist_invariants)
{
    cm_node *loop = g->owner;
    if (!loop || (loop->op->id != CM_OP_LOOP && loop->op->id != CM_OP_SCAN))
        return CM_OK;
    bool runs = surely_runs(loop);
    cm_renaming r;
    cm_renaming_init(&r, rw->cx->scratch, g);
    CM_FOR_NODES (n, g) {
        cm_node *out;
        if (!is_invariant(n, g) || (!runs && (!takes_any_data(n) || !shapes_fit(n))))
            continue;
        if (!cm_rewrite(rw, n))
            return CM_OK;
        CM_TRY(cm_node_clone(rw->cx, &r, n, g->outer, loop, &out));
        for (int o = 0; o < n->n_out; o++)
            if (n->out[o])
                CM_TRY(cm_replace_uses(rw->cx, n->out[o], out->out[o]));
        cm_node_remove(n);
    }
    return CM_OK;
}
