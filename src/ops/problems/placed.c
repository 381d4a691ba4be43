/* placed.c -- elements that a rule of their place tells, as problems.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops/problem.h"

#include <string.h>

#include "base/size.h"

bool cm_problem_one_hot(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p);
bool cm_problem_triangle(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p);
bool cm_problem_reversed(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p);
bool cm_problem_cache(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p);

bool cm_problem_fill(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p);
bool cm_problem_eye(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p);
bool cm_problem_range(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p);

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

/* Elements that inputs do not make: of up to 8 bytes. */
static bool is_word(const cm_problem *p)
{
    cm_dtype t = p->out[0]->dtype;
    return t != CM_STR && !cm_dtype_is_sub_byte(t) && cm_dtype_size(t) <= sizeof(uint64_t);
}

bool cm_problem_fill(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p)
{
    (void)arena;
    if (!cm_problem_wants(p, 0) || !is_word(p))
        return false;
    const cm_attr_field *field = cm_attr_find(op->attrs, "value");
    const cm_tensor *value = *(const cm_tensor *const *)cm_attr_get(attr, field);
    cm_placed f = {.kind = CM_PLACED_FILL, .outer = 1, .n = cm_tensor_elems(p->out[0]), .inner = 1};
    if (value)
        memcpy(&f.value, value->data, cm_dtype_size(value->dtype));
    p->as.placed = f;
    return true;
}

bool cm_problem_eye(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p)
{
    (void)arena;
    if (!cm_problem_wants(p, 0) || !is_word(p))
        return false;
    cm_placed e = around(p, CM_PLACED_EYE, 1);
    int64_t k = cm_attr_int(op, attr, "k");
    e.rows = e.outer;
    e.diagonal = cm_max_i64(-e.rows - 1, cm_min_i64(k, e.n + 1)); /* further: the same */
    cm_set_f64(p->out[0]->dtype, &e.value, 0, 1);
    p->as.placed = e;
    return true;
}

bool cm_problem_range(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p)
{
    (void)arena, (void)op, (void)attr;
    if (!cm_problem_wants(p, 0) || !p->in[0]->data || !p->in[2]->data)
        return false;
    cm_dtype t = p->out[0]->dtype;
    cm_placed r = around(p, CM_PLACED_RANGE, 0);
    if (cm_dtype_is_float(t)) {
        r.start = cm_get_f64(t, p->in[0]->data, 0);
        r.step = cm_get_f64(t, p->in[2]->data, 0);
    } else {
        r.first = cm_problem_int(p, 0, 0);
        r.by = cm_problem_int(p, 2, 0);
    }
    p->as.placed = r;
    return true;
}
