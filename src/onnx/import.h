/* import.h -- what the files of the importer share: the importer, scopes, and one node on its
 * way.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A model is imported node by node, in an order that respects data flow, and each network node's
 * type is inferred as soon as it stands, so that what rewrites old forms knows ranks and element
 * types. */
#ifndef CM_ONNX_IMPORT_H
#define CM_ONNX_IMPORT_H

#include "base/map.h"
#include "onnx/onnx.h"
#include "onnx/schema.h"
#include "onnx/tensor.h"

typedef struct cm_scope cm_scope;

typedef struct cm_importer {
    cm_ctx *cx;
    cm_arena *arena; /* of the network */
    cm_arena *tmp;   /* ends with the import: messages, names, scopes */
    const cm_import_options *o;
    pb_context data; /* for tensors of the network */
    const pb_model *model;
    cm_map functions;  /* "domain:name:overload" to pb_function */
    cm_map rows, ops;  /* what versions.c has looked up */
    cm_map dims;       /* dim_param to a cm_dim in tmp */
    int depth;         /* of subgraphs and function calls that we are in */
    int64_t n_inlined; /* nodes that came out of functions so far */
} cm_importer;

/* A name in a scope: a value, or an initialiser that becomes one at its first use. */
typedef struct cm_binding {
    cm_value *value; /* NULL: absent (an optional input of a function) or not made yet */
    const pb_tensor *tensor;
    const pb_sparse *sparse;
} cm_binding;

/* An attribute and where the graph in it belongs. */
typedef struct cm_attribute {
    const char *name;
    const pb_attribute *p;
    cm_scope *scope;
} cm_attribute;

/* Names seen by the nodes of one graph or one function body. */
struct cm_scope {
    cm_scope *outer; /* NULL: names end here */
    cm_network *g;
    cm_map values; /* name to cm_binding */
    size_t n_opsets;
    const pb_opset *opsets;
    const char *prefix;       /* of names made inside a function: "call/", else "" */
    const cm_map *rename;     /* function results to the names that the caller gave, or NULL */
    const cm_attribute *args; /* of the function call that we are in */
    int n_args;
};

/* One ONNX node on its way into the network. Upgrades change it, or emit nodes of their own and set
 * `done`. Everything in it lives in tmp. */
typedef struct cm_pending {
    cm_importer *im;
    cm_scope *scope;
    const char *op;     /* "Conv" */
    const char *domain; /* "" for ONNX's own */
    int64_t version;    /* of the domain's opset that the node was written for */
    const char *name;
    int n_in, cap_in;
    cm_value **in; /* NULL: absent */
    int n_out;
    const char **out; /* names in the scope; "" : not wanted */
    int n_attrs, cap_attrs;
    cm_attribute *attrs;
    int n_unwrap;
    bool *unwrap; /* outputs that are optionals here and their contents in the model */
    bool done;
    bool early; /* the operator stands in an opset that did not have it yet */
    bool named; /* the failure's sentence names the node already */
} cm_pending;

/* import.c */
const char *cm_onnx_name(cm_importer *im, cm_str s); /* NUL bytes become C0 80; NULL: no memory */
cm_status cm_onnx_domain(cm_importer *im, cm_str domain, const char **out) CM_MUST_USE;
/* The version that the scope imports of a domain; 0: none. */
int64_t cm_onnx_version(const cm_scope *s, const char *domain);

/* type.c */
cm_status cm_onnx_type(cm_importer *im, cm_dim_table *dims, const pb_type *p, const char *hint,
                       cm_type *out) CM_MUST_USE;

/* graph.c */
cm_status cm_onnx_graph(cm_importer *im, cm_scope *s, const pb_graph *p) CM_MUST_USE;
/* Nodes of a graph or function into the scope's network, in an order that respects data flow. */
cm_status cm_onnx_nodes(cm_importer *im, cm_scope *s, const pb_node *nodes, size_t n) CM_MUST_USE;
/* The value of a name, made from its initialiser if need be. */
cm_status cm_onnx_lookup(cm_importer *im, cm_scope *s, const char *name,
                         cm_value **out) CM_MUST_USE;
cm_status cm_onnx_bind(cm_importer *im, cm_scope *s, const char *name, cm_value *v) CM_MUST_USE;
/* A graph nested in a node of `g`, its names seen from `outer`. inputs: types of its inputs as
 * the node gives them; an entry of kind CM_NOTHING leaves it to the graph's own declaration. */
cm_status cm_onnx_subgraph(cm_importer *im, cm_network *g, cm_scope *outer, const pb_graph *p,
                           const cm_type *inputs, int n_inputs, cm_network **out) CM_MUST_USE;

/* A graph's nodes straight into the network of `g`: inputs bound to values, outputs looked up. */
cm_status cm_onnx_inline(cm_importer *im, cm_network *g, cm_scope *outer, const char *prefix,
                         const pb_graph *p, cm_value *const *in, int n_in, cm_value **out,
                         int n_out) CM_MUST_USE;

/* node.c */
cm_status cm_onnx_node(cm_importer *im, cm_scope *s, const pb_node *p) CM_MUST_USE;
/* What a value of the node's scope is called in the network. */
const char *cm_onnx_value_name(cm_pending *u, const char *name);
/* Emit a pending node in its newest form, and bind its outputs. */
cm_status cm_onnx_emit(cm_pending *u) CM_MUST_USE;

/* attribute.c */
const cm_attribute *cm_onnx_find_attr(const cm_pending *u, const char *name);
/* The node's attributes, references to a function's arguments resolved. */
cm_status cm_onnx_attributes(cm_pending *u, const pb_node *p) CM_MUST_USE;
cm_status cm_onnx_attr_struct(cm_pending *u, const cm_op *op, void **out) CM_MUST_USE;
pb_attribute_type cm_onnx_attr_type(const pb_attribute *p);

/* function.c */
cm_status cm_onnx_function_table(cm_importer *im) CM_MUST_USE;
const pb_function *cm_onnx_find_function(cm_importer *im, const char *domain, const char *op,
                                         cm_str overload);
cm_status cm_onnx_call(cm_pending *u, const pb_function *f) CM_MUST_USE;

/* constant.c */
cm_status cm_onnx_constant(cm_pending *u, cm_tensor *out) CM_MUST_USE;

/* support.c: everything that cannot be imported, in one sentence. */
cm_status cm_onnx_check_support(cm_importer *im) CM_MUST_USE;

/* control.c: graphs in attributes to nested networks, and the rules of how many values go in and
 * out. *n_subs is 0 for operators without graphs. */
cm_status cm_onnx_subgraphs(cm_pending *u, cm_network **subs, int *n_subs) CM_MUST_USE;

/* versions.c */
typedef cm_status (*cm_upgrade_fn)(cm_pending *u);
/* Rewrite the node from its opset's form to the newest. */
cm_status cm_onnx_upgrade(cm_pending *u) CM_MUST_USE;
/* Can a node of it be imported: is it an operator, or does it become others? */
bool cm_onnx_knows(cm_importer *im, const char *domain, const char *op);
const cm_op *cm_onnx_find_op(cm_importer *im, const char *domain, const char *op);

#endif
