/* infer.h -- shared by infer.c and infer_control.c.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_IR_INFER_H
#define CM_IR_INFER_H

#include "ir/network.h"

/* Types of the outputs of a control node, from its nested networks. */
cm_status cm_infer_control(cm_ctx *cx, cm_node *n) CM_MUST_USE;
/* Infer all nodes of g, in order. */
cm_status cm_infer_nodes(cm_ctx *cx, cm_network *g) CM_MUST_USE;
/* What holds of a value that is of type a or of type b: equal dims stay, others become fresh. */
cm_status cm_type_join(cm_ctx *cx, cm_network *g, const char *hint, const cm_type *a,
                       const cm_type *b, cm_type *out) CM_MUST_USE;

#endif
