/* inline_if.c -- an If whose condition is known, or whose branches are the same.
 *
 *     y = If(@true) do t = Relu(x) return t end do ... end
 *  becomes
 *     t = Relu(x)
 *
 * The condition is a constant, or tracked to a number (a comparison of shapes that the types decide). The
 * branch's nodes move before the If with their provenance.
 *
 * needs: types, tracked elements    keeps: uses; infers types anew
 * SPDX-License-Identifier: Apache-2.0
 */
#include "ir/clone.h"
#include "passes/loops.h"

CM_PASS(inline_if)
{
    bool any = false;
    CM_FOR_NODES (n, g) {
        bool then = true;
        if (!cm_is(n, CM_OP_IF) || n->n_subs != 2)
            continue;
        if (!cm_known_condition(n->in[0], &then) &&
            !cm_networks_same(rw->cx, n->subs[0], n->subs[1])) {
            cm_near(rw, n, "If not inlined: its condition is known at run time only");
            continue;
        }
        if (!cm_rewrite(rw, n))
            break;
        cm_value **outs;
        CM_NEW_N(rw->cx, rw->cx->scratch, outs, n->n_out, cm_value *);
        CM_TRY(cm_network_inline(rw->cx, n->network, n->subs[then ? 0 : 1], NULL, n, outs));
        for (int o = 0; o < n->n_out; o++)
            if (n->out[o])
                CM_TRY(cm_replace_uses(rw->cx, n->out[o], outs[o]));
        cm_node_remove(n);
        any = true;
    }
    return any ? cm_infer_all(rw, g) : CM_OK;
}
