/* internal.h -- what an engine and a context are made of; for this room only.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_RUNTIME_INTERNAL_H
#define CM_RUNTIME_INTERNAL_H

#include <limits.h>
#include <pthread.h>

#include "base/ranges.h"
#include "base/threads.h"
#include "ops/op.h"
#include "ops/problem.h"
#include "runtime/memory_plan.h"
#include "runtime/room.h"
#include "runtime/runtime.h"
#include "runtime/solution.h"

/* A step with its operator found and its attributes read. */
typedef struct cm_ready_step {
    const cm_plan_step *plan;
    const cm_op *op;
    const void *attr;
    const void *prepared;          /* for its evaluator; see cm_family */
    const cm_program *program;     /* its epilogue, NULL: none */
    const cm_problem_row *problem; /* how backends see it, NULL: they do not */
    int index;                     /* as cm_engine_step numbers them */
    int begin, end; /* positions in the order of execution; a control step spans its lists' */
    int control;    /* which control state of a context, -1: not a control step */
} cm_ready_step;

typedef struct cm_ready_list {
    const cm_plan_list *plan;
    cm_ready_step *steps;
} cm_ready_list;

/* What is known of a value without data. */
typedef struct cm_ready_value {
    int list;        /* that makes it, -1: a constant or one that this variant does not use */
    int first, last; /* positions: made, last read (views of it counted in) */
    bool by_step;    /* made by a step; else an input of its list */
    bool in_arena;   /* an evaluator's plain tensor: may get a place in the arena */
    bool movable;    /* made by a step and carried to the next iteration: its room is swapped */
    const void
        *data; /* CONSTANT: in the mapping; strings: in the engine's arena; NULL: the plan has it
                         packed, and nobody wanted it plain yet (guarded by `packing`) */
    size_t own_bytes; /* of data, where it was unpacked or fetched; 0: not ours */
    const void *gone; /* CONSTANT: where it was, if the engine's source has let it go */
    bool plain;       /* CONSTANT: somebody reads it, or another that overlaps it, as it is */
} cm_ready_value;

typedef struct cm_packed cm_packed;
typedef struct cm_device_constant cm_device_constant;
typedef struct cm_device_state cm_device_state;
typedef struct cm_binding cm_binding;

enum { CM_MOST_BINDINGS = 8 }; /* sets of input shapes that a context keeps what it made for */

struct cm_engine {
    atomic_int refs;
    const cm_allocator *allocator;
    cm_arena arena;
    cm_mapping mapping;        /* data NULL: not from a file */
    cm_constant_source source; /* let_go NULL: constants stay where they are */
    void *copy;
    size_t copy_bytes;
    cm_plan *plan;
    const cm_plan_variant *variant;
    bool tf32; /* the variant's products may shorten their operands */
    cm_ready_list *lists;
    cm_ready_value *values;
    const cm_plan_step **steps; /* all, by index */
    const cm_ready_step **ready;
    const cm_timings *timings; /* of the plan's section for this machine, NULL: none */
    cm_timings own_timings;
    int n_steps, n_controls;
    int max_in, max_out;     /* over the steps */
    pthread_mutex_t packing; /* guards the three below */
    cm_packed *packed;
    cm_device_constant *on_devices; /* constants in the memory of devices */
    bool repacked;                  /* what the plan had packed for other kernels */
    atomic_bool told;               /* that tactics were chosen by the cost model */
    atomic_bool told_refused;       /* that others run than were chosen */
};

/* A value while running. */
typedef struct cm_slot {
    cm_datum datum; /* kind CM_NOTHING: not made yet */
    cm_room room;
    size_t offset, planned; /* place in the arena; planned 0: none */
    int interval;           /* of the memory plan, while it is made; -1: none */
    bool shaped; /* bound: datum has the sizes and strides of every run, and memory unless it is a
                    caller's, a view or a room's */
    bool owned;  /* datum lies in `room` */
    bool moved;  /* its room is about to be swapped away */
    int output;  /* the main output whose caller's memory it is written to, -1 */
} cm_slot;

/* A scanned output being stacked (stack.h). */
typedef struct cm_stack {
    cm_tensor each;    /* type and shape of one item, once the first has come */
    size_t item_bytes; /* unpacked */
    int64_t axis;
    bool reversed;
    int64_t length; /* how many will come, -1: not known */
    int64_t hint;
    int64_t n; /* how many have */
} cm_stack;

/* What a control step needs from one iteration to the next. */
typedef struct cm_control {
    int n_carried;
    cm_room *pending; /* per carried value: the next one, where rooms cannot be swapped */
    cm_datum *next;
    bool *copied;
    int n_stacks;
    cm_stack *stacks;
    int n_scanned;
    cm_tensor *scanned; /* inputs that a Scan cuts, unpacked */
    cm_room *unpacked;  /* where sub-byte ones are */
} cm_control;

/* An output's destination at the caller's. */
typedef struct cm_output_binding {
    void *data;
    size_t bytes;
    cm_output_fn fn;
    void *user;
    bool over_input; /* overlaps the memory of an input */
} cm_output_binding;

