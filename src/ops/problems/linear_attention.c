/* linear_attention.c -- LinearAttention as a problem.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "ops/problem.h"

bool cm_problem_linear_attention(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p);

enum { Q, K, V, PAST, DECAY, BETA };

bool cm_problem_linear_attention(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p)
{
    (void)arena;
    const cm_tensor *q = p->in[Q], *v = p->in[V];
    cm_linear_attention *a = &p->as.linear_attention;
    *a = (cm_linear_attention){.batch = q->dims[0],
                               .len = q->dims[1],
                               .q_heads = cm_attr_int(op, attr, "q_num_heads"),
                               .kv_heads = cm_attr_int(op, attr, "kv_num_heads"),
                               .window = cm_attr_int(op, attr, "state_window"),
                               .gated = cm_problem_has(p, DECAY),
                               .delta = cm_problem_has(p, BETA),
                               .scale = cm_attr_float(op, attr, "scale")};
    a->k_size = q->dims[2] / a->q_heads;
    a->v_size = v->dims[2] / a->kv_heads;
    a->decay_cols = a->gated ? p->in[DECAY]->dims[2] : 0;
    a->beta_cols = a->delta ? p->in[BETA]->dims[2] : 0;
    if (a->scale == 0)
        a->scale = (float)(1 / sqrt((double)a->k_size));
    return a->batch > 0 && a->k_size > 0 && a->v_size > 0;
}
