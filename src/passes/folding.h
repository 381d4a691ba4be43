/* folding.h -- computing early what depends on constants only.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_PASSES_FOLDING_H
#define CM_PASSES_FOLDING_H

#include "passes/match.h"

/* cm_eval_host.alloc: results in an arena, which is `user`. */
cm_status cm_fold_give(void *user, cm_ctx *cx, int output, cm_tensor *t) CM_MUST_USE;

/* All that can be folded in g. keep_quantised: not the weights of products on integers that are yet to be found. */
cm_status cm_fold_all(cm_rewriter *rw, cm_network *g, bool keep_quantised) CM_MUST_USE;

#endif
