/* unroll_scans.c -- a Scan over a few slices, known now, becomes its body that many times.
 *
 *     s, y = Scan(s0, x) do ... end         x: f32[2,n]
 *  becomes
 *     x0 = Gather(x, 0)   x1 = Gather(x, 1)   the body on each   y = Concat(y0, y1)
 *
 * When the scanned axis is a number, the copies, slices counted, come to at most MOST nodes, and to no more than the scan
 * and its body when they are cleaned and fused.
 *
 * needs: types    keeps: uses; infers types anew
 * SPDX-License-Identifier: Apache-2.0
 */
#include "ir/clone.h"
#include "passes/loops.h"

enum { MOST = 256 };

CM_PASS(unroll_scans)
{
    bool any = false;
    CM_FOR_NODES (n, g) {
        int64_t trips;
        if (!cm_is(n, CM_OP_SCAN) || n->n_subs != 1 || !cm_scan_trips(n, &trips) || trips < 1)
            continue;
        int nodes = cm_count_nodes(n->subs[0]) + n->n_in;
        if (trips > MOST / nodes) {
            cm_near(rw, n, "Scan not unrolled: %lld times %d nodes are more than %d",
                    (long long)trips, nodes, MOST);
            continue;
        }
        int64_t after = cm_unrolled_nodes(n, trips), before = cm_count_nodes(n->subs[0]) + 1;
        if (after > before) {
            cm_near(rw, n, "Scan not unrolled: %lld copies come to about %lld nodes, it has %lld",
                    (long long)trips, (long long)after, (long long)before);
            continue;
        }
        if (!cm_rewrite(rw, n))
            break;
        CM_TRY(cm_scan_unroll(rw, n, trips));
        any = true;
    }
    return any ? cm_infer_all(rw, g) : CM_OK;
}