struct cm_context {
    const cm_allocator *allocator;
    cm_engine *engine;
    cm_arena arena;   /* tables that live as long as the context */
    cm_arena scratch; /* of evaluators */
    cm_threads *threads;
    cm_target target;        /* of what runs on the CPU */
    cm_device_state *device; /* NULL: all runs on the CPU */
    const cm_timings *timings;
    cm_tune_fn tune;
    void *tune_user;
    size_t max_memory;      /* 0: no limit */
    bool lean;              /* bound with tactics that need little memory */
    size_t packed_bytes;    /* of weights as the bound steps want them */
    cm_arena bound_arena;   /* what binding made: problems, tensors, solutions' tables */
    cm_solution *solutions; /* per step */
    int *last;              /* per value: last position that reads it, views counted in */
    cm_room late_workspace;
    uint64_t random; /* state of the generator */
    cm_profile_fn profile;
    void *profile_user;
    bool only_times;
    bool heard;     /* a profiler listens: layers are named in ranges */
    cm_slot *slots; /* one per value of the plan */
    cm_control *controls;
    const cm_datum **in; /* room for one step's operands */
    cm_datum **out;
    cm_datum *inputs;                       /* as the caller set them; kind CM_NOTHING: not set */
    cm_binding *bindings[CM_MOST_BINDINGS]; /* NULL: never used */
    int binding;                            /* the one that it works with */
    uint64_t turn;
    bool *by_value;        /* per input: its elements are bound, see by_value.h */
    const void **elements; /* ... of this binding, NULL: not bound */
    int elements_changed;
    bool elements_vary; /* too often: none are bound any more */
    bool bound, ran;
    int64_t *symbols; /* their values, by index */
    int n_intervals;  /* after binding */
    cm_interval *intervals;
    int32_t *interval_values;
    void *memory; /* the arena that the memory plan lays out */
    size_t memory_bytes, memory_used;
    cm_output_binding *outputs;
};

/* bind.c: is the datum what input i may be? */
cm_status cm_check_input(cm_ctx *cx, const cm_engine *e, int i, const cm_datum *d) CM_MUST_USE;
/* context.c: the shape of input i, wherever its memory is. */
cm_status cm_set_shape(cm_ctx *cx, cm_context *c, int i, int rank, const int64_t *dims) CM_MUST_USE;
/* Is it one of the network's outputs? */
bool cm_is_output(const cm_context *c, int32_t v);
/* exec.c: where the caller wants output `o`; NULL: nowhere in particular. */
cm_status cm_callers_memory(cm_ctx *cx, cm_context *c, int o, const cm_tensor *t, size_t bytes,
                            void **out) CM_MUST_USE;
/* A bound step's memory: pointers of its inputs and outputs in its solution; and a run with them. */
cm_status cm_set_pointers(cm_ctx *cx, cm_context *c, const cm_ready_step *s,
                          cm_solution *sol) CM_MUST_USE;
cm_run cm_run_of(cm_ctx *cx, const cm_context *c, const cm_solution *sol);
/* Run one step; failures name it. */
cm_status cm_run_step(cm_ctx *cx, cm_context *c, const cm_ready_step *s) CM_MUST_USE;
/* Run a step list; its inputs are in their slots. */
cm_status cm_run_list(cm_ctx *cx, cm_context *c, int list) CM_MUST_USE;
/* device_inner.c, for control.c; without a device the host has all values. The host put input v of a list into its
 * slot; it is `outer`, from byte `offset` on, which the device may have too. */
void cm_inner_put(cm_context *c, int32_t v);
void cm_inner_lend(cm_context *c, int32_t v, int32_t outer, size_t offset);
/* Value v as a list finds it, to the host. */
cm_status cm_inner_fetch(cm_ctx *cx, cm_context *c, int32_t v, int list) CM_MUST_USE;
/* Has the device alone the value that a list made? */
bool cm_inner_away(const cm_context *c, int32_t v);
/* What a list made is its input now. */
void cm_inner_carry(cm_context *c, int32_t from, int32_t to);
/* control.c */
cm_status cm_control_create(cm_ctx *cx, cm_context *c, const cm_ready_step *s) CM_MUST_USE;
void cm_control_destroy(cm_context *c, int control);
cm_status cm_run_control(cm_ctx *cx, cm_context *c, const cm_ready_step *s) CM_MUST_USE;
/* How many inputs and outputs of a body are carried from one iteration to the next: outputs
 * [*first_out, *first_out + n). */
int cm_control_carried(const cm_ready_step *s, int *first_in, int *first_out);
cm_status cm_control_check(cm_ctx *cx, const cm_engine *e, const cm_ready_step *s) CM_MUST_USE;

/* engine_steps.c: the steps of the engine's variant, and from when to when its values are wanted. */
cm_status cm_open_steps(cm_ctx *cx, cm_engine *e) CM_MUST_USE;

#endif
