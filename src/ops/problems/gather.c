/* gather.c -- Gather, GatherElements and GatherND as problems.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops/problem.h"

#define FILL(name)                                                                                 \
    bool cm_problem_##name(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p);
FILL(gather)
FILL(gather_elements)
FILL(gather_nd)
#undef FILL

static int axis_of(const cm_op *op, const void *attr, int rank)
{
    int64_t axis = cm_attr_int(op, attr, "axis");
    return (int)(axis < 0 ? axis + rank : axis);
}

bool cm_problem_gather(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p)
{
    (void)arena;
    if (!cm_problem_wants(p, 0))
        return false;
    const cm_tensor *x = p->in[0];
    int axis = axis_of(op, attr, x->rank);
    p->as.gather = (cm_gather){.kind = CM_GATHER_ROWS,
                               .outer = cm_dims_product(x->dims, 0, axis),
                               .axis = x->dims[axis],
                               .inner = cm_dims_product(x->dims, axis + 1, x->rank),
                               .n_indices = cm_tensor_elems(p->in[1]),
                               .data = 0,
                               .indices = 1,
                               .axis_index = axis};
    return true;
}

bool cm_problem_gather_elements(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p)
{
    (void)arena;
    if (!cm_problem_wants(p, 0))
        return false;
    int axis = axis_of(op, attr, p->in[0]->rank);
    p->as.gather = (cm_gather){.kind = CM_GATHER_ELEMENTS,
                               .axis = p->in[0]->dims[axis],
                               .n_indices = cm_tensor_elems(p->in[1]),
                               .data = 0,
                               .indices = 1,
                               .axis_index = axis};
    return true;
}

bool cm_problem_gather_nd(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p)
{
    (void)arena;
    if (!cm_problem_wants(p, 0))
        return false;
    const cm_tensor *x = p->in[0], *index = p->in[1];
    int batch = (int)cm_attr_int(op, attr, "batch_dims");
    int depth = (int)index->dims[index->rank - 1];
    p->as.gather = (cm_gather){.kind = CM_GATHER_TUPLES,
                               .inner = cm_dims_product(x->dims, batch + depth, x->rank),
                               .n_indices = cm_dims_product(index->dims, 0, index->rank - 1),
                               .data = 0,
                               .indices = 1,
                               .batch_axes = batch,
                               .depth = depth};
    return true;
}
