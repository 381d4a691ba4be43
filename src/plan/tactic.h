/* tactic.h -- one way of solving a class of problems on one machine class: a row of a table.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Each backend has one ordered table per problem kind, best guess first; the last row is the
 * reference and accepts everything. Tests, benches and the tuner walk the same tables. Names are in
 * plans and timing caches: never renamed. */
#ifndef CM_PLAN_TACTIC_H
#define CM_PLAN_TACTIC_H

#include "plan/problem.h"
#include "plan/program.h"
#include "plan/target.h"

/* A problem with its shapes bound, as a tactic is shown it. */
typedef struct cm_problem {
    cm_problem_kind kind;
    const char *op; /* EVALUATE: the operator */
    const void *attr;
    int n_in, n_out;
    const cm_operand *in, *out;
    const cm_type *const *in_types, *const *out_types; /* NULL: absent; dims are numbers */
    const bool *constant;                              /* per input: the same in every run */
    const cm_program *epilogue;                        /* NULL: none */
} cm_problem;

/* Tunable numbers; what each means is the tactic's. */
typedef struct cm_knobs {
    int32_t v[8];
} cm_knobs;

typedef struct cm_tactic {
    const char *name;
    int level; /* least cm_target.level that it runs on */
    /* Why it declines this problem, or NULL. Not a failure: reports print it. */
    const char *(*reject)(const cm_problem *p, const cm_target *t);
    int n_knobs;
    const cm_knobs *knobs; /* settings worth trying, best guess first */
    size_t (*workspace)(const cm_problem *p, const cm_knobs *k); /* NULL: none */
    /* Constant inputs brought into the form that `run` wants, at build time. NULL: as they are. */
    cm_status (*prepare)(cm_ctx *cx, cm_arena *arena, const cm_problem *p, const cm_knobs *k,
                         int input, const cm_tensor *from, cm_tensor *to);
    /* NULL for EVALUATE: the runtime calls the operator's evaluator. */
    cm_status (*run)(cm_ctx *cx, const cm_problem *p, const cm_knobs *k, const cm_tensor *const *in,
                     cm_tensor *const *out, void *workspace);
} cm_tactic;

#endif
