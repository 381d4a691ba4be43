/* device.h -- a context whose steps run on a device: where values are, and in which order work is given to whom.
 * SPDX-License-Identifier: Apache-2.0
 *
 * When shapes are bound, every step of the main list is given to the device or to the host (the CPU), and copies
 * between the two are planned. Steps of the device are collected into segments, as long as no step of the host
 * waits for what they make; a segment is recorded once and launched as a whole. A value that is copied has memory of its
 * own on both sides, so that steps of the host may go ahead of a segment that stands before them in the list. */
#ifndef CM_RUNTIME_DEVICE_H
#define CM_RUNTIME_DEVICE_H

#include "runtime/internal.h"

/* A value of a device's context. */
typedef struct cm_place {
    bool host, away; /* has it been put into the host's, the device's memory? */
    bool up, down;   /* is it copied to the device, to the host? */
    bool once;       /* up: with the first run alone, it never changes */
    bool
        planned; /* has `offset` in the device's arena; else it is a weight, a view or a caller's */
    size_t offset, bytes;
    size_t pinned; /* up, down: offset of the copy in pinned memory */
    bool direct;   /* the caller's memory for an output: nothing is left to copy */
    bool counted;  /* each run has its own size; `bytes` is the most, the host's copy in its room */
    bool late;     /* each run tells its size, and maybe where it is: see cm_late_value */
    bool held;     /* late steps may read it on the device, to the end */
    const void *data; /* in the device's memory */
} cm_place;

typedef enum {
    CM_DO_HOST,    /* run `step` on the host */
    CM_DO_UP,      /* copy `value` to the device */
    CM_DO_SEGMENT, /* launch steps order[first, first + n) of the device */
    CM_DO_DOWN,    /* copy `value` to the host */
    CM_DO_OUT,     /* copy output `value` (its index) to the caller's memory on the device */
    CM_DO_WAIT,    /* for all that the device was given */
    CM_DO_COUNT,   /* wait for the size of what `step` made */
    CM_DO_LATE,    /* run `step`, whose sizes are known by now, wherever it can be */
    CM_DO_FETCH,   /* copy `value`, a late one, to the host if it is not there */
} cm_action_kind;

typedef struct cm_action {
    cm_action_kind kind;
    const cm_ready_step *step;
    int32_t value;
    int first, n;
    unsigned char *where; /* LATE: per input, CM_HERE and CM_THERE as placing knows it */
    const char *name;     /* of a segment, for profilers */
    cm_recording *recording;
} cm_action;

enum { CM_HERE = 1, CM_THERE = 2 }; /* in the host's, the device's memory */

/* A value that late steps make or read, in the run that goes on. */
typedef struct cm_late_value {
    uint64_t here, there; /* the run that last put it into the host's, the device's memory */
    const void *at;       /* there */
    void *room;           /* memory of its own on the device, which only grows */
    size_t bytes;
} cm_late_value;

/* What binding makes of it. */
typedef struct cm_device_tables {
    cm_place *places; /* per value */
    int n_actions, n_order;
    cm_action *actions;
    const cm_ready_step **order;
    int n_where; /* used of `where`: room for every step's inputs */
    unsigned char *where;
    size_t memory_used;
    size_t signals, signals_bytes; /* offset of what blocks of a step tell each other */
    /* The segments were recorded with these pointers. */
    bool recorded;
    uint64_t recorded_memory; /* `moves` then */
    const void **recorded_in;
    void **recorded_out;
    size_t *recorded_bytes;
} cm_device_tables;

struct cm_device_state {
    const cm_device_api *api;
    cm_device *device;
    cm_stream *stream; /* NULL: a class of devices, nothing runs */
    cm_target target;
    cm_device_tables tables;
    const void **in_at; /* per input: the caller's memory on the device; NULL: on the host */
    void **out_at;      /* per output */
    size_t *out_bytes;  /* ... and how much there is */
    bool in_flight;     /* enqueued and not waited for */
    unsigned char *memory, *pinned;
    size_t memory_bytes, pinned_bytes;
    uint64_t moves;          /* how often one of the two became another one */
    int resident;            /* the binding whose constants are in that memory, -1: none's */
    uint32_t *fault;         /* pinned: kernels write there what is wrong with their data */
    uint64_t run;            /* how many there were, this one counted */
    cm_late_value *late;     /* per value */
    cm_solution *late_forms; /* per step: the device's, where that is late */
    cm_late_value late_workspace;
    int64_t *late_count;  /* pinned */
    bool *looped;         /* per list: run by a Loop, a Scan or a SequenceMap, or inside one */
    unsigned char *where; /* room for one step of a list inside another */
    int n_marks;          /* that are open */
    cm_mark **marks;      /* while profiling; room for two more than there are steps */
    cm_timings timings;   /* of the plan's section for it */
};

