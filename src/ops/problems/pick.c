/* pick.c -- NonZero and Compress as problems: as much comes out as data tell.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops/problem.h"

bool cm_problem_nonzero(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p);
bool cm_problem_compress(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p);

bool cm_problem_nonzero(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p)
{
    (void)arena;
    (void)op;
    (void)attr;
    p->as.pick = (cm_pick){.n = cm_tensor_elems(p->in[0])};
    return cm_problem_wants(p, 0);
}

bool cm_problem_compress(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p)
{
    (void)arena;
    if (!cm_problem_wants(p, 0))
        return false;
    const cm_tensor *x = p->in[0];
    cm_pick *k = &p->as.pick;
    *k = (cm_pick){.n = p->in[1]->dims[0], .slices = true, .outer = 1, .inner = 1};
    k->length = cm_tensor_elems(x);
    if (!cm_attr_has(op->attrs, attr, "axis"))
        return true;
    int64_t axis = cm_attr_int(op, attr, "axis");
    axis += axis < 0 ? x->rank : 0;
    k->outer = cm_dims_product(x->dims, 0, (int)axis);
    k->length = x->dims[axis];
    k->inner = cm_dims_product(x->dims, (int)axis + 1, x->rank);
    return true;
}
