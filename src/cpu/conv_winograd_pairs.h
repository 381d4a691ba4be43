/* conv_winograd_pairs.h -- the products of Winograd convolutions by pairs (cpu/pairs.h).
 * SPDX-License-Identifier: Apache-2.0
 *
 * Long sums are cut into parts (`g->part` channels), which makes up for most of what pairs lose
 * (docs/numerics.md). Rows of V are scaled where they lie, part by part, as soon as a strip of them is there. Behind the rows of a
 * position stands for each part what tiles want to know of them: sums of pairs, and what results are multiplied by (0: not
 * fit for pairs). */
#ifndef CM_CPU_CONV_WINOGRAD_PAIRS_H
#define CM_CPU_CONV_WINOGRAD_PAIRS_H

#include "cpu/conv_winograd_plan.h"

/* One part of all positions of a panel: n channels, transformed; u is the first position's. */
void cm_winograd_pairs_pack(const cm_winograd_plan *g, int64_t n, float *u);
/* Rows [at, at + n) of all positions, at most a strip. */
void cm_winograd_pairs_rows(const cm_winograd_plan *g, int64_t at, int n, float *v);
/* Rows [at, at + tiles) of all positions by `panels` panels, the first at u, to m. */
void cm_winograd_pairs_multiply(const cm_winograd_plan *g, int64_t at, int64_t tiles, float *v,
                                int64_t panels, const float *u, float *m);

#endif
