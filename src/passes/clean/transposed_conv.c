/* transposed_conv.c -- a transposed convolution of stride 1 is a plain one.
 *
 *     y = ConvTranspose(x, @w, b) {pads=[0,0]}            w: f32[8,4,3]
 *  becomes
 *     t = Transpose(@w) {perm=[1,0,2]}
 *     f = Slice(t) [::-1] of the last axis                f: f32[4,8,3]
 *     y = Conv(x, f, b) {pads=[2,2]}
 *
 * whose weights are folded. In groups, each group's are transposed. Fires when the weights are constant and there are some, padding is in
 * numbers and no more than the window reaches.
 *
 * numerics: the sums are the same, in another order.
 * needs: types, uses    keeps: types, uses
 * SPDX-License-Identifier: Apache-2.0
 */
#include "passes/transposes.h"
#include "passes/views.h"

static int64_t entry(const cm_node *n, const char *name, int i, int64_t otherwise)
{
    cm_ints v = cm_int_list(n, name);
    return i < v.n ? v.v[i] : otherwise;
}

/* The pads of the plain convolution. */
static bool find(const cm_node *n, int64_t *pads)
{
    int64_t w[CM_MAX_RANK];
    if (!cm_is(n, CM_OP_CONV_TRANSPOSE) || !n->out[0]->n_uses || !cm_is_const(n->in[1]) ||
        !cm_static_shape(n->in[1], w) || cm_volume(n->in[1]) == 0 ||
        cm_int_list(n, "output_shape").n || !cm_string_is(n, "auto_pad", "NOTSET"))
        return false;
    int spatial = cm_rank(n->in[1]) - 2;
    if (spatial < 1 || 2 * spatial > CM_MAX_RANK || spatial + 3 > CM_MAX_RANK)
        return false;
    for (int i = 0; i < spatial; i++) {
        int64_t reach = (w[i + 2] - 1) * entry(n, "dilations", i, 1);
        pads[i] = reach - entry(n, "pads", i, 0);
        pads[spatial + i] =
            reach - entry(n, "pads", spatial + i, 0) + entry(n, "output_padding", i, 0);
        if (entry(n, "strides", i, 1) != 1 || pads[i] < 0 || pads[spatial + i] < 0)
            return false;
    }
    return true;
}

/* [group * in, out, ...] as [group * out, in, ...]. */
static cm_status swap_channels(cm_rewriter *rw, cm_node *n, const int64_t *w, int rank,
                               cm_value **out)
{
    int64_t group = cm_int(n, "group"), perm[CM_MAX_RANK], shape[CM_MAX_RANK];
    cm_node *split, *turned, *joined;
    shape[0] = group;
    shape[1] = w[0] / group;
    for (int i = 1; i < rank; i++)
        shape[i + 1] = w[i];
    for (int i = 0; i <= rank; i++)
        perm[i] = i == 1 ? 2 : i == 2 ? 1 : i;
    CM_TRY(cm_make_reshape(rw, n, n->in[1], shape, rank + 1, n, &split));
    CM_TRY(cm_make_transpose(rw, n, split->out[0], perm, rank + 1, n, &turned));
    shape[0] = group * w[1];
    shape[1] = w[0] / group;
    for (int i = 2; i < rank; i++)
        shape[i] = w[i];
    CM_TRY(cm_make_reshape(rw, n, turned->out[0], shape, rank, n, &joined));
    *out = joined->out[0];
    return CM_OK;
}

/* Every spatial axis from its end. */
static cm_status reverse(cm_rewriter *rw, cm_node *n, int rank, cm_value **v)
{
    int64_t starts[CM_MAX_RANK], ends[CM_MAX_RANK], axes[CM_MAX_RANK], steps[CM_MAX_RANK];
    int64_t k = rank - 2;
    cm_value *in[5] = {*v};
    cm_node *m;
    for (int i = 0; i < k; i++) {
        starts[i] = steps[i] = -1;
        ends[i] = INT64_MIN;
        axes[i] = i + 2;
    }
    CM_TRY(cm_make_const_i64(rw->cx, n->network, NULL, 1, &k, starts, &in[1]));
    CM_TRY(cm_make_const_i64(rw->cx, n->network, NULL, 1, &k, ends, &in[2]));
    CM_TRY(cm_make_const_i64(rw->cx, n->network, NULL, 1, &k, axes, &in[3]));
    CM_TRY(cm_make_const_i64(rw->cx, n->network, NULL, 1, &k, steps, &in[4]));
    CM_TRY(cm_make(rw, n, CM_OP_SLICE, n, in, 5, 1, &m));
    *v = m->out[0];
    return CM_OK;
}

static cm_status rewrite(cm_rewriter *rw, cm_node *n, const int64_t *pads)
{
    int rank = cm_rank(n->in[1]);
    int64_t w[CM_MAX_RANK];
    cm_ints dilations = cm_int_list(n, "dilations");
    cm_value *weights;
    cm_node *y;
    void *attr;
    (void)cm_static_shape(n->in[1], w);
    CM_TRY(swap_channels(rw, n, w, rank, &weights));
    CM_TRY(reverse(rw, n, rank, &weights));
    CM_TRY(cm_new_attr(rw->cx, n->network, CM_OP_CONV, &attr));
    if (cm_int(n, "group") != 1)
        CM_TRY(cm_attr_put_int(rw->cx, CM_OP_CONV, attr, "group", cm_int(n, "group")));
    CM_TRY(cm_attr_put_ints(rw->cx, n->network, CM_OP_CONV, attr, "pads", pads, 2 * (rank - 2)));
    if (dilations.n)
        CM_TRY(cm_attr_put_ints(rw->cx, n->network, CM_OP_CONV, attr, "dilations", dilations.v,
                                (int)dilations.n));
    cm_value *in[3] = {n->in[0], weights, n->n_in > 2 ? n->in[2] : NULL};
    CM_TRY(cm_make_with(rw, n, CM_OP_CONV, attr, n, in, n->n_in, 1, &y));
    return cm_replace(rw, n, y->out[0], NULL);
}

CM_PASS(transposed_conv)
{
    CM_FOR_NODES (n, g) {
        int64_t pads[CM_MAX_RANK];
        if (!find(n, pads))
            continue;
        if (!cm_rewrite(rw, n))
            return CM_OK;
        CM_TRY(rewrite(rw, n, pads));
        cm_drop_if_dead(n);
    }
    return CM_OK;
}
