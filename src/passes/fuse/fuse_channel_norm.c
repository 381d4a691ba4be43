/* fuse_channel_norm.c -- LayerNormalization over one axis that is not the last.
 *
 *     m = ReduceMean(x, 1)
 *     c = Sub(x, m)
 *     ...                        as in fuse_layer_norm
 *     g = Mul(d, @gamma)         gamma: f32[C,1,1]
 *     y = Add(g, @beta)
 *  becomes
 *     t = Transpose(x) {perm=[0,2,3,1]}
 *     n = LayerNormalization(t, @gamma, @beta)
 *     y = Transpose(n) {perm=[0,3,1,2]}
 *
 * The channels of an image that is stored channels first. Scale and bias are constants with one number a channel,
 * or absent; the number of channels is known. Not over several axes.
 *
 * needs: types, uses, fuse_instance_norm, fuse_layer_norm    keeps: types, uses
 * numerics: the pieces are not rounded to the element type
 * SPDX-License-Identifier: Apache-2.0
 */
#include "passes/norm_match.h"

/* A constant that is as long as the normalised axis, and 1 in all others. */
static bool fits(const cm_norm *n, const cm_value *v)
{
    int rank = cm_rank(n->x), k = cm_rank(v), axis = cm_one_axis(&n->stats);
    if (!cm_is_const(v) || k < rank - axis || k > rank)
        return false;
    for (int i = 1; i <= k; i++)
        if (v->type.dims[k - i] != (rank - i == axis ? n->x->type.dims[axis] : 1))
            return false;
    return true;
}

static cm_status channel_constant(cm_rewriter *rw, const cm_norm *n, const char *name,
                                  const cm_value *v, double absent, cm_value **out)
{
    int64_t channels = n->x->type.dims[cm_one_axis(&n->stats)], k;
    const double *given;
    double *all;
    CM_NEW_N(rw->cx, rw->cx->scratch, all, channels, double);
    for (int64_t i = 0; i < channels; i++)
        all[i] = absent;
    if (v)
        CM_TRY(cm_const_f64(rw->cx, v, &given, &k));
    return cm_make_const_f64(rw->cx, n->last->network, name, n->last->out[0]->type.dtype, 1,
                             &channels, v ? given : all, out);
}

static cm_status transposed(cm_rewriter *rw, cm_node *before, const int64_t *perm, cm_value *x,
                            cm_value **out)
{
    cm_node *n;
    void *attr;
    CM_TRY(cm_new_attr(rw->cx, before->network, CM_OP_TRANSPOSE, &attr));
    CM_TRY(
        cm_attr_put_ints(rw->cx, before->network, CM_OP_TRANSPOSE, attr, "perm", perm, cm_rank(x)));
    CM_TRY(cm_make_with(rw, before, CM_OP_TRANSPOSE, attr, before, &x, 1, 1, &n));
    n->mark = before->mark;
    *out = n->out[0];
    return CM_OK;
}

static cm_status make(cm_rewriter *rw, cm_norm *n)
{
    int rank = cm_rank(n->x), axis = cm_one_axis(&n->stats), k = 0;
    int64_t there[CM_MAX_RANK], back[CM_MAX_RANK];
    cm_op_id op = CM_OP_LAYER_NORMALIZATION;
    cm_value *in[3] = {NULL};
    cm_node *norm;
    void *attr;
    for (int a = 0; a < rank; a++)
        if (a != axis)
            there[k++] = a;
    there[k] = axis;
    for (int a = 0; a < rank; a++)
        back[there[a]] = a;
    CM_TRY(transposed(rw, n->last, there, n->x, &in[0]));
    CM_TRY(channel_constant(rw, n, "scale", n->scale, 1, &in[1]));
    if (n->bias)
        CM_TRY(channel_constant(rw, n, "bias", n->bias, 0, &in[2]));
    CM_TRY(cm_new_attr(rw->cx, n->last->network, op, &attr));
    CM_TRY(cm_attr_put_float(rw->cx, op, attr, "epsilon", n->epsilon));
    CM_TRY(cm_make_with(rw, n->last, op, attr, n->last, in, in[2] ? 3 : 2, 1, &norm));
    norm->mark = n->last->mark;
    for (int i = 0; i < n->stats.form.n_nodes; i++)
        CM_TRY(cm_node_add_from(rw->cx, norm, n->stats.form.node[i]));
    CM_TRY(transposed(rw, n->last, back, norm->out[0], &in[0]));
    return cm_replace(rw, n->last, in[0], norm);
}

CM_PASS(fuse_channel_norm)
{
    cm_number_nodes(g);
    CM_FOR_NODES (d, g) {
        cm_norm n;
        if (d->n_out != 1 || !d->out[0] || !d->out[0]->n_uses || !cm_match_norm(d, &n) ||
            !n.is_centred)
            continue;
        int axis = cm_one_axis(&n.stats);
        if (axis < 0 || axis == cm_rank(n.x) - 1 || !cm_dim_is_size(n.x->type.dims[axis]) ||
            (n.scale && !fits(&n, n.scale)) || (n.bias && !fits(&n, n.bias)))
            continue;
        cm_norm_follow(&n, d->out[0], cm_only_reader(d->out[0]), fits);
        if (!cm_rewrite(rw, n.last))
            return CM_OK;
        CM_TRY(make(rw, &n));
    }
    return CM_OK;
}
