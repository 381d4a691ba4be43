/* fuse_group_norm.c -- GroupNormalization from a normalisation of reshaped groups.
 *
 *     r = Reshape(x, [N, 8, -1])
 *     i = InstanceNormalization(r, @ones, @zeros)
 *     b = Reshape(i, Shape(x))
 *     m = Mul(b, @gamma)                     gamma: f32[C,1,1]
 *     y = Add(m, @beta)
 *  becomes
 *     y = GroupNormalization(x, @gamma, @beta) {num_groups=8}
 *
 * The groups lie in axis 1 of what is normalised, axis 0 stays, and the second Reshape gives x's shape. A
 * LayerNormalization of the axes from 2 on without a scale is as good. Scale and bias are constants with one
 * number a channel; without them, ones and zeros. Not when the number of channels is unknown, or what is
 * normalised has scales of its own.
 *
 * needs: types, uses, fuse_instance_norm, fuse_layer_norm    keeps: types, uses
 * numerics: the pieces are not rounded to the element type
 * SPDX-License-Identifier: Apache-2.0
 */
#include "passes/forms.h"

typedef struct {
    cm_form form;
    cm_value *x;
    cm_value *scale, *bias; /* NULL: none */
    int64_t channels, groups;
    double epsilon;
    cm_node *last;
} group_norm;

/* A normalisation of rows in axis 1 that scales nothing. */
static bool plain_norm(const cm_node *n, double *epsilon)
{
    int rank = n ? cm_rank(n->in[0]) : 0;
    bool is_instance = cm_is(n, CM_OP_INSTANCE_NORMALIZATION);
    if (rank < 3 || !(is_instance || cm_is(n, CM_OP_LAYER_NORMALIZATION)) || !cm_one_output(n))
        return false;
    if (!is_instance) {
        int64_t axis = cm_int(n, "axis");
        if ((axis < 0 ? axis + rank : axis) != 2)
            return false;
    }
    *epsilon = cm_float(n, "epsilon");
    return cm_is_number(n->in[1], 1, 0) && (n->n_in < 3 || cm_is_number(n->in[2], 0, 0)) &&
           n->in[0]->type.dtype == n->out[0]->type.dtype;
}

/* One number a channel, constant. */
static bool is_per_channel(const group_norm *n, const cm_value *v)
{
    int rank = cm_rank(n->x), k = cm_rank(v);
    if (!cm_is_const(v) || k < rank - 1 || k > rank || cm_volume(v) != n->channels)
        return false;
    return v->type.dims[k - rank + 1] == n->channels;
}

static void follow(group_norm *n)
{
    cm_value *v = n->last->out[0], *other;
    cm_node *r = cm_only_reader(v);
    if (cm_is(r, CM_OP_MUL) && is_per_channel(n, other = r->in[r->in[0] == v])) {
        cm_note(&n->form, r);
        n->scale = other;
        n->last = r;
        v = r->out[0];
        r = cm_only_reader(v);
    }
    if (cm_is(r, CM_OP_ADD) && is_per_channel(n, other = r->in[r->in[0] == v])) {
        cm_note(&n->form, r);
        n->bias = other;
        n->last = r;
    }
}

static bool match(cm_rewriter *rw, cm_node *back, group_norm *n)
{
    const cm_node *norm = cm_maker(back->in[0]);
    *n = (group_norm){.last = back};
    if (!plain_norm(norm, &n->epsilon))
        return false;
    const cm_node *split = cm_made_by(norm->in[0], CM_OP_RESHAPE);
    if (!split)
        return false;
    const cm_type *x = &split->in[0]->type, *rows = &norm->in[0]->type;
    if (!cm_same_shape(split->in[0], back->out[0]) || x->rank < 2 || !cm_dim_is_size(x->dims[1]) ||
        !cm_dim_is_size(rows->dims[1]) || rows->dims[1] < 1) {
        cm_near(rw, back, "GroupNorm not fused: channels or groups are not numbers");
        return false;
    }
    n->x = split->in[0];
    n->channels = x->dims[1];
    n->groups = rows->dims[1];
    if (x->dims[0] != rows->dims[0] || n->channels < 1 || n->channels % n->groups != 0) {
        cm_near(rw, back, "GroupNorm not fused: %lld groups of %lld channels, or batches differ",
                (long long)n->groups, (long long)n->channels);
        return false;
    }
    cm_note(&n->form, split);
    cm_note(&n->form, norm);
    cm_note(&n->form, back);
    follow(n);
    return true;
}

static cm_status parameter(cm_rewriter *rw, const group_norm *n, const char *name,
                           const cm_value *v, double absent, cm_value **out)
{
    const double *given;
    double *all;
    int64_t k;
    CM_NEW_N(rw->cx, rw->cx->scratch, all, n->channels, double);
    for (int64_t i = 0; i < n->channels; i++)
        all[i] = absent;
    if (v)
        CM_TRY(cm_const_f64(rw->cx, v, &given, &k));
    return cm_make_const_f64(rw->cx, n->last->network, name, n->x->type.dtype, 1, &n->channels,
                             v ? given : all, out);
}

static cm_status make(cm_rewriter *rw, group_norm *n)
{
    cm_op_id op = CM_OP_GROUP_NORMALIZATION;
    cm_value *in[3] = {n->x};
    void *attr;
    CM_TRY(parameter(rw, n, "scale", n->scale, 1, &in[1]));
    CM_TRY(parameter(rw, n, "bias", n->bias, 0, &in[2]));
    CM_TRY(cm_new_attr(rw->cx, n->last->network, op, &attr));
    CM_TRY(cm_attr_put_int(rw->cx, op, attr, "num_groups", n->groups));
    CM_TRY(cm_attr_put_float(rw->cx, op, attr, "epsilon", n->epsilon));
    return cm_form_replace(rw, &n->form, n->last, op, attr, in, 3);
}

CM_PASS(fuse_group_norm)
{
    cm_number_nodes(g);
    CM_FOR_NODES (n, g) {
        group_norm m;
        if (!cm_is(n, CM_OP_RESHAPE) || !n->out[0]->n_uses || !match(rw, n, &m))
            continue;
        if (!cm_rewrite(rw, m.last))
            return CM_OK;
        CM_TRY(make(rw, &m));
    }
    return CM_OK;
}
