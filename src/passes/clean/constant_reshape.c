/* constant_reshape.c -- reshapes that need no shape arithmetic.
 *
 *     s = Shape(x); ...; t = Concat(batch, seq, @12, @64)
 *     y = Reshape(x, t)                     x: f32[batch,seq,768]
 *  becomes
 *     y = Reshape(x, @[0, 0, 12, 64])
 *
 * Fires when the output's shape, as inferred, can be said with sizes, zeros (the input's own size) and one
 * -1. The arithmetic dies when nobody else reads it. A size of zero is never said, since 0 means another thing.
 *
 * needs: types    keeps: types, uses
 * SPDX-License-Identifier: Apache-2.0
 */
#include "passes/views.h"

CM_PASS(constant_reshape)
{
    CM_FOR_NODES (n, g) {
        int64_t shape[CM_MAX_RANK];
        if (!cm_is(n, CM_OP_RESHAPE) || !n->in[1] || n->in[1]->constant || !n->out[0]->n_uses ||
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
