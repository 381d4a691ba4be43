/* crop_weights.c -- constants without the part that no shape reaches.
 *
 *     e = Gather(@places, Range(0, s, 1))         @places: f32[512, 8], so s is at most 512
 *     m = Slice(@mask, 0, s)                      @mask: bool[2048, 2048]
 *  becomes
 *     m = Slice(Slice(@mask, 0, 512), 0, s)       the inner one is folded
 *
 * Fires when a constant that nobody else reads is sliced forward from a number that is not negative to an end that is known to be
 * less than the constant has, whatever the shapes are (dims_from_constraints finds such bounds), and what goes is more
 * than a few bytes. Not with a step other than 1.
 *
 * needs: types, tracked elements    keeps: types, uses; constants are folded later
 * SPDX-License-Identifier: Apache-2.0
 */
#include "passes/match.h"

typedef struct {
    int n;
    int64_t axes[CM_MAX_RANK], ends[CM_MAX_RANK];
} crop;

/* Slices the n-th axis of its list up to something that is at most *most? */
static bool bounded(const cm_node *n, int i, int64_t *most)
{
    const cm_dim_table *t = n->network->dims;
    const cm_value *start = n->in[1], *end = n->in[2];
    int64_t starts[CM_MAX_RANK];
    int k;
    if (!cm_const_ints(start, starts, CM_MAX_RANK, &k) || i >= k || starts[i] < 0 || !end->elems ||
        i >= end->n_elems || !cm_dim_is_nonneg(t, end->elems[i]))
        return false;
    *most = cm_dim_most(t, end->elems[i]);
    return *most<INT64_MAX && * most> 0;
}

static bool find(const cm_node *n, crop *c)
{
    enum { WORTH = 256 };
    int64_t axes[CM_MAX_RANK], steps[CM_MAX_RANK], kept = 1, all = 1;
    int k = 0, n_steps = 0;
    c->n = 0;
    if (!cm_is(n, CM_OP_SLICE) || !n->out[0]->n_uses || !cm_is_const(n->in[0]) ||
        n->in[0]->constant->packed || !cm_sole_use(n->in[0]) || n->n_in < 4 ||
        !cm_const_ints(n->in[3], axes, CM_MAX_RANK, &k))
        return false;
    if (n->n_in > 4 && n->in[4] && !cm_const_ints(n->in[4], steps, CM_MAX_RANK, &n_steps))
        return false;
    const cm_tensor *t = n->in[0]->constant;
    for (int i = 0; i < k; i++) {
        int64_t axis = axes[i] < 0 ? axes[i] + t->rank : axes[i], most;
        if ((n_steps && steps[i] != 1) || axis < 0 || axis >= t->rank || !bounded(n, i, &most) ||
            most >= t->dims[axis])
            continue;
        c->axes[c->n] = axis;
        c->ends[c->n++] = most;
        kept *= most;
        all *= t->dims[axis];
    }
    int64_t bytes = cm_tensor_elems(t) * (int64_t)cm_dtype_size(t->dtype);
    return c->n && bytes - bytes / all * kept >= WORTH;
}

static cm_status rewrite(cm_rewriter *rw, cm_node *n, const crop *c)
{
    int64_t zeros[CM_MAX_RANK] = {0}, k = c->n;
    cm_value *in[4] = {n->in[0]};
    cm_node *cut;
    CM_TRY(cm_make_const_i64(rw->cx, n->network, NULL, 1, &k, zeros, &in[1]));
    CM_TRY(cm_make_const_i64(rw->cx, n->network, NULL, 1, &k, c->ends, &in[2]));
    CM_TRY(cm_make_const_i64(rw->cx, n->network, NULL, 1, &k, c->axes, &in[3]));
    CM_TRY(cm_make(rw, n, CM_OP_SLICE, n, in, 4, 1, &cut));
    return cm_node_set_input(rw->cx, n, 0, cut->out[0]);
}

CM_PASS(crop_weights)
{
    CM_FOR_NODES (n, g) {
        crop c;
        if (!find(n, &c))
            continue;
        if (!cm_rewrite(rw, n))
            return CM_OK;
        CM_TRY(rewrite(rw, n, &c));
        CM_TRY(cm_node_infer(rw->cx, n));
    }
    return CM_OK;
}
