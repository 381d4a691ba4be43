/* dilate_conv.c -- a convolution of every b-th pixel, as TensorFlow writes an atrous one, as a dilated convolution.
 *
 *     s = SpaceToDepth(u) {blocksize=b}                u: [c, n, h, w]
 *     k = Conv(Transpose(s), @w)                       perm=[1,0,2,3]: blocks are images of the batch
 *     y = DepthToSpace(Transpose(k)) {blocksize=b}
 *  becomes
 *     k = Conv(Transpose(u), @w) {dilations=[b,b]}
 *     y = Transpose(k)
 *
 * Pads are b times as large. Fires when nobody else reads what is between, the window moves by 1 and pads are given in
 * numbers. Not when DepthToSpace puts the blocks together in another order than SpaceToDepth took them apart.
 *
 * needs: types, uses    keeps: types, uses
 * SPDX-License-Identifier: Apache-2.0
 */
#include "passes/transposes.h"

static const int64_t swap[] = {1, 0, 2, 3};

/* What a Transpose of batch and channels that nobody else reads was made from, else NULL. */
static cm_value *before_swap(const cm_value *v)
{
    int64_t perm[CM_MAX_RANK];
    cm_node *t = cm_sole_use(v) ? cm_made_by(v, CM_OP_TRANSPOSE) : NULL;
    return t && cm_rank(v) == 4 && cm_perm(t, perm) && cm_perm_equal(perm, swap, 4) ? t->in[0]
                                                                                    : NULL;
}

static bool all(cm_ints list, int64_t want)
{
    for (int i = 0; i < list.n; i++)
        if (list.v[i] != want)
            return false;
    return true;
}

/* The convolution between `depth` and the SpaceToDepth that goes to *space, else NULL. */
static cm_node *find(const cm_node *depth, cm_node **space)
{
    cm_value *v = cm_is(depth, CM_OP_DEPTH_TO_SPACE) && depth->out[0]->n_uses &&
                          cm_string_is(depth, "mode", "DCR")
                      ? before_swap(depth->in[0])
                      : NULL;
    cm_node *conv = v && cm_sole_use(v) ? cm_made_by(v, CM_OP_CONV) : NULL;
    if (!conv || !all(cm_int_list(conv, "strides"), 1) ||
        !(cm_string_is(conv, "auto_pad", "NOTSET") || cm_string_is(conv, "auto_pad", "VALID")))
        return NULL;
    v = before_swap(conv->in[0]);
    *space = v && cm_sole_use(v) ? cm_made_by(v, CM_OP_SPACE_TO_DEPTH) : NULL;
    return *space && cm_int(*space, "blocksize") == cm_int(depth, "blocksize") ? conv : NULL;
}

static cm_status rewrite(cm_rewriter *rw, cm_node *depth, cm_node *conv, const cm_node *space)
{
    int64_t b = cm_int(depth, "blocksize"), dilations[2], pads[4];
    cm_ints d = cm_int_list(conv, "dilations"), p = cm_int_list(conv, "pads");
    bool padded = p.n && cm_string_is(conv, "auto_pad", "NOTSET");
    cm_value *in[3] = {NULL, conv->in[1], conv->n_in > 2 ? conv->in[2] : NULL};
    cm_node *t, *k, *y;
    void *attr;
    for (int i = 0; i < 2; i++)
        dilations[i] = b * (d.n ? d.v[i] : 1);
    for (int i = 0; i < 4; i++)
        pads[i] = padded ? b * p.v[i] : 0;
    CM_TRY(cm_make_transpose(rw, depth, space->in[0], swap, 4, conv->in[0]->producer, &t));
    in[0] = t->out[0];
    CM_TRY(cm_attr_copy(rw->cx, depth->network->arena, conv->op->attrs, conv->attr, &attr));
    CM_TRY(cm_attr_put_ints(rw->cx, depth->network, CM_OP_CONV, attr, "dilations", dilations, 2));
    CM_TRY(cm_attr_put_ints(rw->cx, depth->network, CM_OP_CONV, attr, "pads", pads, 4));
    CM_TRY(cm_make_with(rw, depth, CM_OP_CONV, attr, conv, in, in[2] ? 3 : 2, 1, &k));
    CM_TRY(cm_node_add_from(rw->cx, k, space));
    CM_TRY(cm_make_transpose(rw, depth, k->out[0], swap, 4, depth->in[0]->producer, &y));
    return cm_replace(rw, depth, y->out[0], k);
}

CM_PASS(dilate_conv)
{
    CM_FOR_NODES (n, g) {
        cm_node *space, *conv = find(n, &space);
        if (!conv)
            continue;
        if (!cm_rewrite(rw, n))
            return CM_OK;
        CM_TRY(rewrite(rw, n, conv, space));
    }
    return CM_OK;
}
