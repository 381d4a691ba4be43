/* gqa.c -- com.microsoft.GroupQueryAttention as a problem.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "ops/problem.h"

bool cm_problem_gqa(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p);

enum { Q, K, PAST_K = 3, COS = 7, BIAS = 10 };

bool cm_problem_gqa(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p)
{
    (void)arena;
    if (!cm_problem_wants(p, 0) || !cm_problem_wants(p, 1) || !cm_problem_wants(p, 2))
        return false;
    int64_t window = cm_attr_int(op, attr, "local_window_size");
    cm_gqa *g = &p->as.gqa;
    *g = (cm_gqa){.batch = p->in[Q]->dims[0],
                  .len = p->in[Q]->dims[1],
                  .heads = cm_attr_int(op, attr, "num_heads"),
                  .kv_heads = cm_attr_int(op, attr, "kv_num_heads"),
                  .past = cm_problem_has(p, PAST_K) ? p->in[PAST_K]->dims[2] : 0,
                  .rows = p->out[1]->dims[2],
                  .packed = !cm_problem_has(p, K),
                  .rotary = cm_attr_int(op, attr, "do_rotary") != 0,
                  .interleaved = cm_attr_int(op, attr, "rotary_interleaved") != 0,
                  .causal = cm_attr_int(op, attr, "causal") != 0,
                  .left = window > 0 ? window - 1 : -1,
                  .smooth = cm_attr_int(op, attr, "smooth_softmax") == 1,
                  .scale = cm_attr_float(op, attr, "scale"),
                  .softcap = cm_attr_float(op, attr, "softcap"),
                  .epsilon = cm_attr_float(op, attr, "qk_norm_epsilon")};
    g->size = p->in[Q]->dims[2] / (g->heads + (g->packed ? 2 * g->kv_heads : 0));
    g->rotated = g->rotary ? 2 * p->in[COS]->dims[1] : 0;
    if (g->scale == 0)
        g->scale = (float)(1 / sqrt((double)g->size));
    return g->size > 0 && g->rotated <= g->size;
}
