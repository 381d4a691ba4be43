/* binding.h -- what binding made, kept for the input shapes that came last.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A context works with one binding at a time, whose tables stand in the context itself. The others rest here and are taken
 * up again when their shapes come back: nothing is chosen, planned, compiled or recorded twice. They share the memory that
 * runs need, which is as large as the largest wants it. */
#ifndef CM_RUNTIME_BINDING_H
#define CM_RUNTIME_BINDING_H

#include "runtime/internal.h"

/* Its first one, with nothing bound. */
cm_status cm_bindings_create(cm_ctx *cx, cm_context *c) CM_MUST_USE;
/* Before inputs are bound: take up the binding that is for them (*found), else one to be made anew: an unused one or the one
 * whose last use is longest ago. */
cm_status cm_binding_take(cm_ctx *cx, cm_context *c, bool *found) CM_MUST_USE;
/* Is the one that the context works with for its inputs as they are now? */
bool cm_binding_fits(const cm_context *c);
/* The one that the context works with is complete, for its inputs as they are now. */
void cm_binding_done(cm_context *c);
/* All of them, with what they hold on a device; the context's own tables too. */
void cm_bindings_destroy(cm_context *c);
size_t cm_bindings_bytes(const cm_context *c); /* of those that rest */

#endif
