/* transposed_blocks.c -- a transposed convolution whose windows stand side by side is one of points, and a move.
 *
 *     y = ConvTranspose(x, @w, b) {strides=[2,2]}         x: f32[n,8,h,w]  w: f32[8,4,2,2]
 *  becomes
 *     p = Conv(x, f, c)                                   f: f32[16,8,1,1]  c: f32[16]
 *     y = DepthToSpace(p) {blocksize=2, mode="CRD"}
 *
 * whose weights are folded: an output channel's pixels of a window are channels of p. Fires when the weights are constant, in one
 * group, windows are squares as large as the stride, nothing is padded, and a size is not known ahead: kernels for
 * transposed convolutions want to know them, and are faster where they do.
 *
 * numerics: the sums are the same
 * needs: types, uses    keeps: types, uses
 * SPDX-License-Identifier: Apache-2.0
 */
#include "passes/conv_match.h"
#include "passes/transposes.h"
#include "passes/views.h"

/* The side of a window, 0: not such a one. */
static int64_t side_of(const cm_node *n, int64_t *w)
{
    int64_t known[CM_MAX_RANK];
    if (!cm_is(n, CM_OP_CONV_TRANSPOSE) || !n->out[0]->n_uses || cm_rank(n->in[0]) != 4 ||
        !cm_is_const(n->in[1]) || cm_rank(n->in[1]) != 4 || !cm_static_shape(n->in[1], w) ||
        cm_volume(n->in[1]) == 0 || cm_int(n, "group") != 1 || cm_static_shape(n->in[0], known))
        return 0;
    cm_ints strides = cm_int_list(n, "strides");
    int64_t side = w[2];
    if (side < 2 || w[3] != side || strides.n != 2 || !cm_all_are(strides, side) ||
        !cm_all_are(cm_int_list(n, "pads"), 0) || !cm_all_are(cm_int_list(n, "dilations"), 1) ||
        !cm_all_are(cm_int_list(n, "output_padding"), 0) || cm_int_list(n, "output_shape").n ||
        !cm_string_is(n, "auto_pad", "NOTSET"))
        return 0;
    return side;
}

/* [in, out, y, x] as [out * y * x, in, 1, 1]. */
static cm_status point_weights(cm_rewriter *rw, cm_node *n, const int64_t *w, cm_value **out)
{
    static const int64_t perm[] = {1, 2, 3, 0};
    const int64_t shape[] = {w[1] * w[2] * w[3], w[0], 1, 1};
    cm_node *turned, *flat;
    CM_TRY(cm_make_transpose(rw, n, n->in[1], perm, 4, n, &turned));
    CM_TRY(cm_make_reshape(rw, n, turned->out[0], shape, 4, n, &flat));
    *out = flat->out[0];
    return CM_OK;
}

/* Each output channel's for all pixels of a window. */
static cm_status point_bias(cm_rewriter *rw, cm_node *n, const int64_t *w, cm_value **out)
{
    const int64_t column[] = {w[1], 1}, all[] = {w[1], w[2] * w[3]}, two = 2,
                  flat = all[0] * all[1];
    cm_node *up, *many, *joined;
    cm_value *shape;
    CM_TRY(cm_make_reshape(rw, n, n->in[2], column, 2, n, &up));
    CM_TRY(cm_make_const_i64(rw->cx, n->network, NULL, 1, &two, all, &shape));
    CM_TRY(cm_make(rw, n, CM_OP_EXPAND, n, (cm_value *[]){up->out[0], shape}, 2, 1, &many));
    CM_TRY(cm_make_reshape(rw, n, many->out[0], &flat, 1, n, &joined));
    *out = joined->out[0];
    return CM_OK;
}

static cm_status rewrite(cm_rewriter *rw, cm_node *n, const int64_t *w, int64_t side)
{
    bool biased = n->n_in > 2 && n->in[2];
    cm_value *in[3] = {n->in[0]};
    cm_node *points, *y;
    void *attr;
    CM_TRY(point_weights(rw, n, w, &in[1]));
    if (biased)
        CM_TRY(point_bias(rw, n, w, &in[2]));
    CM_TRY(cm_new_attr(rw->cx, n->network, CM_OP_CONV, &attr));
    CM_TRY(cm_make_with(rw, n, CM_OP_CONV, attr, n, in, biased ? 3 : 2, 1, &points));
    CM_TRY(cm_new_attr(rw->cx, n->network, CM_OP_DEPTH_TO_SPACE, &attr));
    CM_TRY(cm_attr_put_int(rw->cx, CM_OP_DEPTH_TO_SPACE, attr, "blocksize", side));
    CM_TRY(cm_attr_put_string(rw->cx, n->network, CM_OP_DEPTH_TO_SPACE, attr, "mode", "CRD"));
    CM_TRY(cm_make_with(rw, n, CM_OP_DEPTH_TO_SPACE, attr, n, &points->out[0], 1, 1, &y));
    return cm_replace(rw, n, y->out[0], NULL);
}

CM_PASS(transposed_blocks)
{
    CM_FOR_NODES (n, g) {
        int64_t w[CM_MAX_RANK], side = side_of(n, w);
        if (side == 0)
            continue;
        if (!cm_rewrite(rw, n))
            return CM_OK;
        CM_TRY(rewrite(rw, n, w, side));
        cm_drop_if_dead(n);
    }
    return CM_OK;
}