/* device.c: opens it; destroys. */
cm_status cm_device_state_create(cm_ctx *cx, cm_context *c, const cm_target *t) CM_MUST_USE;
void cm_device_state_destroy(cm_context *c);
/* All that was enqueued is done, or the device failed. */
void cm_device_settle(cm_context *c);
void cm_forget_device_input(cm_context *c, int i);
/* device_place.c: where values are, copies and actions; solutions are settled. */
cm_status cm_place_values(cm_ctx *cx, cm_context *c) CM_MUST_USE;
void cm_forget_places(cm_context *c);
/* device_join.c: which steps' kernels do the step behind them too; values are placed. */
void cm_join_steps(cm_context *c);
/* device_bind.c: kernels ready, memory on the device, weights there. */
cm_status cm_device_bind(cm_ctx *cx, cm_context *c) CM_MUST_USE;
/* device_ready.c: what the step's choice needs on the device, its state in `arena`; where that cannot be had there, what the next
 * best tactic for the problem needs, which is then the choice, and sol->refused says so. A step that did another one too may be
 * parted from it: sol->then is NULL then, and the other one's solution is the caller's to change. CM_ERR_DEVICE: none is to be had,
 * and the sentence is about the first. A class of devices is refused nothing: whoever compiles for it is to know. */
cm_status cm_device_ready(cm_ctx *cx, const cm_context *c, const cm_ready_step *s, cm_solution *sol,
                          cm_arena *arena) CM_MUST_USE;
/* Whoever listens is told of a refusal, and how many more there are; once per engine. */
void cm_tell_refused(cm_ctx *cx, cm_context *c, const cm_ready_step *s, const cm_solution *sol,
                     int more);
/* device_weights.c: a constant in the device's memory, packed as the choice wants it (NULL: as it is); kept by the
 * engine, shared by its contexts. */
cm_status cm_device_weight(cm_ctx *cx, cm_context *c, const cm_ready_step *s,
                           const cm_solution *sol, int input, const void **out) CM_MUST_USE;
void cm_device_weights_release(cm_engine *e);
/* device_run.c: the main list, enqueued: all that must be waited for before it ends has been. Then its end. */
cm_status cm_run_actions(cm_ctx *cx, cm_context *c) CM_MUST_USE;
/* What a step's tactic enqueues, its pointers being set; nothing where nothing comes out. `count` as cm_run has it. */
cm_status cm_launch_step(cm_ctx *cx, cm_context *c, const cm_ready_step *s, cm_solution *sol,
                         void *workspace, int64_t *count) CM_MUST_USE;
/* A kernel met data that it cannot work with, such as an index that is out of range. */
cm_status cm_check_fault(cm_ctx *cx, cm_context *c) CM_MUST_USE;
/* n is how many there are of what data sized: outputs get their shapes. */
cm_status cm_shape_counted(cm_ctx *cx, cm_context *c, const cm_ready_step *s,
                           const cm_solution *sol, int64_t n) CM_MUST_USE;
/* Whether sizes are known when shapes are bound or while running: bytes for an output that may be much smaller; and
 * (device_place.c) integers whose arithmetic is the host's. */
enum { CM_MOST_RESERVED = 1 << 30 };
bool cm_few_integers(const cm_tensor *t);
/* device_late.c: a step whose sizes only the run tells; a late value to the host; what they need. */
cm_status cm_run_late(cm_ctx *cx, cm_context *c, const cm_action *a) CM_MUST_USE;
cm_status cm_fetch_late(cm_ctx *cx, cm_context *c, int32_t v) CM_MUST_USE;
/* A value to the host, which has it or not by `where` (CM_HERE, CM_THERE) and by this run so far; a step that the host
 * computes, its inputs being there. */
cm_status cm_late_down(cm_ctx *cx, cm_context *c, int32_t v, int where) CM_MUST_USE;
cm_status cm_late_here(cm_ctx *cx, cm_context *c, const cm_ready_step *s) CM_MUST_USE;
/* device_inner.c: a list inside a control step, its steps wherever they can be. */
cm_status cm_run_inner(cm_ctx *cx, cm_context *c, int list) CM_MUST_USE;
bool cm_inner_not_run(const cm_context *c, int step); /* is it of one, in the last run? */
bool cm_is_looped(const cm_context *c, const cm_plan_step *s);
cm_status cm_inner_create(cm_ctx *cx, cm_context *c) CM_MUST_USE;
cm_status cm_late_create(cm_ctx *cx, cm_context *c) CM_MUST_USE;
void cm_late_destroy(cm_context *c);
cm_status cm_finish_actions(cm_ctx *cx, cm_context *c) CM_MUST_USE;

#endif
