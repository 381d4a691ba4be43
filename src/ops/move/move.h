/* move.h -- what the operators that only move elements share: reading shape inputs in type rules,
 * strided copies, checked indices, and keys to sort by.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Movement goes by the size of an element (1, 2, 4, 8 or 16 bytes), never by its type. */
#ifndef CM_OPS_MOVE_H
#define CM_OPS_MOVE_H

#include "ops/eval.h"

/* A short integer input (a shape, axes, pads) as a type rule sees it. */
typedef struct cm_vector {
    bool known;             /* are the elements known? */
    int64_t n;              /* how many there are; -1: not known */
    cm_dim v[CM_MAX_ELEMS]; /* when known; numbers are clamped to +-2^62 */
} cm_vector;

/* Read input i, a vector or a scalar. `what` names it in the sentence when its rank is higher. */
cm_status cm_move_vector(cm_infer *f, int i, const char *what, cm_vector *out) CM_MUST_USE;
/* The same when every element is wanted as a number: `known` is false if one is an expression. */
cm_status cm_move_numbers(cm_infer *f, int i, const char *what, cm_vector *out,
                          int64_t *v) CM_MUST_USE;
/* Fail unless input i can have `wanted` elements. */
cm_status cm_move_check_count(cm_infer *f, int i, const char *what, int64_t wanted) CM_MUST_USE;
/* The size that element `e` of a shape input stands for: itself, or a fresh symbol when nothing is
 * known about its sign. A negative number is refused. */
cm_status cm_move_size(cm_infer *f, const char *what, cm_dim e, cm_dim *out) CM_MUST_USE;
/* Does the expression mention a symbol that may be negative? */
bool cm_move_may_be_anything(const cm_infer *f, cm_dim e);
/* Set the shape of output o. Refuses a rank above CM_MAX_RANK, negative sizes and, while running,
 * sizes that overflowed; an expression that overflowed becomes a fresh symbol. */
cm_status cm_move_shape(cm_infer *f, int o, int64_t rank, const cm_dim *dims) CM_MUST_USE;
/* `rank` fresh symbols, for an output of which only the rank is known. */
cm_status cm_move_fresh_shape(cm_infer *f, int o, int64_t rank) CM_MUST_USE;
/* The elements of an integer input, when a rule should track them. False while running. */
bool cm_move_tracked(const cm_infer *f, int i, cm_dim *v, int *n);
/* Output 0 has the elements of input 0 in the same order. */
void cm_move_pass_elems(cm_infer *f);
/* The shape of a type as a dense tensor without data. False when not every size is a number. */
bool cm_move_numeric_shape(const cm_infer *f, const cm_type *t, cm_tensor *out);
/* min and max that look for a provable order first; numbers only without a table. */
cm_dim cm_move_min(cm_infer *f, cm_dim a, cm_dim b);
cm_dim cm_move_max(cm_infer *f, cm_dim a, cm_dim b);
bool cm_move_nonneg(const cm_infer *f, cm_dim d); /* surely >= 0 */
cm_dim cm_move_product(cm_infer *f, const cm_dim *dims, int from, int to);
/* Moving elements computes nothing. */
void cm_move_cost(const cm_infer *f, cm_cost *c);

/* A strided copy: element (i0, i1, ...) goes from src + sum(i*from) to dst + sum(i*to). Axes are
 * given outermost first. Two per axis of a tensor are enough for every rearrangement. */
enum { CM_MOVE_AXES = 2 * CM_MAX_RANK };
typedef struct cm_move {
    size_t elem_bytes;
    int rank;
    int64_t dims[CM_MOVE_AXES];
    int64_t from[CM_MOVE_AXES], to[CM_MOVE_AXES]; /* strides in elements; 0 repeats, < 0 reverses */
} cm_move;

void cm_move_axis(cm_move *m, int64_t size, int64_t from, int64_t to); /* add an inner axis */
void cm_move_run(cm_move *m, const void *src, void *dst, cm_threads *threads);
void cm_move_fill(size_t elem_bytes, const void *value, void *dst, int64_t n, cm_threads *threads);
void cm_move_copy(const cm_tensor *src, cm_tensor *dst); /* all elements, in order */

static inline const char *cm_move_at(const void *p, int64_t elems, size_t elem_bytes)
{
    return (const char *)p + elems * (int64_t)elem_bytes;
}
static inline char *cm_move_to(void *p, int64_t elems, size_t elem_bytes)
{
    return (char *)p + elems * (int64_t)elem_bytes;
}

/* `index` in [-size, size) made non-negative. Otherwise CM_ERR_DATA; `position` is where in the
 * indices it stands. */
cm_status cm_move_index(cm_ctx *cx, int64_t index, int64_t size, int axis, int64_t position,
                        int64_t *out) CM_MUST_USE;

/* Keys whose unsigned order is the order of the elements; any numeric type or bool. NaN comes after
 * everything, the zeros of a float are equal. */
void cm_sort_keys(cm_dtype t, const void *src, int64_t n, uint64_t *keys);

#endif
