/* summary.h -- what the optimiser did to a network.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_CLI_SUMMARY_H
#define CM_CLI_SUMMARY_H

#include "passes/passes.h"

/* Nodes by operator. A layer is a node that does work: views (reshapes) and shape arithmetic on the
 * host cost nothing and do not count. */
typedef struct cm_tally {
    int n_ops;
    const char **op; /* sorted by name */
    int *count;
    int nodes, layers;
} cm_tally;

cm_status cm_tally_network(cm_ctx *cx, const cm_network *g, cm_tally **out) CM_MUST_USE;
void cm_summary_print(const char *path, const cm_tally *before, const cm_tally *after,
                      const cm_pass_stats *stats);

#endif
