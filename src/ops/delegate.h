/* delegate.h -- an operator that is another one with something around it.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_OPS_DELEGATE_H
#define CM_OPS_DELEGATE_H

#include "ops/eval.h"

/* Attributes of operator `id`, all at their defaults, in scratch; NULL when it has none. */
cm_status cm_delegate_attr(cm_ctx *cx, cm_op_id id, void **out) CM_MUST_USE;
/* Set one of them. Ignored when the operator has no attribute of that name. */
void cm_delegate_set(cm_op_id id, void *attr, const char *name, const void *value);

/* Type rule and signature of `id` on these inputs; `out` has n_out zeroed entries. */
cm_status cm_delegate_infer(cm_infer *f, cm_op_id id, const void *attr, int n_in,
                            const cm_infer_in *in, int n_out, cm_infer_out *out) CM_MUST_USE;
/* Evaluator of `id`; in[i] NULL: absent. `out` is shaped and has memory. */
cm_status cm_delegate_eval(cm_eval *e, cm_op_id id, const void *attr, int n_in,
                           const cm_tensor *const *in, cm_tensor *out) CM_MUST_USE;

#endif
