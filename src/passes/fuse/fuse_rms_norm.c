/* fuse_rms_norm.c -- RMSNormalization from its pieces.
 *
 *     p = Pow(x, 2)
 *     m = ReduceMean(p, -1)
 *     e = Add(m, 1e-6)
 *     s = Sqrt(e)
 *     r = Reciprocal(s)
 *     d = Mul(x, r)
 *     y = Mul(@w, d)
 *  becomes
 *     y = RMSNormalization(x, @w)
 *
 * As fuse_layer_norm, with the mean square in the place of the variance: what is normalised may be half
 * precision and the statistics single. SimplifiedLayerNormalization is the same thing under another name.
 *
 * needs: types, uses, fuse_layer_norm    keeps: types, uses
 * numerics: the pieces are not rounded to the element type
 * SPDX-License-Identifier: Apache-2.0
 */
#include "passes/norm_match.h"

static bool fits(const cm_norm *n, const cm_value *v)
{
    int rank = cm_rank(n->x), k = cm_rank(v), from = cm_last_axes(&n->stats, rank);
    if (k < rank - from || k > rank || (k != rank - from && !cm_is_const(v)))
        return false;
    for (int i = 1; i <= k; i++)
        if (v->type.dims[k - i] != (rank - i < from ? 1 : n->x->type.dims[rank - i]))
            return false;
    return cm_volume(v) != 1;
}

static cm_status make(cm_rewriter *rw, cm_norm *n)
{
    int rank = cm_rank(n->x), from = cm_last_axes(&n->stats, rank), k = 0;
    int64_t dims[CM_MAX_RANK] = {1};
    cm_network *g = n->last->network;
    cm_dtype dtype = n->last->out[0]->type.dtype;
    bool are_sizes_known = true;
    for (int i = from; i < rank; i++)
        are_sizes_known = are_sizes_known && cm_dim_is_size(n->x->type.dims[i]);
    for (int i = from; are_sizes_known && i < rank; i++)
        dims[k++] = n->x->type.dims[i];
    if (n->scale && n->scale->type.dtype != dtype && !(are_sizes_known && cm_is_const(n->scale))) {
        cm_near(rw, n->last, "RMSNorm not fused: its scale cannot be converted");
        return CM_OK;
    }
    if (!cm_rewrite(rw, n->last))
        return CM_OK;
    cm_value *in[2] = {n->x};
    void *attr;
    CM_TRY(cm_norm_parameter(rw, g, "scale", n->scale, 1, dtype, k ? k : 1, dims, &in[1]));
    CM_TRY(cm_new_attr(rw->cx, g, CM_OP_RMS_NORMALIZATION, &attr));
    if (from != rank - 1)
        CM_TRY(cm_attr_put_int(rw->cx, CM_OP_RMS_NORMALIZATION, attr, "axis", from - rank));
    CM_TRY(cm_attr_put_float(rw->cx, CM_OP_RMS_NORMALIZATION, attr, "epsilon", n->epsilon));
    return cm_form_replace(rw, &n->stats.form, n->last, CM_OP_RMS_NORMALIZATION, attr, in, 2);
}

static cm_status from_pieces(cm_rewriter *rw, cm_node *d)
{
    cm_norm n;
    if (!cm_match_norm(d, &n) || n.is_centred)
        return CM_OK;
    if (cm_last_axes(&n.stats, cm_rank(n.x)) < 0) {
        cm_near(rw, d, "RMSNorm not fused: the mean is not over the last axes");
        return CM_OK;
    }
    if (n.scale && !fits(&n, n.scale)) {
        cm_near(rw, d, "RMSNorm not fused: its scale does not span the normalised axes");
        return CM_OK;
    }
    n.has_no_bias = true;
    cm_norm_follow(&n, d->out[0], cm_only_reader(d->out[0]), fits);
    return make(rw, &n);
}

static cm_status from_row(cm_rewriter *rw, cm_node *n)
{
    cm_form f = {.n_nodes = 0};
    void *attr;
    if (!cm_one_output(n) || cm_rank(n->in[0]) < 0)
        return CM_OK;
    if (!cm_rewrite(rw, n))
        return CM_OK;
    CM_TRY(cm_new_attr(rw->cx, n->network, CM_OP_RMS_NORMALIZATION, &attr));
    if (cm_int(n, "axis") != -1)
        CM_TRY(cm_attr_put_int(rw->cx, CM_OP_RMS_NORMALIZATION, attr, "axis", cm_int(n, "axis")));
    CM_TRY(cm_attr_put_float(rw->cx, CM_OP_RMS_NORMALIZATION, attr, "epsilon",
                             cm_float(n, "epsilon")));
    return cm_form_replace(rw, &f, n, CM_OP_RMS_NORMALIZATION, attr, n->in, 2);
}

CM_PASS(fuse_rms_norm)
{
    cm_number_nodes(g);
    CM_FOR_NODES (n, g) {
        if (n->n_out < 1 || !n->out[0] || !n->out[0]->n_uses)
            continue;
        if (cm_is(n, CM_OP_SIMPLIFIED_LAYER_NORMALIZATION))
            CM_TRY(from_row(rw, n));
        else if (n->n_out == 1)
            CM_TRY(from_pieces(rw, n));
        if (rw->n_rewrites >= rw->limit)
            return CM_OK;
    }
    return CM_OK;
}
