/* report.h -- what reports ask of an engine and a context: work, values and memory of their steps.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_RUNTIME_REPORT_H
#define CM_RUNTIME_REPORT_H

#include "runtime/runtime.h"

/* What a step computes and moves, with the sizes that it last ran with. Inputs and outputs count once,
 * however often a kernel reads them; what is picked from a larger input (a slice, rows of a table)
 * counts as much as comes out. */
typedef struct cm_layer_work {
    double ops; /* arithmetic; a multiply-add counts two */
    double in_bytes, weight_bytes, out_bytes;
    double conversion_bytes; /* inputs brought into another layout first: read and written */
    double conversion_ns;    /* in the last run of a context that has a profile function */
} cm_layer_work;

/* False: it has not run, or nothing is known of its sizes (*out is zero then). */
bool cm_context_work(cm_ctx *cx, const cm_context *c, int step, cm_layer_work *out);

/* A value as it stands in the context, by index in the plan; of a step's output inside the profile function
 * this is what the step just made. NULL: nothing there. A tensor may be strided; its data is not to be read
 * where a device made it. */
const cm_datum *cm_context_value(const cm_context *c, int value);

/* The same as a dense tensor on the host, in `arena`, wherever it lies; sub-byte elements packed as they are
 * there. Fails where it is not a plain tensor. */
cm_status cm_context_copy_value(cm_ctx *cx, const cm_context *c, int value, cm_arena *arena,
                                cm_tensor *out) CM_MUST_USE;

/* A piece of a bound context's arena. */
typedef struct cm_memory_block {
    int value;       /* that lies there; -1: the workspace of `step` */
    int step;        /* that makes it; -1: none in this variant */
    int first, last; /* positions (cm_engine_step_span), both counted in */
    size_t bytes, offset;
} cm_memory_block;

int cm_context_n_blocks(const cm_context *c);
void cm_context_block(const cm_context *c, int i, cm_memory_block *out);

/* Positions that a step spans in the order of execution; a control step spans its lists'. */
void cm_engine_step_span(const cm_engine *e, int step, int *first, int *last);
/* Is the step in the main list, not nested in a control step? */
bool cm_engine_step_is_main(const cm_engine *e, int step);

/* Run one step on its operator's reference, on data that the caller has: in[i] is NULL where an input is
 * absent. out[o] gets what output o is, in `arena` (kind CM_NOTHING: nobody reads it); what is not a plain
 * tensor is borrowed from `in` and cx->scratch. Not for control steps. */
cm_status cm_engine_eval_step(cm_ctx *cx, cm_arena *arena, const cm_engine *e, int step,
                              const cm_datum *const *in, cm_threads *threads,
                              cm_datum *out) CM_MUST_USE;

#endif
