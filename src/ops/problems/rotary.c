/* rotary.c -- cameo.Rotary as a problem.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops/elementwise.h"
#include "ops/problem.h"

bool cm_problem_rotary(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p);

bool cm_problem_rotary(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p)
{
    (void)arena;
    const cm_tensor *x = p->in[0];
    if (!cm_problem_wants(p, 0) || cm_tensor_elems(x) < 1)
        return false;
    cm_rotary_shape *r = &p->as.rotary;
    *r = (cm_rotary_shape){.interleaved = cm_attr_int(op, attr, "interleaved") != 0,
                           .columns = x->dims[x->rank - 1]};
    r->rows = cm_tensor_elems(x) / r->columns;
    cm_broadcast_strides(p->in[1], x->rank, x->dims, r->cos);
    cm_broadcast_strides(p->in[2], x->rank, x->dims, r->sin);
    return true;
}
