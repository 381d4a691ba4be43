/* chain.h -- several nodes in the place of one, made one after the other. The first that cannot be made ends the chain:
 * what follows makes nothing, and `st` says why.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_PASSES_CHAIN_H
#define CM_PASSES_CHAIN_H

#include "passes/match.h"

typedef struct cm_chain {
    cm_rewriter *rw;
    cm_node *at; /* new nodes stand before it and have its provenance */
    cm_status st;
} cm_chain;

/* A node of these inputs (NULL: absent), its attributes `attr` (NULL: none): output 0. */
cm_value *cm_chain_make(cm_chain *c, cm_op_id op, void *attr, int n_in, cm_value *const *in);
#define CM_THEN(c, op, attr, ...)                                                                  \
    cm_chain_make(c, op, attr, (int)(sizeof((cm_value *[]){__VA_ARGS__}) / sizeof(cm_value *)),    \
                  (cm_value *[]){__VA_ARGS__})

/* Attributes of a node to come. */
void *cm_chain_attr(cm_chain *c, cm_op_id op);
void cm_chain_int(cm_chain *c, cm_op_id op, void *attr, const char *name, int64_t v);
void cm_chain_ints(cm_chain *c, cm_op_id op, void *attr, const char *name, int k, const int64_t *v);

/* Constants: a number, a list of integers. */
cm_value *cm_chain_number(cm_chain *c, cm_dtype t, double v);
cm_value *cm_chain_list(cm_chain *c, int k, const int64_t *v);

/* Often wanted: x over the axes, which stay as 1 or go; x as another type; x in another shape (as Reshape reads it);
 * x[begin, end) of an axis. */
cm_value *cm_chain_reduce(cm_chain *c, cm_op_id op, cm_value *x, int k, const int64_t *axes,
                          bool keep);
cm_value *cm_chain_cast(cm_chain *c, cm_value *x, cm_dtype to);
cm_value *cm_chain_reshape(cm_chain *c, cm_value *x, int k, const int64_t *dims);
cm_value *cm_chain_slice(cm_chain *c, cm_value *x, int64_t axis, int64_t begin, int64_t end);

/* x in float32 where it is a half, so that sums and squares are not rounded on the way. */
cm_value *cm_chain_widen(cm_chain *c, cm_value *x);

/* Whoever read output o of the chain's node reads v, in the type that was there. */
void cm_chain_end(cm_chain *c, int o, cm_value *v);

/* For a plan only: every node that `is` one of the forms, in the place of which `expand` makes others. */
typedef struct cm_chain_form {
    bool (*is)(const cm_node *n);
    void (*expand)(cm_chain *c);
} cm_chain_form;
cm_status cm_chain_rewrite(cm_rewriter *rw, cm_network *g, const cm_chain_form *forms,
                           int n_forms) CM_MUST_USE;

#endif
