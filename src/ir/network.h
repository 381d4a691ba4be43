/* network.h -- the network in memory: nodes compute values.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A network owns nothing by itself: nodes, values and names live in the arena that it was created
 * in and die with it. Nested networks (the branches of If, the bodies of Loop, Scan and SequenceMap)
 * share the arena and the dim table of the outermost one and refer to its values directly: a value
 * used inside that was made outside is *captured*.
 *
 * Nodes stand in a list in an order that respects data flow (the verifier checks it). Rewrites go
 * through the calls below, which keep the lists of uses right; nodes that lost their last use are
 * left to the dead-code pass. */
#ifndef CM_IR_NETWORK_H
#define CM_IR_NETWORK_H

#include "ops/op.h"
#include "plan/program.h"
#include "plan/tensor.h"

typedef struct cm_network cm_network;
typedef struct cm_node cm_node;
typedef struct cm_value cm_value;

/* One place where a value is read: input `index` of `node`, or output `index` of `network`. */
typedef struct cm_use {
    cm_node *node;       /* NULL: a network's output */
    cm_network *network; /* set when node is NULL */
    int index;
    struct cm_use *next;
} cm_use;

struct cm_value {
    const char *name;    /* unique among the values of the outermost network and all nested ones */
    cm_type type;        /* kind CM_NOTHING until inferred */
    cm_node *producer;   /* NULL: an input or a constant */
    int index;           /* which output of the producer; which input of the network */
    cm_network *network; /* the one it was made in */
    const cm_tensor *constant; /* a tensor known now (dense; sub-byte packed), else NULL */
    const char *weight;        /* a constant that is the model's named initialiser: that name */
    const cm_dim *elems;       /* tracked elements (see ops/infer.h), NULL when not */
    int n_elems;
    cm_use *uses;
    int n_uses;
    int id; /* 0.. in order of creation in the outermost network; stable */
};

struct
    cm_node { /* what a walk over all nodes asks for comes first: it is in one line of the cache */
    const cm_op *op;
    cm_node *next, *prev;
    int n_in, n_out;
    cm_value **in;  /* NULL: an absent optional input */
    cm_value **out; /* NULL: an output nobody asked for */
    cm_network *network;
    void *attr;           /* the operator's attribute struct */
    cm_epilogue epilogue; /* a pointwise program on output 0; its operands are the last inputs */
    int n_subs;
    cm_network **subs; /* If: then, else. Loop, Scan, SequenceMap: body */
    const char *name;  /* of the first ONNX node it came from, or made up; may repeat */
    int n_from;
    const char **from; /* names of all the ONNX nodes that it covers */
    int id;
    uint32_t mark; /* for passes; meaning ends with the pass */
};

struct cm_network {
    cm_arena *arena;
    cm_dim_table *dims;
    cm_network *outer; /* NULL: outermost */
    cm_node *owner;    /* the control node it is nested in */
    const char *name;
    int n_inputs;
    cm_value **inputs;
    int n_outputs;
    cm_value **outputs;
    const char **output_names; /* names that the user sees; may differ from the values' own */
    cm_node *first, *last;
    int n_nodes;
    struct cm_network_root *root; /* counters and the table of names, of the outermost network */
};

