/* causal_mask.h -- masks that let a query see the keys up to its own position, or those of a window.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_PASSES_CAUSAL_MASK_H
#define CM_PASSES_CAUSAL_MASK_H

#include "passes/match.h"

/* For `rows` queries over `cols` keys, is m surely true (or, when not `keeps`, false) exactly where
 * column <= row + cols - rows? m is a constant, or cut from a constant triangle by the positions. */
bool cm_is_causal_mask(const cm_value *m, cm_dim rows, cm_dim cols, bool keeps);
/* A constant that is 0 there and elsewhere so low that nothing of a score is left. */
bool cm_is_causal_bias(const cm_value *m, cm_dim rows, cm_dim cols);

/* Which keys each query sees: query i stands at key past + i. A constant of bools, [queries, keys]. */
typedef struct cm_seen {
    int64_t queries, keys, past;
    bool causal;
    int64_t left, right; /* keys before and behind its place, -1: all */
} cm_seen;
cm_status cm_draw_seen(cm_ctx *cx, cm_network *g, const cm_seen *s, cm_value **out) CM_MUST_USE;

#endif
