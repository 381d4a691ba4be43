/* runtime.h -- engines and contexts: plans opened for use, and run.
 * SPDX-License-Identifier: Apache-2.0
 *
 * An engine is a plan opened: immutable, shared by threads, counted. A context is one running
 * instance: its input shapes, its memory, its threads; one thread uses it at a time. Several contexts
 * of one engine run at once.
 *
 *     cm_engine_open_file -> cm_context_create -> { cm_context_set_input..., cm_context_run,
 *     cm_context_output... } again and again -> cm_context_destroy -> cm_engine_release */
#ifndef CM_RUNTIME_RUNTIME_H
#define CM_RUNTIME_RUNTIME_H

#include "plan/plan.h"
#include "runtime/timings.h"

typedef struct cm_engine cm_engine;
typedef struct cm_context cm_context;

typedef struct cm_engine_options {
    const char *variant; /* NULL: the plan's first */
    bool verify_weights; /* read all weights and compare their checksum */
    bool to_look;        /* a plan without its weights opens too; contexts refuse it */
} cm_engine_options;

/* `options` may be NULL. The engine keeps cx->allocator, nothing else of cx. Starts with one
 * reference. The file stays mapped as long as the engine lives. */
cm_status cm_engine_open_file(cm_ctx *cx, const char *path, const cm_engine_options *options,
                              cm_engine **out) CM_MUST_USE;
/* From bytes: copied, or (copy false) borrowed until the last release. */
cm_status cm_engine_open_memory(cm_ctx *cx, const void *bytes, size_t n, bool copy,
                                const cm_engine_options *options, cm_engine **out) CM_MUST_USE;
/* A plan that never was a file, as lower/ made it: it, its constants and what they lie in are borrowed
 * until the last release. */
cm_status cm_engine_open_lowered(cm_ctx *cx, cm_plan *plan, const cm_tensor *const *constants,
                                 cm_engine **out) CM_MUST_USE;
/* Where the constants of a lowered plan come from, if they can be had again: their plain form need not stay beside
 * the packed one. Set before contexts are made; both may be called from any thread, one at a time. */
typedef struct cm_constant_source {
    /* A constant was packed and nobody reads it plain. True: it is gone, and will be fetched if it is wanted after
     * all; false: it can still be read where it is. */
    bool (*let_go)(void *user, const void *bytes, size_t n);
    void (*fetch)(void *user, const void *bytes, size_t n, void *to);
    void *user;
} cm_constant_source;
cm_status cm_engine_set_source(cm_ctx *cx, cm_engine *e,
                               const cm_constant_source *source) CM_MUST_USE;
cm_engine *cm_engine_retain(cm_engine *e);
void cm_engine_release(cm_engine *e); /* NULL is fine */

const cm_plan *cm_engine_plan(const cm_engine *e);
const cm_plan_variant *cm_engine_variant(const cm_engine *e);
/* One tensor per constant of the plan in order of value index, as the plan writer wants them; tables in
 * cx->arena, data the engine's. */
cm_status cm_engine_constants(cm_ctx *cx, cm_engine *e, const cm_tensor *const **out) CM_MUST_USE;
int cm_engine_n_inputs(const cm_engine *e);
int cm_engine_n_outputs(const cm_engine *e);
const char *cm_engine_input_name(const cm_engine *e, int i);
const char *cm_engine_output_name(const cm_engine *e, int i);
const cm_type *cm_engine_input_type(const cm_engine *e, int i); /* symbolic */
const cm_type *cm_engine_output_type(const cm_engine *e, int i);
int cm_engine_find_input(const cm_engine *e, const char *name); /* -1: none */
int cm_engine_find_output(const cm_engine *e, const char *name);
/* Steps of all lists, numbered through; a control step's nested steps follow it. */
int cm_engine_n_steps(const cm_engine *e);
const cm_plan_step *cm_engine_step(const cm_engine *e, int index);

/* Called after each step while running. `step` as cm_engine_step numbers them, or, where only times are wanted, a copy to
 * or from a device. */
enum { CM_STEP_UPLOAD = -1, CM_STEP_DOWNLOAD = -2 };
typedef void (*cm_profile_fn)(void *user, int step, uint64_t start_ns, uint64_t end_ns);
/* Memory for an output whose shape only the run tells: `t` has element type and shape. NULL: out of
 * memory. */
