/* conv_forms.c -- a convolution along one axis is written with one.
 *
 *     a = Unsqueeze(x, @2)                      x: f32[n,8,len]
 *     c = Conv(a, @w) {pads=[0,1,0,1]}          w: f32[16,8,1,3]
 *     y = Squeeze(c, @2)
 *  becomes
 *     y = Conv(x, @w') {pads=[1,1]}             w': f32[16,8,3]
 *
 * Constant weights of size 1 along the added axis, no padding there, and nobody else reads the result before that axis
 * goes again.
 *
 * needs: types, uses, explicit pads    keeps: types, uses
 * SPDX-License-Identifier: Apache-2.0
 */
#include "passes/views.h"

/* The axis, 2 or 3, where `wide` has a 1 that `narrow` has not; 0: none. */
static int added_axis(const cm_value *narrow, const cm_value *wide)
{
    if (cm_rank(narrow) != 3 || cm_rank(wide) != 4)
        return 0;
    const cm_dim *n = narrow->type.dims, *w = wide->type.dims;
    if (n[0] != w[0] || n[1] != w[1])
        return 0;
    return w[2] == 1 && w[3] == n[2] ? 2 : w[3] == 1 && w[2] == n[2] ? 3 : 0;
}

/* The axis to leave out of the convolution, or 0. */
static int idle_axis(const cm_node *conv)
{
    const cm_node *before = conv->in[0]->producer, *after = cm_only_reader(conv->out[0]);
    const cm_value *w = conv->in[1];
    if (!cm_is_view(before) || !cm_is_view(after) || before->network != conv->network ||
        !cm_is_const(w) || cm_rank(w) != 4 || !cm_string_is(conv, "auto_pad", "NOTSET"))
        return 0;
    int axis = added_axis(before->in[0], conv->in[0]);
    cm_ints pads = cm_int_list(conv, "pads");
    if (!axis || added_axis(after->out[0], conv->out[0]) != axis || w->type.dims[axis] != 1 ||
        (pads.n && (pads.v[axis - 2] || pads.v[axis])))
        return 0;
    return axis;
}

/* List `name` without the entries of the idle axis. */
static cm_status shorten(cm_rewriter *rw, const cm_node *conv, void *attr, const char *name,
                         int axis)
{
    cm_ints v = cm_int_list(conv, name);
    int64_t kept[2];
    int n = 0;
    for (int i = 0; i < v.n && i < 4; i++)
        if (i % 2 != axis - 2)
            kept[n++] = v.v[i];
    return n ? cm_attr_put_ints(rw->cx, conv->network, CM_OP_CONV, attr, name, kept, n) : CM_OK;
}

static cm_status rewrite(cm_rewriter *rw, cm_node *conv, int axis)
{
    static const char *const lists[] = {"dilations", "kernel_shape", "pads", "strides"};
    cm_node *before = conv->in[0]->producer, *after = cm_only_reader(conv->out[0]), *w, *y;
    const cm_dim *d = conv->in[1]->type.dims;
    int64_t shape[3] = {d[0], d[1], d[axis == 2 ? 3 : 2]};
    void *attr;
    CM_TRY(cm_new_attr(rw->cx, conv->network, CM_OP_CONV, &attr));
    CM_TRY(cm_attr_put_int(rw->cx, CM_OP_CONV, attr, "group", cm_int(conv, "group")));
    for (int i = 0; i < CM_COUNT(lists); i++)
        CM_TRY(shorten(rw, conv, attr, lists[i], axis));
    CM_TRY(cm_make_reshape(rw, conv, conv->in[1], shape, 3, conv, &w));
    cm_value *in[3] = {before->in[0], w->out[0], conv->n_in > 2 ? conv->in[2] : NULL};
    CM_TRY(cm_make_with(rw, conv, CM_OP_CONV, attr, conv, in, conv->n_in, 1, &y));
    return cm_replace(rw, after, y->out[0], y);
}

CM_PASS(conv_forms)
{
    CM_FOR_NODES (n, g) {
        cm_node *after = cm_is(n, CM_OP_CONV) ? cm_only_reader(n->out[0]) : NULL;
        int axis = after && after->n_out && after->out[0]->n_uses ? idle_axis(n) : 0;
        if (!axis)
            continue;
        if (!cm_rewrite(rw, n))
            return CM_OK;
        CM_TRY(rewrite(rw, n, axis));
    }
    return CM_OK;
}
