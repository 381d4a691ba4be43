/* labelled.h -- matrix products with their axes labelled, as attention is made of.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_PASSES_LABELLED_H
#define CM_PASSES_LABELLED_H

#include "passes/match.h"

enum { CM_MOST_LABELS = 8 };

/* A product and its operands, each axis with a label of heads_view.h. */
typedef struct cm_labelled {
    cm_node *n;
    cm_value *a, *b;
    char of_a[CM_MOST_LABELS + 1], of_b[CM_MOST_LABELS + 1], of_out[CM_MOST_LABELS + 1];
    double scale;
} cm_labelled;

/* A MatMul or FusedMatMul. `by_keys`: the rows of b are keys (v), not its columns (k^T). */
bool cm_read_matmul(cm_node *n, bool by_keys, cm_labelled *p);
/* An Einsum of `scores` (NULL: which it computes) with another operand, as product a b. */
bool cm_read_einsum(cm_node *n, const cm_value *scores, cm_labelled *p);
/* Either of them, of q and k. n may be NULL. */
bool cm_read_scores(cm_node *n, cm_labelled *p);

#endif
