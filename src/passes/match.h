/* match.h -- what passes ask about nodes and values, and how they make new ones.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_PASSES_MATCH_H
#define CM_PASSES_MATCH_H

#include "passes/passes.h"

static inline bool cm_is(const cm_node *n,
                         cm_op_id op) /* n may be NULL; an epilogue disqualifies */
{
    return n && n->op->id == op && !n->epilogue.program;
}
/* The producer of v when it is an `op` without an epilogue in v's own network, else NULL. v may be
 * NULL. */
cm_node *cm_made_by(const cm_value *v, cm_op_id op);
/* The only node that reads v, when v has one use and it is a node of the same network, else NULL. */
cm_node *cm_only_reader(const cm_value *v);
/* Is output 0 the only output of n that anybody reads? */
bool cm_one_output(const cm_node *n);

/* Attributes by name; the default of the descriptor when absent. The attribute must exist in the
 * operator's descriptor (a programming error otherwise: asserted). */
int64_t cm_int(const cm_node *n, const char *name);
double cm_float(const cm_node *n, const char *name);
cm_str cm_string(const cm_node *n, const char *name);
cm_ints cm_int_list(const cm_node *n, const char *name);
bool cm_given(const cm_node *n, const char *name);
bool cm_string_is(const cm_node *n, const char *name, const char *text);
/* Set one; lists and strings are copied into the network's arena. */
cm_status cm_set_int(cm_ctx *cx, cm_node *n, const char *name, int64_t v) CM_MUST_USE;
cm_status cm_set_float(cm_ctx *cx, cm_node *n, const char *name, double v) CM_MUST_USE;
cm_status cm_set_string(cm_ctx *cx, cm_node *n, const char *name, const char *v) CM_MUST_USE;
cm_status cm_set_ints(cm_ctx *cx, cm_node *n, const char *name, const int64_t *v,
                      int k) CM_MUST_USE;

/* Constants. */
bool cm_splat(const cm_value *v, double *x); /* a constant whose elements are all the same number */
bool cm_is_number(const cm_value *v, double x, double rtol); /* a splat within rtol of x */
bool cm_const_ints(const cm_value *v, int64_t *out, int max,
                   int *n); /* constant, or tracked elements
                                                                         that are numbers */
static inline bool cm_is_const(const cm_value *v)
{
    return v && v->constant;
}
/* Elements of a constant as doubles, in scratch (sub-byte unpacked). */
cm_status cm_const_f64(cm_ctx *cx, const cm_value *v, const double **out, int64_t *n) CM_MUST_USE;
/* New constants in g. The values are rounded to dtype. */
cm_status cm_make_const_f64(cm_ctx *cx, cm_network *g, const char *name, cm_dtype dtype, int rank,
                            const int64_t *dims, const double *v, cm_value **out) CM_MUST_USE;
cm_status cm_make_const_i64(cm_ctx *cx, cm_network *g, const char *name, int rank,
                            const int64_t *dims, const int64_t *v, cm_value **out) CM_MUST_USE;
cm_status cm_make_scalar(cm_ctx *cx, cm_network *g, const char *name, cm_dtype dtype, double v,
                         cm_value **out) CM_MUST_USE;

/* Types. */
static inline int cm_rank(const cm_value *v) /* -1: unknown or not a tensor */
{
    return v && v->type.kind == CM_TENSOR ? v->type.rank : -1;
}
bool cm_same_shape(const cm_value *a, const cm_value *b); /* surely */
bool cm_static_shape(const cm_value *v, int64_t *dims);   /* all numbers */
bool cm_is_float(const cm_value *v);
/* Elements, when all dims are numbers; -1 otherwise. */
int64_t cm_volume(const cm_value *v);

/* A new node before `before` (provenance that of `like` and nothing else), types inferred. */
cm_status cm_make(cm_rewriter *rw, cm_node *before, cm_op_id op, const cm_node *like,
                  cm_value *const *in, int n_in, int n_out, cm_node **out) CM_MUST_USE;
/* The same, attributes set by `attr` (made with cm_attr_new for that operator, or NULL) before types
 * are inferred. */
cm_status cm_make_with(cm_rewriter *rw, cm_node *before, cm_op_id op, void *attr,
                       const cm_node *like, cm_value *const *in, int n_in, int n_out,
                       cm_node **out) CM_MUST_USE;
/* v in another element type. */
cm_status cm_make_cast(cm_rewriter *rw, cm_node *before, const cm_node *like, cm_value *v,
                       cm_dtype to, cm_node **out) CM_MUST_USE;
/* A fresh attribute struct for `op` in g's arena. */
cm_status cm_new_attr(cm_ctx *cx, cm_network *g, cm_op_id op, void **out) CM_MUST_USE;
cm_status cm_attr_put_int(cm_ctx *cx, cm_op_id op, void *attr, const char *name,
                          int64_t v) CM_MUST_USE;
cm_status cm_attr_put_float(cm_ctx *cx, cm_op_id op, void *attr, const char *name,
                            double v) CM_MUST_USE;
cm_status cm_attr_put_string(cm_ctx *cx, cm_network *g, cm_op_id op, void *attr, const char *name,
                             const char *v) CM_MUST_USE;
cm_status cm_attr_put_ints(cm_ctx *cx, cm_network *g, cm_op_id op, void *attr, const char *name,
                           const int64_t *v, int k) CM_MUST_USE;

/* Everything that read output 0 of `old` reads `to`; `n` (NULL: nobody), the node that does old's work
 * now, covers old too. */
cm_status cm_replace(cm_rewriter *rw, const cm_node *old, cm_value *to, cm_node *n) CM_MUST_USE;
/* Remove n when nobody reads its outputs, then what only it read, and so on: for passes that count
 * readers. Never removes a node that stands after n. */
void cm_drop_if_dead(cm_node *n);
/* node->mark = its position in g, 1, 2, ... */
void cm_number_nodes(cm_network *g);

#endif
