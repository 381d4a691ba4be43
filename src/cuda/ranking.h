/* ranking.h -- the cheapest settings of a tactic, in order.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_CUDA_RANKING_H
#define CM_CUDA_RANKING_H

#include "plan/tactic.h"

/* Begin with {.most = at most CM_MAX_KNOBS, .out = room for as many}. */
typedef struct cm_ranking {
    int n, most;
    cm_knobs *out; /* n of them, the cheapest first */
    double ns[CM_MAX_KNOBS];
} cm_ranking;

/* Settings that cost ns come to stand behind all that cost no more; those beyond the `most` cheapest go, and those that stand there
 * already. */
void cm_rank(cm_ranking *r, const cm_knobs *k, double ns);

#endif
