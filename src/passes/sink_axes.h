/* sink_axes.h -- transposes moved past nodes that work on axes.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_PASSES_SINK_AXES_H
#define CM_PASSES_SINK_AXES_H

#include "passes/match.h"

/* n reads a Transpose that nobody else reads, and works on axes that can be named: it works on the transpose's input
 * instead, and a Transpose follows where one is needed. *done: it was so, and a rewrite was allowed. */
cm_status cm_sink_axes(cm_rewriter *rw, cm_node *n, bool *done) CM_MUST_USE;

#endif
