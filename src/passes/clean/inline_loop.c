/* inline_loop.c -- a Loop that runs once or never.
 *
 *     y = Loop(@one, _, x) do ... t = Relu(c) return go, t end
 *  becomes
 *     y = Relu(x)
 *
 * Never: carried values are the initial ones, stacked outputs are empty (left alone when their shape is not
 * known as numbers). Once: the body in the Loop's place, stacked outputs with an axis of 1 in front.
 *
 * needs: types, tracked elements    keeps: uses; infers types anew
 * SPDX-License-Identifier: Apache-2.0
 */
#include "passes/loops.h"

/* Are the shapes of the outputs that would be stacked known, should there be none to stack? */
static bool stacks_known(const cm_node *n)
{
    int n_carried = n->n_in - 2;
    int64_t dims[CM_MAX_RANK];
    for (int o = n_carried; o < n->n_out; o++) {
        const cm_value *v = n->subs[0]->outputs[1 + o];
        if (n->out[o] && n->out[o]->n_uses &&
            (v->type.dtype == CM_STR || cm_rank(v) == CM_MAX_RANK || !cm_static_shape(v, dims)))
            return false;
    }
    return true;
}

CM_PASS(inline_loop)
{
    bool any = false;
    CM_FOR_NODES (n, g) {
        int64_t trips;
        if (!cm_is(n, CM_OP_LOOP) || !cm_loop_trips(n, &trips) || trips > 1 ||
            (trips == 0 && !stacks_known(n)))
            continue;
        if (!cm_rewrite(rw, n))
            break;
        CM_TRY(cm_loop_unroll(rw, n, trips));
        any = true;
    }
    return any ? cm_infer_all(rw, g) : CM_OK;
}
