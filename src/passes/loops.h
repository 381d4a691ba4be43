/* loops.h -- what passes over control nodes share.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_PASSES_LOOPS_H
#define CM_PASSES_LOOPS_H

#include "passes/match.h"

/* v as a condition known now: a constant, or tracked. */
bool cm_known_condition(const cm_value *v, bool *out);
/* How often a Loop runs, when that is known now. */
bool cm_loop_trips(const cm_node *n, int64_t *trips);
/* The same for a Scan: the length of the axis it walks. */
bool cm_scan_trips(const cm_node *n, int64_t *trips);
/* About how many nodes `trips` copies of its body, cleaned and fused, come to: what depends on constants and the
 * iteration alone is folded, pointwise nodes without anything in between become one. */
int64_t cm_unrolled_nodes(const cm_node *n, int64_t trips);
/* Put `trips` copies of the body in n's place and remove n. */
cm_status cm_loop_unroll(cm_rewriter *rw, cm_node *n, int64_t trips) CM_MUST_USE;
cm_status cm_scan_unroll(cm_rewriter *rw, cm_node *n, int64_t trips) CM_MUST_USE;
/* Types of the outermost network anew: what replaced a control node may know more. */
cm_status cm_infer_all(cm_rewriter *rw, cm_network *g) CM_MUST_USE;

#endif
