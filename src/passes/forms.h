/* forms.h -- reading arithmetic in whatever way it was written down: products, powers, Casts.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_PASSES_FORMS_H
#define CM_PASSES_FORMS_H

#include "passes/match.h"

/* The nodes that make up what was recognised, for the provenance of what replaces them. Readers below
 * note the nodes that they pass; a reader that answers false may leave a few too many: go back with
 * `form.n_nodes = before`. */
enum { CM_FORM_MAX = 64 };
typedef struct cm_form {
    const cm_node *node[CM_FORM_MAX];
    int n_nodes;
} cm_form;

void cm_note(cm_form *f, const cm_node *n);

/* The node that makes v, in v's own network and without an epilogue; NULL: none. */
cm_node *cm_maker(const cm_value *v);
/* v before Casts that only widened it: the same numbers. */
cm_value *cm_root(cm_value *v);
/* v before any Casts between floats: the same numbers but for rounding. */
cm_value *cm_past_casts(cm_form *f, cm_value *v);
/* Are a and b the same numbers? */
bool cm_same_numbers(cm_value *a, cm_value *b);
/* How far a constant in a network of v's element type may be from what it stands for, relative. */
double cm_slack(const cm_value *v);
bool cm_near_number(double x, double want, double slack);

/* n has two inputs, one of them a number: the other, and the number. NULL: not so. */
cm_value *cm_other_than_number(const cm_node *n, double *number);
/* The same for the first input, a number second: Div, Sub, Pow. */
cm_value *cm_first_with_number(const cm_node *n, double *number);

/* The product that n computes, taken apart through Mul, Div by a number and Casts that nobody else
 * reads: a number and up to `max` factors. False: more factors, or n is no product. */
bool cm_factors(cm_form *f, const cm_node *n, double *number, cm_value **factor, int max,
                int *n_factors);
/* The same for the value v, which need not be a product. */
bool cm_factors_of(cm_form *f, cm_value *v, double *number, cm_value **factor, int max,
                   int *n_factors);
/* Is v = c * x^k, k >= 1? */
bool cm_monomial(cm_form *f, cm_value *v, cm_value *x, double *c, int *k);
/* Is v = c * x? */
bool cm_multiple(cm_form *f, cm_value *v, cm_value *x, double *c);
/* Is v = 1 + exp(c * x)? x NULL in: whatever stands there goes to *x. */
bool cm_one_plus_exp(cm_form *f, cm_value *v, cm_value **x, double *c);

/* Put `op` of `in` before `last`, covering the form's nodes, and let it take the place of last's
 * output. The types must be the same: the caller has checked. */
cm_status cm_form_replace(cm_rewriter *rw, cm_form *f, cm_node *last, cm_op_id op, void *attr,
                          cm_value *const *in, int n_in) CM_MUST_USE;
/* A function of one tensor in the place of `last`: shapes are checked, and x becomes last's element type by
 * a Cast where it is not. *done: false when the shapes differ or no more rewrites are allowed. */
cm_status cm_form_unary(cm_rewriter *rw, cm_form *f, cm_node *last, cm_op_id op, void *attr,
                        cm_value *x, bool *done) CM_MUST_USE;

#endif