typedef void *(*cm_output_fn)(void *user, int output, const cm_tensor *t, size_t bytes);

/* One way of solving a problem, while a tactic is picked. */
typedef struct cm_candidate {
    const cm_tactic *tactic;
    cm_knobs knobs;
    double predicted_ns, measured_ns; /* measured: NAN where it was not */
} cm_candidate;
/* Asked for every problem that is met while shapes are bound: may measure candidates with `threads`, which
 * nobody else uses meanwhile, and fill in measured_ns. */
typedef void (*cm_tune_fn)(void *user, uint64_t signature, const cm_problem *p, cm_candidate *list,
                           int n, cm_threads *threads);

typedef struct cm_context_options {
    int threads;             /* 0: one per core; 1: no thread is made */
    uint64_t seed;           /* of the random generator; 0 is a seed like any other */
    const cm_target *target; /* NULL: the CPU */
    cm_profile_fn profile;
    cm_stint_fn
        stint; /* told what each of the context's threads did, until it is destroyed; base/threads.h */
    void *profile_user; /* of both */
    bool
        only_times; /* `profile` looks at no values: steps of a device are launched together, as without it */
    const cm_timings *timings; /* besides the plan's own; NULL: none. Outlives the context */
    cm_tune_fn tune;
    void *tune_user;
    size_t max_memory; /* bytes for packed weights and activations; 0: no limit */
} cm_context_options;

/* `options` may be NULL. Retains the engine. */
cm_status cm_context_create(cm_ctx *cx, cm_engine *e, const cm_context_options *options,
                            cm_context **out) CM_MUST_USE;
void cm_context_destroy(cm_context *c);
cm_engine *cm_context_engine(const cm_context *c);

/* Inputs. The datum is borrowed: its memory must stay valid and unchanged until the run returns.
 * Tensors are dense (sub-byte types packed); a tensor whose data is not aligned to its element is
 * copied when the run starts. */
cm_status cm_context_set_input(cm_ctx *cx, cm_context *c, int i, const cm_datum *d) CM_MUST_USE;
/* Memory of ours for input i, of that shape; the caller fills it in before running. */
cm_status cm_context_input_memory(cm_ctx *cx, cm_context *c, int i, int rank, const int64_t *dims,
                                  cm_tensor *out) CM_MUST_USE;
/* Only the shape, to bind and ask what follows from it; the data comes later. */
cm_status cm_context_set_shape(cm_ctx *cx, cm_context *c, int i, int rank,
                               const int64_t *dims) CM_MUST_USE;

/* Check the inputs' shapes against their types, give symbols their values and plan memory. Running
 * does it too; doing it before tells memory and output shapes. Cheap while shapes stay the same. */
cm_status cm_context_bind(cm_ctx *cx, cm_context *c) CM_MUST_USE;
/* After binding: the shape of output i when it follows from the inputs' shapes; else false. */
bool cm_context_output_shape(const cm_context *c, int i, int *rank, int64_t *dims);
/* After binding: bytes of the arena. What a context holds besides: outputs of control steps, what
 * only the data sizes, evaluators' scratch. */
size_t cm_context_arena_bytes(const cm_context *c);
size_t cm_context_total_bytes(const cm_context *c);

/* How a step runs with the shapes that are bound (a late one: ran last). */
typedef struct cm_layer_facts {
    /* Its name; "reference" where no kernel takes it, "view" where nothing runs, "joined" where the kernel of the step before does it,
     * "late" before sizes are known. */
    const char *tactic;
    /* The tactic that was to run it and cannot be had on the device, and why. NULL: none, or the step is late. */
    const char *refused;
    bool reference;     /* worth a flag in reports */
    double expected_ns; /* by the cost model, of evaluators roughly; 0: not known */
    int n_conversions;  /* inputs that are brought into another layout first */
    bool channels_last; /* output 0 */
    size_t workspace;
    bool away; /* runs on the context's device */
    bool fell; /* would, but none of the device's tactics takes it: it runs on the CPU */
    bool
        small; /* runs on the CPU because it is cheaper there: arithmetic on a few integers, a loop's small work */
    bool
        idle; /* nothing runs: shape arithmetic told its outputs, they are its input's memory, or it is
                  inside a control step that did not run it */
} cm_layer_facts;
/* Compiled kernels that the bound context's device has, as plans keep them. Nothing on the CPU. */
void cm_context_images(const cm_context *c, cm_buf *out);
/* A target as the user wrote it with its level filled in, and what the machine is called in tables of
 * measurements (left alone on the CPU). The device stays open until it is released. */
