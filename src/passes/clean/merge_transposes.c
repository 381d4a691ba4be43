/* merge_transposes.c -- one transpose for two in a row.
 *
 *     a = Transpose(x) {perm=[0,2,3,1]}
 *     y = Transpose(a) {perm=[0,3,1,2]}
 *  becomes
 *     y = Transpose(x) {perm=[0,1,2,3]}        which `identity` drops
 *
 * The first stays when others read it.
 *
 * needs: types, uses    keeps: types, uses
 * SPDX-License-Identifier: Apache-2.0
 */
#include "passes/transposes.h"

CM_PASS(merge_transposes)
{
    CM_FOR_NODES (n, g) {
        int64_t outer[CM_MAX_RANK], inner[CM_MAX_RANK], both[CM_MAX_RANK];
        if (!cm_is(n, CM_OP_TRANSPOSE) || !n->out[0]->n_uses)
            continue;
        cm_node *p = cm_made_by(n->in[0], CM_OP_TRANSPOSE);
        if (!p || !cm_perm(n, outer) || !cm_perm(p, inner))
            continue;
        if (!cm_rewrite(rw, n))
            return CM_OK;
        int rank = cm_rank(n->in[0]);
        for (int i = 0; i < rank; i++)
            both[i] = inner[outer[i]];
        cm_node *t;
        CM_TRY(cm_make_transpose(rw, n, p->in[0], both, rank, n, &t));
        if (cm_sole_use(n->in[0]))
            CM_TRY(cm_node_add_from(rw->cx, t, p));
        CM_TRY(cm_replace(rw, n, t->out[0], t));
    }
    return CM_OK;
}
