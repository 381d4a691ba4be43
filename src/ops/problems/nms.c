/* nms.c -- NonMaxSuppression as a problem.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/size.h"
#include "ops/problem.h"

bool cm_problem_nms(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p);

bool cm_problem_nms(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p)
{
    (void)arena;
    const cm_tensor *scores = p->in[1];
    int64_t rows;
    if (!cm_problem_wants(p, 0) || !cm_mul_i64(scores->dims[0], scores->dims[1], &rows))
        return false;
    for (int i = 2; i < p->n_in; i++)
        if (p->in[i] && cm_tensor_elems(p->in[i]) != 1)
            return false;
    cm_nms *n = &p->as.nms;
    *n = (cm_nms){.classes = scores->dims[1],
                  .rows = rows,
                  .boxes = scores->dims[2],
                  .center = cm_attr_int(op, attr, "center_point_box") != 0};
    n->most = n->boxes;
    if (cm_problem_has(p, 2) && p->in[2]->data && cm_problem_int(p, 2, 0) < n->boxes)
        n->most = cm_problem_int(p, 2, 0) > 0 ? cm_problem_int(p, 2, 0) : 0;
    return true;
}
