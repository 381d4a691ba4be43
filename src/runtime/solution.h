/* solution.h -- how a context runs each step with the sizes it is bound to.
 * SPDX-License-Identifier: Apache-2.0
 *
 * form.c makes a problem of a step and actual tensors; select.c picks the tactic; prepare.c does it for
 * all steps whose sizes follow from the inputs' shapes, layouts solved over the whole network; what only
 * data sizes is formed while running, by the same functions. */
#ifndef CM_RUNTIME_SOLUTION_H
#define CM_RUNTIME_SOLUTION_H

#include "plan/backend.h"

struct cm_ready_step;
struct cm_context;
struct cm_engine;

typedef enum {
    CM_WAY_LATE,      /* sizes are not known before the step runs */
    CM_WAY_EVALUATOR, /* the operator's reference */
    CM_WAY_TACTIC,
    CM_WAY_VIEW,  /* the output is input 0's memory under another shape */
    CM_WAY_KNOWN, /* shape arithmetic told its outputs: nothing runs */
} cm_way;

/* An input brought into the layout that the step wants, before it runs. */
typedef struct cm_conversion {
    int input;
    cm_datum to; /* a tensor in the step's workspace */
    size_t offset;
} cm_conversion;

enum { CM_MOST_CANDIDATES = 96 }; /* tactics and settings of them that are compared for a problem */
typedef struct cm_choice {
    const cm_tactic *tactic; /* NULL: the reference */
    cm_knobs knobs;
    double ns; /* expected */
} cm_choice;

typedef struct cm_solution {
    cm_way way;
    bool may_go, away; /* could, does run on the device */
    bool small;        /* could, but is not worth the way there */
    const void *state; /* there: what the tactic's `ready` made */
    int *counted;      /* there, NULL: no: sizes come with the data; see cm_form_outputs */
    size_t count;      /* ... and where in pinned memory the kernel writes it */
    cm_choice choice;
    /* There: what was chosen before `choice` and cannot be had, and why. NULL: nothing. */
    const char *refused;
    cm_problem p;
    int n_in;             /* all, the epilogue's operands last */
    const cm_tensor **in; /* of all; NULL: absent */
    const void **data;    /* pointers of a run: inputs, then operands */
    void **out_data;
    const void **packed; /* per input; NULL: as it is */
    const void *ahead;   /* those of a step soon after it (cm_run.ahead) */
    size_t ahead_bytes;
    int n_conversions;
    cm_conversion *conversions;
    uint64_t conversion_ns; /* of the last run, where runs are profiled */
    size_t workspace;       /* bytes, conversions behind the tactic's own */
    size_t offset;          /* in the context's memory */
    int chain;    /* so many steps, this one the first, run band by band (bands.h); 0: it alone */
    int64_t band; /* rows of the last one's output at a time */
    int until;    /* position where its chain ends; 0: it is in none */
    int64_t kept; /* rows of its output that there is memory for; 0: all */
    const struct cm_ready_step
        *then;     /* on a device: the step that its kernel does too, NULL: none */
    bool joined;   /* the step before it does */
    cm_arena late; /* WAY_LATE: what its latest form lies in */
    bool formed;   /* WAY_LATE: `late` holds a form, for the sizes in p */
    uint64_t ran;  /* inside a control step, on a device: in which run it last did */
} cm_solution;

/* Is it of elements that problems are made of? Those of less than a byte are where a device may take them, packed. */
bool cm_form_takes(const struct cm_context *c, const cm_tensor *t);
/* Sizes of the outputs by the type rule, from tensors whose data may be NULL where it is not known.
 * False: they are not to be known yet; `dims` is for what the rule then says. `out` (NULL: not wanted)
 * gets dtype, dims and dense strides. `counted` (NULL: all must be known) gets, per output, the axis that only data
 * size, -1: none; that is as large there as it can be. */
bool cm_form_outputs(cm_ctx *cx, cm_dim_table *dims, const struct cm_ready_step *s,
                     const cm_tensor *const *in, cm_tensor *const *out, int *counted);
/* The step as a problem; false: only its reference can solve it. Arrays are in `arena`, tensors the
 * caller's. */
