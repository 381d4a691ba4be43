/* expression.h -- nodes written as expressions, for what becomes many of them.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Each function emits a node into the pending node's network and gives its value. The first failure
 * sticks in the maker, and later calls do nothing: check `st` at the end. [1] below is a vector of
 * one element. */
#ifndef CM_ONNX_EXPRESSION_H
#define CM_ONNX_EXPRESSION_H

#include "onnx/upgrade/upgrade.h"

typedef struct maker {
    cm_pending *u; /* whose scope the nodes go to */
    cm_status st;
} maker;

/* One turn of a loop: `carried` holds the values that come in, and gets those that go on; the
 * result says whether to go on at all. */
typedef cm_value *(*cm_turn_fn)(maker *k, cm_value **carried, const void *state);
/* while (more) carried = turn(carried), as a Loop after the nodes so far. `turn` emits into its
 * body. */
cm_status cm_expression_loop(cm_pending *u, cm_value *more, cm_value **carried, int n,
                             cm_turn_fn turn, const void *state) CM_MUST_USE;

/* A node of an operator of the table, whatever its domain, with n_out results; `in` may hold NULLs. */
void cm_expression_node(maker *k, cm_op_id op, cm_value *const *in, int n_in,
                        const cm_up_attr *attrs, int n_attrs, cm_value **out, int n_out);

static inline cm_value *make(maker *k, const char *op, cm_value *const *in, int n_in,
                             const cm_up_attr *attrs, int n_attrs)
{
    cm_value *v = NULL;
    if (k->st == CM_OK)
        k->st = cm_up_node(k->u, op, in, n_in, attrs, n_attrs, &v);
    return v;
}

static inline cm_value *one(maker *k, const char *op, cm_value *x)
{
    return make(k, op, &x, 1, NULL, 0);
}

static inline cm_value *two(maker *k, const char *op, cm_value *x, cm_value *y)
{
    cm_value *in[] = {x, y};
    return make(k, op, in, 2, NULL, 0);
}

static inline cm_value *where(maker *k, cm_value *c, cm_value *x, cm_value *y)
{
    cm_value *in[] = {c, x, y};
    return make(k, "Where", in, 3, NULL, 0);
}

static inline cm_value *along(maker *k, const char *op, int64_t axis, cm_value *x, cm_value *y)
{
    cm_value *in[] = {x, y};
    cm_up_attr a[] = {CM_UP_INT("axis", axis)};
    return make(k, op, in, y ? 2 : 1, a, 1);
}

static inline cm_value *cast(maker *k, cm_value *x, cm_dtype t)
{
    cm_up_attr a[] = {CM_UP_INT("to", t)};
    return make(k, "Cast", &x, 1, a, 1);
}

static inline cm_value *list(maker *k, int64_t v) /* [1] */
{
    cm_value *out = NULL;
    if (k->st == CM_OK)
        k->st = cm_up_ints(k->u, &v, 1, &out);
    return out;
}

static inline cm_value *number(maker *k, cm_dtype t, double v) /* rank 0 */
{
    cm_value *out = NULL;
    if (k->st == CM_OK)
        k->st = cm_up_number(k->u, t, v, &out);
    return out;
}

static inline cm_value *dim(maker *k, cm_value *x, int axis) /* [1] */
{
    cm_up_attr a[] = {CM_UP_INT("start", axis), CM_UP_INT("end", axis + 1)};
    return make(k, "Shape", &x, 1, a, 2);
}

static inline cm_value *vector(maker *k, cm_value *x, cm_dtype t) /* any scalar to [1] */
{
    return two(k, "Reshape", cast(k, x, t), list(k, -1));
}

static inline cm_value *range(maker *k, cm_value *n) /* 0 .. n-1 for n [1] */
{
    cm_value *in[] = {number(k, CM_I64, 0), one(k, "Squeeze", n), number(k, CM_I64, 1)};
    return make(k, "Range", in, 3, NULL, 0);
}

static inline cm_value *first(maker *k, cm_value *x, int axis, cm_value *n) /* x[..., :n] */
{
    cm_value *in[] = {x, list(k, 0), n, list(k, axis)};
    return make(k, "Slice", in, 4, NULL, 0);
}

static inline cm_value *last(maker *k, cm_value *x, int axis)
{
    return along(k, "Gather", axis, x, number(k, CM_I64, -1));
}

static inline cm_value *column(maker *k, cm_value *x) /* [b] to [b, 1] */
{
    return two(k, "Unsqueeze", x, list(k, 1));
}

static inline cm_value *shape3(maker *k, cm_value *x, cm_value *y, cm_value *z)
{
    cm_value *in[] = {x, y, z};
    cm_up_attr a[] = {CM_UP_INT("axis", 0)};
    return make(k, "Concat", in, z ? 3 : 2, a, 1);
}

#endif
