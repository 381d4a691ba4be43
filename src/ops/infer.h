/* infer.h -- what a type rule is given, and helpers to write one.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_OPS_INFER_H
#define CM_OPS_INFER_H

#include "ops/op.h"
#include "plan/program.h"

/* Elements of small integer tensors are tracked as dims through shape arithmetic. */
enum { CM_MAX_ELEMS = 64 };

typedef struct cm_infer_in {
    const cm_type *type;       /* NULL: the optional input is absent */
    const cm_tensor *constant; /* its value when known (dense, unpacked), else NULL */
    const cm_dim *elems;       /* elements as dims when tracked (integer, any rank), else NULL */
    int n_elems;
} cm_infer_in;

typedef struct cm_infer_out {
    cm_type type;
    bool wanted;                /* false: nobody reads it */
    cm_dim elems[CM_MAX_ELEMS]; /* what cm_infer_set_elems gave */
    int n_elems;                /* -1: elements not tracked */
    cm_dtype own_dtype;         /* of the operator's result, before an epilogue */
} cm_infer_out;

struct cm_infer {
    cm_ctx *cx;
    cm_dim_table *dims; /* NULL while running: then every dim must be a number */
    const cm_op *op;
    const void *attr;
    const char *hint; /* a name for fresh symbols: the node's */
    int n_in;
    const cm_infer_in *in;
    int n_out;
    cm_infer_out *out;
    const cm_epilogue
        *epilogue; /* NULL or one without a program: none. A rule sees n_in without the
                                    epilogue's operands */
};

/* Run signature check and type rule. `out` is zeroed by the caller but for `wanted`. */
cm_status cm_op_infer(cm_infer *f) CM_MUST_USE;

static inline bool cm_infer_has(const cm_infer *f, int i)
{
    return i < f->n_in && f->in[i].type != NULL;
}
/* The operator wants input i as a tensor with known rank? True and the type; false when the rank is
 * unknown: the rule then calls cm_infer_unknown for its outputs. */
bool cm_infer_ranked(const cm_infer *f, int i);
int cm_infer_rank(const cm_infer *f, int i); /* -1: unknown */
cm_dim cm_infer_dim(const cm_infer *f, int i, int axis);

/* Set output o: dtype as the signature left it (or given), shape from the arguments. */
cm_status cm_infer_tensor(cm_infer *f, int o, int rank, const cm_dim *dims) CM_MUST_USE;
cm_status cm_infer_typed(cm_infer *f, int o, cm_dtype dtype, int rank,
                         const cm_dim *dims) CM_MUST_USE;
cm_status cm_infer_like(cm_infer *f, int o, int i) CM_MUST_USE; /* shape of input i */
void cm_infer_unknown(cm_infer *f, int o);                      /* rank unknown */
/* Output of known rank whose dims only the data will tell: fresh symbols. While running: the
 * evaluator must call cm_eval_alloc. */
cm_status cm_infer_data_dependent(cm_infer *f, int o, int rank) CM_MUST_USE;
cm_dim cm_infer_fresh(cm_infer *f, const char *what); /* CM_DIM_ERROR while running */
/* The same, no more than `most`: memory can be had before the data tell. */
cm_dim cm_infer_upto(cm_infer *f, const char *what, cm_dim most);

/* Broadcast the shapes of inputs [from, to) numpy-style, into output o. Absent ones are skipped. */
cm_status cm_infer_broadcast(cm_infer *f, int o, int from, int to) CM_MUST_USE;
/* The same for plain dim lists. *rank and dims are the result so far. */
cm_status cm_broadcast_dims(cm_infer *f, int *rank, cm_dim *dims, int rank_b,
                            const cm_dim *dims_b) CM_MUST_USE;

/* axis in [-rank, rank) made non-negative, or a sentence. */
cm_status cm_axis(cm_ctx *cx, int64_t axis, int rank, int *out) CM_MUST_USE;
/* Same for a list, no repeats. */
cm_status cm_axes(cm_ctx *cx, const int64_t *axes, int64_t n, int rank, bool *is_in) CM_MUST_USE;

/* Elements of integer input i as dims: from its constant value or tracked. False: not known. At
 * most CM_MAX_ELEMS. */
bool cm_infer_elems(const cm_infer *f, int i, cm_dim *v, int *n);
/* All elements as numbers, any count that fits `max`. False: not all known. */
bool cm_infer_ints(const cm_infer *f, int i, int64_t *v, int64_t max, int64_t *n);
bool cm_infer_scalar_f64(const cm_infer *f, int i, double *v); /* one-element constant */
/* Track the elements of output o. Ignored when n > CM_MAX_ELEMS or a dim is CM_DIM_ERROR. */
void cm_infer_set_elems(cm_infer *f, int o, const cm_dim *v, int n);

/* Dim arithmetic that is right both with a table and (numbers only) without one. */
cm_dim cm_infer_add(cm_infer *f, cm_dim a, cm_dim b);
cm_dim cm_infer_sub(cm_infer *f, cm_dim a, cm_dim b);
cm_dim cm_infer_mul(cm_infer *f, cm_dim a, cm_dim b);
cm_dim cm_infer_floor_div(cm_infer *f, cm_dim a, cm_dim b);
cm_dim cm_infer_ceil_div(cm_infer *f, cm_dim a, cm_dim b);
bool cm_infer_const(const cm_infer *f, cm_dim d, int64_t *v); /* a number, of either sign? */
cm_dim cm_infer_number(cm_infer *f, int64_t v);               /* the dim for any integer */
/* Fail unless a and b can be equal: "<what>: found %s, wanted %s". */
cm_status cm_infer_equal(cm_infer *f, const char *what, cm_dim a, cm_dim b) CM_MUST_USE;
/* CM_ERR_MODEL "<sentence>". Type rules fail with CM_ERR_MODEL; the caller adds the node. */

/* For costs: the number, or a nominal extent for an expression (symbols count 128; "batch" is no
 * different from "seq" here). */
double cm_infer_extent(const cm_infer *f, cm_dim d);
double cm_infer_volume(const cm_infer *f, const cm_type *t); /* elements */

#endif
