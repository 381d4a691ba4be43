/* rowwise.h -- nodes that treat every row alike, and nodes that pick rows: the two change places.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_PASSES_ROWWISE_H
#define CM_PASSES_ROWWISE_H

#include "passes/match.h"

/* How many of the last axes of input `data` n looks at: its result at an index on the axes before those depends
 * on that index of the input alone. The other inputs are the same for every row. -1: it does not work so. */
int cm_row_axes(const cm_node *n, int data);
/* The same for one operand of a pointwise node whose result has rank `rank`. */
int cm_operand_axes(const cm_value *v);

/* A Slice along constant axes, or a Gather, of its input 0: the axes (not negative) that it picks on. False:
 * it is neither, or the axes are not known. */
bool cm_pick_axes(const cm_node *n, int *axes, int *n_axes);
/* The same picking from x, before `before`; as `pick`, with axes that are not negative. */
cm_status cm_make_pick(cm_rewriter *rw, cm_node *before, const cm_node *pick, cm_value *x,
                       cm_value **out) CM_MUST_USE;
/* A copy of rowwise node n that reads in[], before `before`; good for another rank. */
cm_status cm_make_rowwise(cm_rewriter *rw, cm_node *before, const cm_node *n, int data,
                          cm_value *const *in, cm_node **out) CM_MUST_USE;

#endif