bool cm_form_problem(cm_arena *arena, const struct cm_ready_step *s, const cm_tensor *const *in,
                     const bool *constant, const cm_tensor *const *out, const cm_target *target,
                     int threads, cm_problem *p);

/* The cheapest tactic; choice->tactic NULL and ns INFINITY when none takes the problem. What was measured
 * counts before what is expected; where nothing was, the best for another number of threads counts for less than it is
 * expected to take. */
void cm_select(const struct cm_context *c, const struct cm_ready_step *s, const cm_problem *p,
               cm_choice *out);
/* The same of what is left without some tactics; nothing is tuned. */
void cm_select_without(const struct cm_context *c, const struct cm_ready_step *s,
                       const cm_problem *p, const cm_tactic *const *refused, int n_refused,
                       cm_choice *out);
/* By what is expected alone. */
void cm_select_expected(const struct cm_ready_step *s, const cm_problem *p, cm_choice *out);
/* The same on every machine for the same problem, whatever network it is in. */
uint64_t cm_signature(const struct cm_ready_step *s, const cm_problem *p);

/* packed.c: input i of the step's problem in the form that the choice wants. *out NULL: as it is. Kept by
 * the engine, shared by its contexts. */
cm_status cm_packed_input(cm_ctx *cx, struct cm_engine *e, const struct cm_ready_step *s,
                          const cm_problem *p, const cm_choice *choice, int i, cm_threads *threads,
                          const void **out) CM_MUST_USE;
/* What the plan stores packed, for the kernels of this library. */
cm_status cm_packed_open(cm_ctx *cx, struct cm_engine *e) CM_MUST_USE;
/* A constant's plain form, kept by the engine where the plan has it packed. */
cm_status cm_plain_constant(cm_ctx *cx, struct cm_engine *e, int32_t value,
                            const void **out) CM_MUST_USE;
/* Plain forms, where the plan has none, for the inputs that the step does not read packed. */
cm_status cm_plain_inputs(cm_ctx *cx, struct cm_context *c, const struct cm_ready_step *s,
                          const cm_solution *sol) CM_MUST_USE;
void cm_packed_release(struct cm_engine *e);
/* Constants' slots as the engine has them now: what it has let go has no data. */
void cm_refresh_constants(struct cm_context *c);

/* Strides of `out`, whose dims are set, as a view of `in`; false: elements must move. */
bool cm_view_strides(const cm_tensor *in, cm_tensor *out);
bool cm_is_channels_last(const cm_tensor *t);

/* prepare.c: everything about steps that the inputs' shapes tell. */
cm_status cm_prepare(cm_ctx *cx, struct cm_context *c) CM_MUST_USE;
/* ... and then their weights. */
cm_status cm_pack_weights(cm_ctx *cx, struct cm_context *c) CM_MUST_USE;
/* late.c: a step whose inputs have just come. What is asked about it, in its solution's arena; of inputs that vary types alone. */
typedef struct cm_late_operands {
    cm_tensor *in, *out;
    cm_tensor **outs; /* NULL: nobody reads it */
    bool *constant;
} cm_late_operands;
cm_status cm_late_gather(cm_ctx *cx, const struct cm_context *c, const struct cm_plan_step *step,
                         cm_solution *sol, cm_late_operands *out) CM_MUST_USE;
/* Are its inputs dense tensors, none of strings or of parts of bytes? */
bool cm_late_takes(const struct cm_context *c, const struct cm_plan_step *step);
/* Before it is formed anew. */
void cm_late_forget(cm_ctx *cx, const struct cm_context *c, cm_solution *sol);
/* Types of all outputs, none of strings or of parts of bytes. `counted` as cm_form_outputs has it. */
bool cm_late_outputs(cm_ctx *cx, const struct cm_context *c, const struct cm_ready_step *s,
                     cm_solution *sol, const cm_late_operands *x, int *counted);
cm_status cm_prepare_late(cm_ctx *cx, struct cm_context *c, const struct cm_ready_step *s,
                          cm_solution *sol) CM_MUST_USE;

#endif
