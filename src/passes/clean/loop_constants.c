/* loop_constants.c -- carried values that no iteration changes are captured instead.
 *
 *     y = Loop(n, _, x) do i: i64[] go: bool[] c: f32[2] ... return go, c end
 *  becomes
 *     x                          inside, c is read as x
 *
 * For Loop and Scan. Nothing is carried then, and thin_control takes the rest away. A Loop without a trip
 * count keeps its outputs: it may never end, and then there is no answer.
 *
 * needs: types, uses    keeps: types, uses
 * SPDX-License-Identifier: Apache-2.0
 */
#include "ops/control.h"
#include "passes/match.h"

/* Carried values of n: how many, and where they stand in the body's inputs, its outputs and n's inputs. */
static int carried(const cm_node *n, int *first_in, int *first_out)
{
    bool loop = cm_is(n, CM_OP_LOOP), scan = cm_is(n, CM_OP_SCAN);
    *first_in = loop ? 2 : 0;
    *first_out = loop ? 1 : 0;
    if (scan)
        return n->n_in - (int)((const cm_scan_attr *)n->attr)->num_scan_inputs;
    return loop ? n->n_in - 2 : 0;
}

CM_PASS(loop_constants)
{
    CM_FOR_NODES (n, g) {
        int first_in, first_out, k = carried(n, &first_in, &first_out);
        bool ends = !cm_is(n, CM_OP_LOOP) || n->in[0];
        for (int i = 0; i < k; i++) {
            cm_network *body = n->subs[0];
            cm_value *inside = body->inputs[first_in + i], *before = n->in[first_in + i],
                     *after = body->outputs[first_out + i];
            bool is_read = ends && n->out[i] && n->out[i]->n_uses;
            if (after != inside && !(after == before && (inside->n_uses || is_read)))
                continue;
            if (!cm_rewrite(rw, n))
                return CM_OK;
            CM_TRY(cm_replace_uses(rw->cx, inside, before));
            if (is_read)
                CM_TRY(cm_replace_uses(rw->cx, n->out[i], before));
        }
    }
    return CM_OK;
}
