/* nested.h -- types and data that hold others: sequences, optionals, maps.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_OPS_NESTED_H
#define CM_OPS_NESTED_H

#include "ops/eval.h"

/* A tensor of that element type, rank unknown. The pointer is good for ever. */
const cm_type *cm_elem_tensor(cm_dtype dtype);
/* The type `t` as an element type: copied, all levels, to where it lives long enough. While running,
 * shapes are left out: items of one sequence may differ in them. `t` NULL: *out is NULL. */
cm_status cm_infer_elem(cm_infer *f, const cm_type *t, const cm_type **out) CM_MUST_USE;
/* What both types are: dims that agree are kept, others are fresh symbols; ranks that differ are
 * unknown. Kinds or element types that differ fail, naming `what`. */
cm_status cm_infer_join(cm_infer *f, const char *what, const cm_type *a, const cm_type *b,
                        cm_type *out) CM_MUST_USE;
/* Output o becomes one item whose type is `t` (NULL: not known): dims that are not numbers get fresh
 * symbols, since every item may have its own. */
cm_status cm_infer_item(cm_infer *f, int o, const cm_type *t) CM_MUST_USE;
/* Output o becomes a sequence or an optional of `elem`. */
void cm_infer_holder(cm_infer *f, int o, cm_kind kind, const cm_type *elem);

/* Output o becomes a copy of `d`: tensors are allocated and copied, others are borrowed. */
cm_status cm_eval_give(cm_eval *e, int o, const cm_datum *d) CM_MUST_USE;
/* `d`, dense and unpacked, as evaluators see tensors. */
cm_status cm_eval_plain(cm_eval *e, const cm_datum *d, cm_datum *out) CM_MUST_USE;

#endif
