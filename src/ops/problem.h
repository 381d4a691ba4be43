/* problem.h -- how an operator looks to backends: which kind of problem it is, with which sizes.
 * SPDX-License-Identifier: Apache-2.0
 *
 * problems.def lists the operators that have a kind; all others are evaluated. */
#ifndef CM_OPS_PROBLEM_H
#define CM_OPS_PROBLEM_H

#include "ops/op.h"
#include "plan/tactic.h"

/* Fill in p->as (and p->program) from the operator, its attributes and the tensors of `p`, whose sizes
 * are numbers that the type rule accepted. What it allocates comes from `arena`. False: this one is only
 * for the reference (a rare form, elements that are not known yet, out of memory). */
typedef bool (*cm_problem_fn)(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p);

typedef struct cm_problem_row {
    cm_op_id op;
    cm_problem_kind kind;
    cm_problem_fn fill;
} cm_problem_row;

/* The row of an operator, NULL: it is evaluated. */
const cm_problem_row *cm_problem_find(const cm_op *op);

/* Attributes by name, for the files of problems/; the default where not given. */
int64_t cm_attr_int(const cm_op *op, const void *attr, const char *name);
float cm_attr_float(const cm_op *op, const void *attr, const char *name);
cm_str cm_attr_str(const cm_op *op, const void *attr, const char *name);
cm_ints cm_attr_ints(const cm_op *op, const void *attr, const char *name); /* n 0: not given */
cm_floats cm_attr_floats(const cm_op *op, const void *attr, const char *name);

/* Element i of an integer input whose data is known. */
int64_t cm_problem_int(const cm_problem *p, int input, int64_t i);

#endif
