/* clone.h -- copies of nodes and networks inside one outermost network, and thinner control nodes.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_IR_CLONE_H
#define CM_IR_CLONE_H

#include "base/map.h"
#include "ir/network.h"

/* Which value stands for which while copying: by the old one's name. Values that are not in it are read as
 * they are (captured), but for constants of a network that is copied: those are made anew. */
typedef struct cm_renaming {
    cm_map to;              /* cm_value by name */
    const cm_network *from; /* constants of this network are copied into the new one */
} cm_renaming;

void cm_renaming_init(cm_renaming *r, cm_arena *scratch, const cm_network *from);
cm_status cm_rename_value(cm_ctx *cx, cm_renaming *r, const cm_value *from,
                          cm_value *to) CM_MUST_USE;
/* What stands for v in network g; a constant is copied on first sight. NULL gives NULL. */
cm_status cm_renamed(cm_ctx *cx, cm_renaming *r, cm_network *g, cm_value *v,
                     cm_value **out) CM_MUST_USE;

/* A copy of n in g, before `before` (NULL: at the end), networks nested in it included, attributes its own,
 * the same provenance. Its outputs join the renaming. Types are inferred. */
cm_status cm_node_clone(cm_ctx *cx, cm_renaming *r, const cm_node *n, cm_network *g,
                        cm_node *before, cm_node **out) CM_MUST_USE;

/* The nodes of `body` copied into g before `before` (NULL: at the end), with args[i] for input i of the body;
 * out[i] gets the value of output i. `body` stays as it is. */
cm_status cm_network_inline(cm_ctx *cx, cm_network *g, const cm_network *body,
                            cm_value *const *args, cm_node *before, cm_value **out) CM_MUST_USE;

/* Do the two compute the same from the same captured values, node by node? */
bool cm_networks_same(cm_ctx *cx, const cm_network *a, const cm_network *b);
int cm_count_nodes(const cm_network *g); /* nested ones included */

/* A control node without the inputs and outputs that are not kept, its networks' outputs as said: body inputs
 * go with the node's (If has none). Outputs that go must have no uses, body inputs that go neither once the
 * outputs that go are gone. The old node is removed; *out takes its place. */
typedef struct cm_control_parts {
    const bool *keep_in;       /* of the node and, shifted as the operator has it, of the body */
    const bool *keep_out;      /* of the node */
    const bool *keep_body_out; /* of every nested network */
    void *attr;                /* of the new node */
} cm_control_parts;
cm_status cm_control_thin(cm_ctx *cx, cm_node *n, const cm_control_parts *p,
                          cm_node **out) CM_MUST_USE;

#endif
