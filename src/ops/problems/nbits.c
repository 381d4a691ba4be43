/* nbits.c -- com.microsoft.MatMulNBits as a problem.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/size.h"
#include "ops/problem.h"

bool cm_problem_nbits(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p);

enum { A, B, SCALES, ZEROS };

bool cm_problem_nbits(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p)
{
    (void)arena;
    if (!cm_problem_wants(p, 0))
        return false;
    cm_nbits *s = &p->as.nbits;
    *s = (cm_nbits){.m = cm_dims_product(p->in[A]->dims, 0, p->in[A]->rank - 1),
                    .n = cm_attr_int(op, attr, "N"),
                    .k = cm_attr_int(op, attr, "K"),
                    .block = cm_attr_int(op, attr, "block_size"),
                    .bits = (int)cm_attr_int(op, attr, "bits"),
                    .packed_zeros = cm_problem_has(p, ZEROS) && p->in[ZEROS]->dtype == CM_U8};
    s->blocks = cm_ceil_div(s->k, s->block);
    return true;
}
