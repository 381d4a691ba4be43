/* sort.c -- TopK, CumSum and CumProd as problems.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops/problem.h"

bool cm_problem_top_k(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p);
bool cm_problem_cum_sum(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p);

static void set_axis(cm_sort *s, const cm_tensor *x, int64_t axis)
{
    axis += axis < 0 ? x->rank : 0;
    s->outer = cm_dims_product(x->dims, 0, (int)axis);
    s->n = x->dims[axis];
    s->inner = cm_dims_product(x->dims, (int)axis + 1, x->rank);
}

bool cm_problem_top_k(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p)
{
    (void)arena;
    const cm_tensor *x = p->in[0];
    if (x->rank == 0 || (!cm_problem_wants(p, 0) && !cm_problem_wants(p, 1)))
        return false;
    cm_sort *s = &p->as.sort;
    *s = (cm_sort){.kind = CM_SORT_TOP_K, .largest = cm_attr_int(op, attr, "largest") != 0};
    int64_t axis = cm_attr_int(op, attr, "axis");
    set_axis(s, x, axis);
    const cm_tensor *y = cm_problem_wants(p, 0) ? p->out[0] : p->out[1];
    s->k = y->dims[axis < 0 ? axis + x->rank : axis];
    return true;
}

bool cm_problem_cum_sum(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p)
{
    (void)arena;
    if (!cm_problem_wants(p, 0) || p->in[0]->rank == 0 || !p->in[1]->data)
        return false;
    cm_sort *s = &p->as.sort;
    *s = (cm_sort){.kind = CM_SORT_CUM_SUM,
                   .exclusive = cm_attr_int(op, attr, "exclusive") != 0,
                   .reverse = cm_attr_int(op, attr, "reverse") != 0,
                   .product = op->id == CM_OP_CUM_PROD};
    set_axis(s, p->in[0], cm_problem_int(p, 1, 0));
    return true;
}
