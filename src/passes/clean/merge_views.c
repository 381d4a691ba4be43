/* merge_views.c -- one reshape for a chain of them.
 *
 *     a = Unsqueeze(x, @2)
 *     y = Reshape(a, @shape)      (also Squeeze, Flatten)
 *  becomes
 *     y = Reshape(x, @shape)
 *
 * Fires when the last shape can be said relative to x (constant sizes, zeros, one -1). The first of the two stays
 * when others read it.
 *
 * needs: types, uses    keeps: types, uses
 * SPDX-License-Identifier: Apache-2.0
 */
#include "passes/views.h"

CM_PASS(merge_views)
{
    CM_FOR_NODES (n, g) {
        int64_t shape[CM_MAX_RANK];
        if (!cm_is_view(n) || !n->out[0]->n_uses)
            continue;
        cm_node *p = n->in[0]->producer;
        if (!cm_is_view(p) || p->network != g || p->in[0]->type.dtype != n->out[0]->type.dtype ||
            !cm_reshape_target(&p->in[0]->type, &n->out[0]->type, shape))
            continue;
        if (!cm_rewrite(rw, n))
            return CM_OK;
        cm_node *r;
        CM_TRY(cm_make_reshape(rw, n, p->in[0], shape, n->out[0]->type.rank, n, &r));
        if (cm_sole_use(n->in[0]))
            CM_TRY(cm_node_add_from(rw->cx, r, p));
        CM_TRY(cm_replace(rw, n, r->out[0], r));
    }
    return CM_OK;
}
