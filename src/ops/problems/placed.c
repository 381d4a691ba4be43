/* placed.c -- elements that a rule of their place tells, as problems.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops/problem.h"

#include "base/size.h"

bool cm_problem_one_hot(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p);
bool cm_problem_triangle(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p);
bool cm_problem_reversed(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p);
bool cm_problem_cache(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p);

/* Output 0 around an axis of it. */
static cm_placed around(const cm_problem *p, cm_placed_kind kind, int64_t axis)
{
    const cm_tensor *y = p->out[0];
    int at = (int)(axis < 0 ? axis + y->rank : axis);
    return (cm_placed){.kind = kind,
                       .outer = cm_dims_product(y->dims, 0, at),
                       .n = y->dims[at],
                       .inner = cm_dims_product(y->dims, at + 1, y->rank)};
}

bool cm_problem_one_hot(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p)
{
    (void)arena;
    if (!cm_problem_wants(p, 0))
        return false;
    p->as.placed = around(p, CM_PLACED_ONE_HOT, cm_attr_int(op, attr, "axis"));
    return true;
}

bool cm_problem_triangle(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p)
{
    (void)arena;
    if (!cm_problem_wants(p, 0) || (cm_problem_has(p, 1) && !p->in[1]->data))
        return false;
    cm_placed t = around(p, CM_PLACED_TRIANGLE, -1);
    t.rows = p->out[0]->dims[p->out[0]->rank - 2];
    t.diagonal = cm_problem_has(p, 1) ? cm_problem_int(p, 1, 0) : 0;
    t.diagonal = cm_max_i64(-t.rows - 1, cm_min_i64(t.diagonal, t.n + 1)); /* further: the same */
    t.upper = cm_attr_int(op, attr, "upper") != 0;
    p->as.placed = t;
    return true;
}

bool cm_problem_reversed(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p)
{
    (void)arena;
    if (!cm_problem_wants(p, 0))
        return false;
    cm_placed r = around(p, CM_PLACED_REVERSED, cm_attr_int(op, attr, "time_axis"));
    r.batch_inside = cm_attr_int(op, attr, "batch_axis") == 1;
    r.per_batch = r.batch_inside ? cm_dims_product(p->out[0]->dims, 2, p->out[0]->rank) : r.inner;
    p->as.placed = r;
    return true;
}

bool cm_problem_cache(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p)
{
    (void)arena;
    if (!cm_problem_wants(p, 0))
        return false;
    cm_placed c = around(p, CM_PLACED_CACHE, cm_attr_int(op, attr, "axis"));
    int64_t axis = cm_attr_int(op, attr, "axis"), rank = p->out[0]->rank;
    c.update = p->in[1]->dims[axis < 0 ? axis + rank : axis];
    c.per_batch = cm_max_i64(1, c.outer / cm_max_i64(1, p->out[0]->dims[0]));
    c.circular = cm_str_equal(cm_attr_str(op, attr, "mode"), cm_str_of("circular"));
    p->as.placed = c;
    return true;
}