#define CM_FOR_NODES(node, net)                                                                    \
    for (cm_node *node = (net)->first, *node##_next; node && (node##_next = node->next, 1);        \
         node = node##_next)

cm_status cm_network_create(cm_ctx *cx, cm_arena *arena, const char *name,
                            cm_network **out) CM_MUST_USE;
/* A network nested in `outer`; attached to a node by cm_node_set_subs. */
cm_status cm_network_nested(cm_ctx *cx, cm_network *outer, const char *name,
                            cm_network **out) CM_MUST_USE;

/* Values. A name that is taken (or NULL) is made unique by a suffix. */
cm_status cm_network_add_input(cm_ctx *cx, cm_network *g, const char *name, const cm_type *type,
                               cm_value **out) CM_MUST_USE;
/* The tensor is not copied: it lives in the arena, or in a mapping that outlives the network. */
cm_status cm_network_add_constant(cm_ctx *cx, cm_network *g, const char *name, const cm_tensor *t,
                                  cm_value **out) CM_MUST_USE;
cm_status cm_network_add_output(cm_ctx *cx, cm_network *g, cm_value *v,
                                const char *name) CM_MUST_USE;
cm_value *cm_network_find_value(const cm_network *g,
                                const char *name); /* anywhere under the root */

/* A node appended to g, or put before `before`. in[i] NULL: absent. n_out new values are made, named
 * out_names[i] (NULL array or entry: made up; "" : output not wanted, out[i] NULL). attr may be
 * NULL: defaults. The node starts with provenance {name}. Types are not inferred here. */
cm_status cm_network_add_node(cm_ctx *cx, cm_network *g, cm_node *before, const cm_op *op,
                              const char *name, void *attr, cm_value *const *in, int n_in,
                              const char *const *out_names, int n_out, cm_node **out) CM_MUST_USE;
/* Append `n_operands` inputs and follow the node by `program` (copied). `to` as in cm_epilogue. */
cm_status cm_node_set_epilogue(cm_ctx *cx, cm_node *n, const char *program,
                               cm_value *const *operands, int n_operands, cm_dtype to) CM_MUST_USE;
cm_status cm_node_set_subs(cm_ctx *cx, cm_node *n, cm_network *const *subs, int n_subs) CM_MUST_USE;

/* Rewriting. */
cm_status cm_node_set_input(cm_ctx *cx, cm_node *n, int i, cm_value *v) CM_MUST_USE;
cm_status cm_replace_uses(cm_ctx *cx, cm_value *from, cm_value *to) CM_MUST_USE; /* all of them */
cm_status cm_network_set_output(cm_ctx *cx, cm_network *g, int i, cm_value *v) CM_MUST_USE;
/* One input (which must have no uses) or output less; those behind it move up. */
void cm_network_remove_input(cm_network *g, int i);
void cm_network_remove_output(cm_network *g, int i);
void cm_node_remove(cm_node *n); /* its outputs must have no uses */
/* The same for a node that was just added and turned out wrong: its values' names are free again. */
void cm_node_give_up(cm_node *n);
/* n covers what `other` covered too (in order, no repeats; names beyond CM_MOST_FROM are left out: a
 * chain of many thousand nodes may end in one). */
enum { CM_MOST_FROM = 512 };
cm_status cm_node_add_from(cm_ctx *cx, cm_node *n, const cm_node *other) CM_MUST_USE;

static inline int cm_node_own_inputs(const cm_node *n) /* without the epilogue's */
{
    return n->n_in - n->epilogue.n_operands;
}
static inline bool cm_sole_use(const cm_value *v)
{
    return v->n_uses == 1;
}
bool cm_value_is_captured_by(const cm_value *v, const cm_network *g); /* made outside of g? */

/* Type inference over the whole network, nested ones included; fills types, tracked elements.
 * Failures name the node. Unknown things stay unknown (rank -1, fresh symbols). */
cm_status cm_network_infer(cm_ctx *cx, cm_network *g) CM_MUST_USE;
/* One node again, after a rewrite. */
cm_status cm_node_infer(cm_ctx *cx, cm_node *n) CM_MUST_USE;

/* Is everything as this header promises? CM_ERR_INTERNAL with the first thing that is not. */
cm_status cm_network_verify(cm_ctx *cx, const cm_network *g) CM_MUST_USE;

/* The text form: see ir/README.md for its grammar. Print gives what parse takes. Constants over
 * `max_elems` elements print as a hash (and then do not parse). */
void cm_network_print(const cm_network *g, int64_t max_elems, cm_buf *out);
cm_status cm_network_parse(cm_ctx *cx, cm_arena *arena, const char *text, size_t n,
                           cm_network **out) CM_MUST_USE;

#endif
