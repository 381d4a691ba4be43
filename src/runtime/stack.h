/* stack.h -- scanned outputs: one tensor an iteration, stacked along a new axis.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_RUNTIME_STACK_H
#define CM_RUNTIME_STACK_H

#include "runtime/internal.h"

/* Start over. `length` tensors will come, or -1: not known; then they stack along axis 0 and `hint`
 * (0: none) is how many are likely. `axis` counts in the stacked tensor's rank and may be negative. */
void cm_stack_begin(cm_stack *s, int64_t length, int64_t hint, int64_t axis, bool reversed);
/* Add one, into the room of `out`. All must have one element type and shape. */
cm_status cm_stack_add(cm_ctx *cx, cm_stack *s, cm_slot *out, const cm_datum *item) CM_MUST_USE;
/* `out` becomes the stacked tensor; with no item an empty one of `type` (symbols valued by c). */
cm_status cm_stack_end(cm_ctx *cx, const cm_context *c, cm_stack *s, cm_slot *out,
                       const cm_type *type) CM_MUST_USE;

#endif
