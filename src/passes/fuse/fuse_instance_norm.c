/* fuse_instance_norm.c -- InstanceNormalization from its pieces.
 *
 *     m = ReduceMean(x, [2,3])
 *     c = Sub(x, m)
 *     ...                        as in fuse_layer_norm
 *     g = Mul(d, @gamma)         gamma: f32[C,1,1]
 *     y = Add(g, @beta)
 *  becomes
 *     y = InstanceNormalization(x, @gamma, @beta)
 *
 * Over all axes from the third on, scale or bias one number a channel and constant. Not when input and result
 * differ in element type.
 *
 * needs: types, uses    keeps: types, uses
 * numerics: the pieces are not rounded to the element type
 * SPDX-License-Identifier: Apache-2.0
 */
#include "passes/norm_match.h"

/* A constant that has one number a channel. */
static bool fits(const cm_norm *n, const cm_value *v)
{
    int rank = cm_rank(n->x), k = cm_rank(v);
    if (!cm_is_const(v) || k < rank - 1 || k > rank)
        return false;
    for (int i = 1; i <= k; i++)
        if (v->type.dims[k - i] != (rank - i == 1 ? n->x->type.dims[1] : 1))
            return false;
    return true;
}

static cm_status channel_parameter(cm_rewriter *rw, cm_network *g, const char *name, cm_value *v,
                                   double absent, cm_dtype dtype, int64_t channels, cm_value **out)
{
    const double *from;
    double *one;
    int64_t n = channels;
    CM_NEW_N(rw->cx, rw->cx->scratch, one, channels, double);
    for (int64_t i = 0; i < channels; i++)
        one[i] = absent;
    if (v)
        CM_TRY(cm_const_f64(rw->cx, v, &from, &n));
    return cm_make_const_f64(rw->cx, g, name, dtype, 1, &channels, v ? from : one, out);
}

static cm_status visit(cm_rewriter *rw, cm_node *d)
{
    cm_norm n;
    if (!cm_match_norm(d, &n) || !n.is_centred)
        return CM_OK;
    int rank = cm_rank(n.x);
    if (rank < 3 || cm_last_axes(&n.stats, rank) != 2 || !cm_dim_is_size(n.x->type.dims[1]))
        return CM_OK;
    if ((n.scale && !fits(&n, n.scale)) || (n.bias && !fits(&n, n.bias)))
        return CM_OK;
    cm_norm_follow(&n, d->out[0], cm_only_reader(d->out[0]), fits);
    if (!n.scale && !n.bias)
        return CM_OK; /* a layer normalisation does as well */
    cm_dtype dtype = n.last->out[0]->type.dtype;
    if (n.x->type.dtype != dtype) {
        cm_near(rw, d, "InstanceNorm not fused: input and result differ in element type");
        return CM_OK;
    }
    if (!cm_rewrite(rw, n.last))
        return CM_OK;
    cm_value *in[3] = {n.x};
    cm_network *g = d->network;
    void *attr;
    CM_TRY(channel_parameter(rw, g, "scale", n.scale, 1, dtype, n.x->type.dims[1], &in[1]));
    CM_TRY(channel_parameter(rw, g, "bias", n.bias, 0, dtype, n.x->type.dims[1], &in[2]));
    CM_TRY(cm_new_attr(rw->cx, g, CM_OP_INSTANCE_NORMALIZATION, &attr));
    CM_TRY(cm_attr_put_float(rw->cx, CM_OP_INSTANCE_NORMALIZATION, attr, "epsilon", n.epsilon));
    return cm_form_replace(rw, &n.stats.form, n.last, CM_OP_INSTANCE_NORMALIZATION, attr, in, 3);
}

CM_PASS(fuse_instance_norm)
{
    cm_number_nodes(g);
    CM_FOR_NODES (n, g) {
        if (n->n_out == 1 && n->out[0] && n->out[0]->n_uses)
            CM_TRY(visit(rw, n));
        if (rw->n_rewrites >= rw->limit)
            return CM_OK;
    }
    return CM_OK;
}
