/* causal_mask.h -- masks that let a query see the keys up to its own position.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_PASSES_CAUSAL_MASK_H
#define CM_PASSES_CAUSAL_MASK_H

#include "passes/match.h"

/* For `rows` queries over `cols` keys, is m surely true (or, when not `keeps`, false) exactly where
 * column <= row + cols - rows? m is a constant, or cut from a constant triangle by the positions. */
bool cm_is_causal_mask(const cm_value *m, cm_dim rows, cm_dim cols, bool keeps);
/* A constant that is 0 there and elsewhere so low that nothing of a score is left. */
bool cm_is_causal_bias(const cm_value *m, cm_dim rows, cm_dim cols);

#endif
