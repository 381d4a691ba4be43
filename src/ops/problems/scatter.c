/* scatter.c -- updates at places that indices tell, as problems.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops/problem.h"

#include "base/size.h"

bool cm_problem_scatter(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p);

static bool read_how(cm_str name, cm_scatter_how *out)
{
    static const char *const names[] = {"none", "add", "mul", "max", "min"};
    for (int i = 0; i < CM_COUNT(names); i++)
        if (cm_str_equal(name, cm_str_of(names[i]))) {
            *out = (cm_scatter_how)i;
            return true;
        }
    return false;
}

bool cm_problem_scatter(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p)
{
    (void)arena;
    cm_scatter s = {.depth = 1, .inner = 1};
    if (!cm_problem_wants(p, 0) || !read_how(cm_attr_str(op, attr, "reduction"), &s.how))
        return false;
    const cm_tensor *x = p->in[0], *index = p->in[1];
    if (x->rank == 0)
        return false;
    s.tuples = op->id == CM_OP_SCATTER_ND;
    if (s.tuples) {
        s.depth = (int)index->dims[index->rank - 1];
        s.n = cm_dims_product(index->dims, 0, index->rank - 1);
        s.slots = cm_dims_product(x->dims, 0, s.depth);
        s.inner = cm_dims_product(x->dims, s.depth, x->rank);
    } else {
        int64_t axis = cm_attr_int(op, attr, "axis");
        s.axis = (int)(axis < 0 ? axis + x->rank : axis);
        s.n = cm_tensor_elems(index);
        s.slots = cm_tensor_elems(x);
    }
    p->as.scatter = s;
    return true;
}
