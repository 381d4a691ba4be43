/* unroll_loops.c -- a Loop that runs a few times, known now, becomes its body that many times.
 *
 *     y = Loop(@three, _, x) do ... t = Relu(c) return go, t end
 *  becomes
 *     a = Relu(x)   b = Relu(a)   y = Relu(b)
 *
 * When no condition can end it early, the copies come to at most MOST nodes, and what cleaning and fusing is likely to
 * leave of them is no more than the loop and its body: then what an iteration costs to begin and end is saved, at no
 * cost. Stacked outputs become a Concat.
 *
 * needs: types, tracked elements    keeps: uses; infers types anew
 * SPDX-License-Identifier: Apache-2.0
 */
#include "ir/clone.h"
#include "passes/loops.h"

enum { MOST = 256 };

CM_PASS(unroll_loops)
{
    bool any = false;
    CM_FOR_NODES (n, g) {
        int64_t trips;
        if (!cm_is(n, CM_OP_LOOP))
            continue;
        if (!cm_loop_trips(n, &trips) || trips < 2) {
            cm_near(rw, n, "Loop not unrolled: how often it runs is known at run time only");
            continue;
        }
        int nodes = cm_count_nodes(n->subs[0]) + 1;
        if (trips > MOST / nodes) {
            cm_near(rw, n, "Loop not unrolled: %lld times %d nodes are more than %d",
                    (long long)trips, nodes, MOST);
            continue;
        }
        int64_t after = cm_unrolled_nodes(n, trips);
        if (after > nodes) {
            cm_near(rw, n, "Loop not unrolled: %lld copies come to about %lld nodes, it has %d",
                    (long long)trips, (long long)after, nodes);
            continue;
        }
        if (!cm_rewrite(rw, n))
            break;
        CM_TRY(cm_loop_unroll(rw, n, trips));
        any = true;
    }
    return any ? cm_infer_all(rw, g) : CM_OK;
}
