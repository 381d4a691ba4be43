/* fuse_layer_norm.c -- LayerNormalization from its pieces.
 *
 *     m = ReduceMean(x, -1)
 *     c = Sub(x, m)
 *     p = Pow(c, 2)
 *     v = ReduceMean(p, -1)
 *     e = Add(v, 1e-5)
 *     s = Sqrt(e)
 *     d = Div(c, s)
 *     g = Mul(d, @gamma)
 *     y = Add(g, @beta)
 *  becomes
 *     y = LayerNormalization(x, @gamma, @beta)
 *
 * Over the last axis or the last few. Squares by Mul, Pow or ReduceSumSquare; means by sums; the variance as
 * mean(x^2) - mean(x)^2 too; the root by Sqrt or Pow, inverted or not; scale and mean multiplied out; Casts
 * anywhere; statistics with their axes dropped and put back. Without scale, bias or both. Several scales on
 * one normalised value make several nodes. Scale and bias span the normalised axes only. Not for other axes.
 *
 * needs: types, uses    keeps: types, uses
 * numerics: the pieces are not rounded to the element type
 * SPDX-License-Identifier: Apache-2.0
 */
#include "passes/norm_match.h"

/* Does v span the normalised axes, or is it a constant that can be repeated to do so? */
static bool fits(const cm_norm *n, const cm_value *v)
{
    int rank = cm_rank(n->x), k = cm_rank(v), from = cm_last_axes(&n->stats, rank);
    bool is_full = k == rank - from;
    if (k < 1 || k > rank || cm_volume(v) == 1) /* one number is no scale: see fuse_epilogue */
        return false;
    for (int i = 1; i <= k; i++) {
        cm_dim d = v->type.dims[k - i], of = n->x->type.dims[rank - i];
        if (d != 1 && (d != of || rank - i < from))
            return false;
        is_full = is_full && d == of;
    }
    return is_full || cm_is_const(v);
}

/* The normalised sizes; false where one is not a number. */
static bool sizes(const cm_norm *n, int from, int *rank, int64_t *dims)
{
    *rank = cm_rank(n->x) - from;
    for (int i = 0; i < *rank; i++) {
        if (!cm_dim_is_size(n->x->type.dims[from + i]))
            return false;
        dims[i] = n->x->type.dims[from + i];
    }
    return true;
}

static bool usable(const cm_norm *n, const cm_value *v, bool are_sizes_known)
{
    if (!v)
        return true;
    return v->type.dtype == n->last->out[0]->type.dtype ? are_sizes_known || !cm_is_const(v)
                                                        : are_sizes_known && cm_is_const(v);
}

static cm_status make(cm_rewriter *rw, cm_norm *n)
{
    int from = cm_last_axes(&n->stats, cm_rank(n->x)), rank;
    int64_t dims[CM_MAX_RANK];
    cm_network *g = n->last->network;
    cm_dtype dtype = n->last->out[0]->type.dtype;
    cm_value *in[3] = {n->x};
    void *attr;
    bool are_sizes_known = sizes(n, from, &rank, dims);
    if (!are_sizes_known) {
        rank = 1;
        dims[0] = 1;
    }
    if (!usable(n, n->scale, are_sizes_known) || !usable(n, n->bias, are_sizes_known)) {
        cm_near(rw, n->last, "LayerNorm not fused: its scale or bias cannot be converted");
        return CM_OK;
    }
    if (!cm_rewrite(rw, n->last))
        return CM_OK;
    CM_TRY(cm_norm_parameter(rw, g, "scale", n->scale, 1, dtype, rank, dims, &in[1]));
    if (n->bias)
        CM_TRY(cm_norm_parameter(rw, g, "bias", n->bias, 0, dtype, rank, dims, &in[2]));
    CM_TRY(cm_new_attr(rw->cx, g, CM_OP_LAYER_NORMALIZATION, &attr));
    if (from != cm_rank(n->x) - 1)
        CM_TRY(
            cm_attr_put_int(rw->cx, CM_OP_LAYER_NORMALIZATION, attr, "axis", from - cm_rank(n->x)));
    CM_TRY(cm_attr_put_float(rw->cx, CM_OP_LAYER_NORMALIZATION, attr, "epsilon", n->epsilon));
    return cm_form_replace(rw, &n->stats.form, n->last, CM_OP_LAYER_NORMALIZATION, attr, in,
                           in[2] ? 3 : 2);
}

/* Do several nodes read v, each to scale it? Then each gets a normalisation of its own. */
static bool scaled_by_all(const cm_norm *n, const cm_value *v)
{
    for (const cm_use *u = v->uses; u; u = u->next)
        if (!cm_is(u->node, CM_OP_MUL) || u->node->network != v->network ||
            u->node->in[0] == u->node->in[1] || !fits(n, u->node->in[1 - u->index]))
            return false;
    return v->n_uses > 1;
}

static cm_status visit(cm_rewriter *rw, cm_node *d)
{
    cm_norm whole;
    if (!cm_match_norm(d, &whole) || !whole.is_centred)
        return CM_OK;
    if (cm_last_axes(&whole.stats, cm_rank(whole.x)) < 0) {
        if (cm_one_axis(&whole.stats) < 0)
            cm_near(rw, d, "LayerNorm not fused: the mean is not over the last axes");
        return CM_OK;
    }
    if ((whole.scale && !fits(&whole, whole.scale)) || (whole.bias && !fits(&whole, whole.bias))) {
        cm_near(rw, d, "LayerNorm not fused: scale or bias do not span the normalised axes");
        return CM_OK;
    }
    if (!scaled_by_all(&whole, d->out[0])) {
        cm_norm_follow(&whole, d->out[0], cm_only_reader(d->out[0]), fits);
        return make(rw, &whole);
    }
    cm_node **readers;
    int n = 0;
    CM_NEW_N(rw->cx, rw->cx->scratch, readers, d->out[0]->n_uses, cm_node *);
    for (const cm_use *u = d->out[0]->uses; u; u = u->next)
        readers[n++] = u->node;
    for (int i = 0; i < n; i++) {
        cm_norm one = whole;
        cm_norm_follow(&one, d->out[0], readers[i], fits);
        CM_TRY(make(rw, &one));
    }
    return CM_OK;
}

CM_PASS(fuse_layer_norm)
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
