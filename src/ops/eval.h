/* eval.h -- what an evaluator is given, and helpers to write one.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Contract. Inputs are dense, sub-byte types unpacked, shapes already accepted by the type rule with
 * these very sizes (and, where the rule looked at them, these very elements). Outputs that the rule
 * could size are allocated and shaped; the others have data NULL: call cm_eval_alloc. Outputs never
 * overlap inputs. What only data can show (an index out of range) fails with CM_ERR_DATA.
 *
 * What is not a plain tensor is borrowed: strings, sequence items and map items that an evaluator
 * writes may point into inputs, attributes or scratch; the caller makes them its own at once.
 *
 * Accumulate in double or exact integers. Elementary functions come from ops/math.h, never from
 * libm, so that a folded constant is the same on every machine. */
#ifndef CM_OPS_EVAL_H
#define CM_OPS_EVAL_H

#include "base/threads.h"
#include "ops/infer.h"

typedef struct cm_eval_host cm_eval_host;

struct cm_eval {
    cm_ctx *cx; /* cx->scratch is yours until you return; cx->arena is not */
    const cm_op *op;
    const void *attr;
    const void *
        prepared; /* what the family's `prepare` made; the caller of cm_op_eval may leave it NULL */
    int n_in;
    const cm_datum *const *in; /* NULL: absent */
    int n_out;
    cm_datum **out; /* NULL: nobody reads it */
    cm_threads *threads;
    uint64_t *random; /* state of the context's generator; see ops/pointwise/random.h */
    const cm_eval_host *host;
    const cm_epilogue *epilogue; /* as in cm_infer: handled by cm_op_eval, not by evaluators */
};

/* How the caller gives memory for outputs. */
struct cm_eval_host {
    /* Shape out (dtype, rank, dims set, strides dense) and point it to memory. */
    cm_status (*alloc)(void *user, cm_ctx *cx, int output, cm_tensor *t);
    void *user;
};

static inline bool cm_eval_has(const cm_eval *e, int i)
{
    return i < e->n_in && e->in[i] != NULL;
}
static inline bool cm_eval_wants(const cm_eval *e, int o)
{
    return o < e->n_out && e->out[o] != NULL;
}
static inline const cm_tensor *cm_eval_in(const cm_eval *e, int i) /* a present tensor */
{
    return &e->in[i]->tensor;
}
static inline cm_tensor *cm_eval_out(const cm_eval *e, int o) /* a wanted tensor */
{
    return &e->out[o]->tensor;
}

/* Size and allocate output o, whose shape only the data told. */
cm_status cm_eval_alloc(cm_eval *e, int o, cm_dtype dtype, int rank,
                        const int64_t *dims) CM_MUST_USE;
/* Scratch memory until the evaluator returns; zeroed. */
cm_status cm_eval_scratch(cm_eval *e, size_t n, size_t size, void **out) CM_MUST_USE;
/* Output o becomes a sequence of n items, zeroed, in scratch; fill out[o]->items. */
cm_status cm_eval_sequence(cm_eval *e, int o, int64_t n, const cm_type *elem) CM_MUST_USE;
/* A dense scratch tensor. */
cm_status cm_eval_temp(cm_eval *e, cm_dtype dtype, int rank, const int64_t *dims,
                       cm_tensor *out) CM_MUST_USE;

int64_t cm_eval_int(const cm_eval *e, int i, int64_t index); /* element of an integer input */
double cm_eval_f64(const cm_eval *e, int i, int64_t index);

/* An input as doubles: converted to scratch unless it is F64 already. */
cm_status cm_eval_as_f64(cm_eval *e, int i, const double **out) CM_MUST_USE;
cm_status cm_eval_as_i64(cm_eval *e, int i, const int64_t **out) CM_MUST_USE;

/* Walks an output shape with inputs broadcast to it: strides of input i in elements, 0 along
 * broadcast axes. */
void cm_broadcast_strides(const cm_tensor *in, int out_rank, const int64_t *out_dims,
                          int64_t *strides);

/* Run one operator on data: type rule on the actual sizes, outputs allocated through `host`, the
 * evaluator, with sub-byte and strided inputs made dense and unpacked around it. Used by the runtime
 * and by constant folding. out[o] NULL: not wanted. On entry out[o]->tensor may hold memory that
 * is reused when it is large enough; `host` is asked otherwise. Sub-byte outputs come back packed. */
cm_status cm_op_eval(cm_eval *e) CM_MUST_USE;

#endif
