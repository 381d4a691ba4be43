/* pool.c -- pools as problems: the window in numbers, global pools as a window of the whole.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/size.h"
#include "ops/linear/window_shape.h"
#include "ops/problem.h"

enum { AXES = 3 };

bool cm_problem_pool(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p);
bool cm_problem_pool_global(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p);

/* Everything but the window; false: not one for tactics. */
static bool set_sizes(cm_problem *p, cm_pool *c, cm_pool_kind kind)
{
    if (!cm_problem_wants(p, 0))
        return false;
    const cm_tensor *x = p->in[0], *y = p->out[0];
    if (x->rank < 3 || x->rank > AXES + 2 || cm_tensor_elems(x) < 1 || cm_tensor_elems(y) < 1)
        return false;
    *c = (cm_pool){
        .kind = kind, .axes = x->rank - 2, .n = x->dims[0], .c = x->dims[1], .indices = -1, .p = 2};
    for (int d = 0; d < AXES; d++) {
        int i = d - (AXES - c->axes);
        c->in[d] = i < 0 ? 1 : x->dims[i + 2];
        c->out[d] = i < 0 ? 1 : y->dims[i + 2];
        c->kernel[d] = c->stride[d] = c->dilation[d] = 1;
    }
    return true;
}

/* No product that tactics form leaves the range of a number. */
static bool countable(const cm_pool *c)
{
    for (int d = 0; d < AXES; d++)
        if (c->kernel[d] > INT32_MAX || c->stride[d] > INT32_MAX || c->dilation[d] > INT32_MAX ||
            c->pad[d] > INT32_MAX || c->pad_end[d] > INT32_MAX || c->in[d] > INT32_MAX ||
            c->out[d] > INT32_MAX)
            return false;
    return true;
}

bool cm_problem_pool(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p)
{
    (void)arena;
    cm_pool *c = &p->as.pool;
    cm_window w;
    cm_pool_kind kind = op->id == CM_OP_MAX_POOL  ? CM_POOL_MAX
                        : op->id == CM_OP_LP_POOL ? CM_POOL_LP
                                                  : CM_POOL_AVERAGE;
    if (!set_sizes(p, c, kind))
        return false;
    cm_window_attr a = {cm_attr_str(op, attr, "auto_pad"), cm_attr_ints(op, attr, "kernel_shape"),
                        cm_attr_ints(op, attr, "strides"), cm_attr_ints(op, attr, "dilations"),
                        cm_attr_ints(op, attr, "pads")};
    cm_window_of(&a, c->axes, NULL, p->in[0]->dims + 2, &w);
    for (int i = 0; i < c->axes; i++) {
        int d = i + AXES - c->axes;
        c->kernel[d] = w.kernel[i];
        c->stride[d] = w.stride[i];
        c->dilation[d] = w.dilation[i];
        c->pad[d] = w.pad_begin[i];
        c->pad_end[d] = w.pad_end[i];
    }
    c->count_pads = cm_attr_int(op, attr, "count_include_pad") != 0;
    c->count_overhang = cm_attr_int(op, attr, "count_overhang") != 0;
    if (kind == CM_POOL_LP)
        c->p = (int)cm_min_i64(cm_attr_int(op, attr, "p"), INT32_MAX);
    if (cm_problem_wants(p, 1)) {
        c->indices = 1;
        c->column_major = cm_attr_int(op, attr, "storage_order") != 0;
    }
    return countable(c);
}

bool cm_problem_pool_global(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p)
{
    (void)arena;
    cm_pool *c = &p->as.pool;
    cm_pool_kind kind = op->id == CM_OP_GLOBAL_MAX_POOL  ? CM_POOL_MAX
                        : op->id == CM_OP_GLOBAL_LP_POOL ? CM_POOL_LP
                                                         : CM_POOL_AVERAGE;
    if (!set_sizes(p, c, kind))
        return false;
    for (int d = 0; d < AXES; d++)
        c->kernel[d] = c->in[d];
    if (kind == CM_POOL_LP)
        c->p = (int)cm_min_i64(cm_attr_int(op, attr, "p"), INT32_MAX);
    return countable(c);
}
