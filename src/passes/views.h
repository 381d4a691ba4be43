/* views.h -- reshapes whose target can be said with numbers, zeros and one -1.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_PASSES_VIEWS_H
#define CM_PASSES_VIEWS_H

#include "passes/match.h"

static inline bool cm_is_view(const cm_node *n) /* a tensor's elements under another shape */
{
    return n && !n->epilogue.program && (n->op->traits & CM_VIEW) && n->op->id != CM_OP_IDENTITY &&
           n->n_in > 0 && n->in[0] && n->out[0] && n->out[0]->type.kind == CM_TENSOR;
}

/* The shape input that makes a Reshape of type `from` give exactly `to`: sizes, 0 for a dim that is
 * kept, at most one -1. False: it cannot be said that way. */
bool cm_reshape_target(const cm_type *from, const cm_type *to, int64_t *shape);
/* A Reshape of x to the type of `like`'s output 0, before `before`. cm_reshape_target must hold. */
cm_status cm_make_reshape(cm_rewriter *rw, cm_node *before, cm_value *x, const int64_t *shape,
                          int rank, const cm_node *like, cm_node **out) CM_MUST_USE;

#endif
