/* dce.c -- drop nodes whose outputs nobody reads.
 *
 *     y = Relu(x)      with y unread
 *  becomes
 *     (nothing)
 *
 * Backwards over the list, so that a chain of dead nodes goes in one round. Control nodes go too: they
 * have no effect but their outputs. A random node goes like any other.
 *
 * needs: uses    keeps: types, uses
 * SPDX-License-Identifier: Apache-2.0
 */
#include "passes/passes.h"

static bool is_dead(const cm_node *n)
{
    for (int o = 0; o < n->n_out; o++)
        if (n->out[o] && n->out[o]->n_uses)
            return false;
    return true;
}

CM_PASS(dce)
{
    for (cm_node *n = g->last, *prev; n; n = prev) {
        prev = n->prev;
        if (!is_dead(n))
            continue;
        if (!cm_rewrite(rw, n))
            return CM_OK;
        cm_node_remove(n);
    }
    return CM_OK;
}