cm_status cm_target_resolve(cm_ctx *cx, const cm_target *t, cm_target *out, char *machine, size_t n,
                            cm_device **held) CM_MUST_USE;
void cm_target_release(const cm_target *t, cm_device *held); /* NULL is fine */

void cm_context_layer(const cm_context *c, int step, cm_layer_facts *out);

/* The first tactic of a target (NULL: the context's device), this machine's or another, that takes the bound step as it
 * is laid out here; NULL: none, and *why is the first reason given. */
const char *cm_context_taken_on(const cm_context *c, int step, const cm_target *target,
                                const char **why);

/* Each tactic of the step's kind with what it is expected or was measured to take by itself, joined to another step or not, or why it
 * declines (then `candidate` is NULL). Only for steps that are bound. */
typedef void (*cm_tactic_fn)(void *user, const cm_tactic *t, const char *reason,
                             const cm_candidate *candidate);
/* A bound step as its backend sees it, NULL: no backend does. */
const cm_problem *cm_context_problem(const cm_context *c, int step);
void cm_context_tactics(const cm_context *c, int step, cm_tactic_fn fn, void *user);
/* The problem that tables of measurements know a bound step by, and what was chosen for it; false: no backend runs it. */
bool cm_context_chosen(const cm_context *c, int step, uint64_t *problem, cm_candidate *out);

/* Put the constants that the bound steps read packed, and nobody reads plain, into `p` (a copy of the
 * engine's plan) in their packed form, where it can be undone; of the others as many as take no more bytes than
 * all constants, or `all`, beside their plain form. `constants` as cm_engine_constants lists them; *stored is the list to write. Tables are in
 * cx->arena, data is the engine's. */
cm_status cm_context_packed(cm_ctx *cx, const cm_context *c, cm_plan *p,
                            const cm_tensor *const *constants, bool all,
                            const cm_tensor *const **stored) CM_MUST_USE;

/* The caller's memory for output i, used by every run until changed; NULL: ours again. The result is
 * written there straight where that can be, else copied. Too little: the run fails and says how much
 * is wanted. Not for strings, sequences, optionals and maps. */
cm_status cm_context_set_output(cm_ctx *cx, cm_context *c, int i, void *data,
                                size_t bytes) CM_MUST_USE;
/* The same with a function that is asked during the run. NULL: none. */
cm_status cm_context_set_output_fn(cm_ctx *cx, cm_context *c, int i, cm_output_fn fn,
                                   void *user) CM_MUST_USE;

/* On a context whose target is a device. Input and output memory there, aligned to 16 bytes, read and written
 * in the order of the context's stream; an output's NULL is the host's again, an input's is undone by setting
 * one on the host. */
cm_status cm_context_set_device_input(cm_ctx *cx, cm_context *c, int i,
                                      const cm_tensor *t) CM_MUST_USE;
cm_status cm_context_set_device_output(cm_ctx *cx, cm_context *c, int i, void *data,
                                       size_t bytes) CM_MUST_USE;
/* Work goes to the caller's stream (a CUstream), which outlives the context; NULL: to its own. */
cm_status cm_context_set_stream(cm_ctx *cx, cm_context *c, void *native) CM_MUST_USE;
/* Begin a run: inputs on the host may be written to again, outputs are there after a wait. Steps that run on the CPU are
 * waited for. The same as a run where there is no device. */
cm_status cm_context_enqueue(cm_ctx *cx, cm_context *c) CM_MUST_USE;
cm_status cm_context_wait(cm_ctx *cx, cm_context *c) CM_MUST_USE;
/* Nanoseconds that the device's steps take, by its own clock, run by run; after a run. */
cm_status cm_context_device_ns(cm_ctx *cx, cm_context *c, int runs, double *ns) CM_MUST_USE;

/* Run once. Failures name the node. cx->cancel and cx->deadline_ns are looked at before every step
 * and every iteration. */
cm_status cm_context_run(cm_ctx *cx, cm_context *c) CM_MUST_USE;
/* Output i of the last run that succeeded, else NULL. Valid until the next run, bind or destroy. May
 * lie in an input's memory or in the plan: not to be written to. */
const cm_datum *cm_context_output(const cm_context *c, int i);

#endif
