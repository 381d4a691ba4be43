/* qdq.h -- quantised values around nodes: DequantizeLinear in front, QuantizeLinear behind.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_PASSES_QDQ_H
#define CM_PASSES_QDQ_H

#include "passes/match.h"

typedef struct cm_quantised {
    cm_node *node;          /* the DequantizeLinear or QuantizeLinear */
    cm_value *q;            /* what is or becomes of it: integers */
    cm_value *scale, *zero; /* zero NULL: none */
    int64_t axis;           /* that scale runs along, when it has more than one element */
} cm_quantised;

/* Is v made by a DequantizeLinear, not in blocks, in float32 or float16? */
bool cm_dequantised(const cm_value *v, cm_quantised *out);
/* Is v read by a QuantizeLinear to 8 bits alone, one scale for all? */
bool cm_requantised(const cm_value *v, cm_quantised *out);
bool cm_one_scale(const cm_quantised *a);
/* Surely the same scale, zero point and element type, for all elements alike? */
bool cm_same_quantisation(const cm_quantised *a, const cm_quantised *b);
/* Its zero point; a new constant 0 when it has none. */
cm_status cm_zero_point(cm_rewriter *rw, const cm_quantised *a, cm_value **out) CM_MUST_USE;

#endif
