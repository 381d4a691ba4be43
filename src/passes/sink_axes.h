/* sink_axes.h -- transposes moved past nodes that work on axes.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_PASSES_SINK_AXES_H
#define CM_PASSES_SINK_AXES_H

#include "passes/transposes.h"

/* n reads a Transpose that nobody else reads, and works on axes that can be named: it works on the transpose's input
 * instead, and a Transpose follows where one is needed. *done: it was so, and a rewrite was allowed. */
cm_status cm_sink_axes(cm_rewriter *rw, cm_node *n, bool *done) CM_MUST_USE;
/* Could it, whoever else reads the transposed value? *keeps: its results are transposed alike then; else *leaves tells
 * whether a Transpose of other axes follows. */
bool cm_can_sink_axes(const cm_node *n, const cm_transposed *t, bool *keeps, bool *leaves);
/* It does. Its first input is made by a Transpose by now. */
cm_status cm_sink_axes_past(cm_rewriter *rw, cm_node *n) CM_MUST_USE;

#endif
