/* sink_pointwise.h -- transposes moved past pointwise nodes, and past nodes with one axis: Concat, Softmax ...
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_PASSES_SINK_POINTWISE_H
#define CM_PASSES_SINK_POINTWISE_H

#include "passes/transposes.h"

/* Is n of the kind, and read by somebody? */
bool cm_lets_transposes_by(const cm_node *n);
/* Has it one axis that is translated, and no operand that may lack axes? */
bool cm_sinks_with_axis(const cm_node *n);
/* Can n work on what its transposed inputs were before: are the others constants, one element, or the same elements in
 * the same order when transposed back? Who else reads them is not asked. */
bool cm_can_sink_pointwise(const cm_node *n, const cm_transposed *t);
/* It does, and a Transpose follows. The transposed inputs are made by Transposes by now. */
cm_status cm_sink_pointwise(cm_rewriter *rw, cm_node *n, const int64_t *perm) CM_MUST_USE;

#endif
