/* constant_reshape.c -- reshapes that need no shape arithmetic, and transposes that are none.
 *
 *     s = Shape(x); ...; t = Concat(batch, seq, @12, @64)
 *     y = Reshape(x, t)                     x: f32[batch,seq,768]
 *  becomes
 *     y = Reshape(x, @[0, 0, 12, 64])
 *
 *     y = Transpose(x) {perm=[1,0,2]}       x: f32[1,seq,768]
 *  becomes
 *     y = Reshape(x, @[-1, 1, 768])
 *
 * Fires when the output's shape, as inferred, can be said with sizes, zeros (the input's own size) and one
 * -1; of transposes, those that leave all axes of more than one element in order. The arithmetic dies when nobody else reads it. A size of zero is never said, since 0 means another thing.
 *
 * needs: types    keeps: types, uses
 * SPDX-License-Identifier: Apache-2.0
 */
#include "passes/views.h"

/* Does it only move axes of size 1? */
static bool keeps_order(const cm_node *n)
{
    cm_ints perm = cm_int_list(n, "perm");
    int rank = cm_rank(n->in[0]), last = -1;
    if (rank < 2 || perm.n != rank)
        return false;
    for (int i = 0; i < rank; i++) {
        if (n->in[0]->type.dims[perm.v[i]] == 1)
            continue;
        if (perm.v[i] < last)
            return false;
        last = (int)perm.v[i];
    }
    return true;
}

static bool is_candidate(const cm_node *n)
{
    if (cm_is(n, CM_OP_TRANSPOSE))
        return keeps_order(n);
    return cm_is(n, CM_OP_RESHAPE) && n->in[1] && !n->in[1]->constant;
}

CM_PASS(constant_reshape)
{
    CM_FOR_NODES (n, g) {
        int64_t shape[CM_MAX_RANK];
        if (!is_candidate(n) || !n->out[0]->n_uses ||
            !cm_reshape_target(&n->in[0]->type, &n->out[0]->type, shape))
            continue;
        if (!cm_rewrite(rw, n))
            return CM_OK;
        cm_node *r;
        CM_TRY(cm_make_reshape(rw, n, n->in[0], shape, n->out[0]->type.rank, n, &r));
        CM_TRY(cm_replace(rw, n, r->out[0], r));
    }
    return CM_OK;
}
