/* attention.c -- cameo.Attention as a problem: where heads lie in memory, what masks scores.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/size.h"
#include "ops/problem.h"

bool cm_problem_attention(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p);

enum { Q, K, V, BIAS, MASK, PAST_K, PAST_V };

static bool is(cm_str layout, const char *name)
{
    return cm_str_equal(layout, cm_str_of(name));
}

/* Heads of `size` elements in t, among its columns from `offset` on and `step` apart. */
static cm_heads heads_of(const cm_tensor *t, cm_str layout, int64_t offset, int64_t step,
                         int64_t *batch, int64_t *len)
{
    const int64_t *s = t->strides;
    bool sbhd = is(layout, "sbhd"), bhds = is(layout, "bhds");
    if (is(layout, "bhsd") || bhds) {
        int seq = bhds ? 3 : 2;
        *batch = t->dims[0];
        *len = t->dims[seq];
        return (cm_heads){0, s[0], s[1], s[seq], s[5 - seq]};
    }
    *batch = t->dims[sbhd];
    *len = t->dims[!sbhd];
    return (cm_heads){offset * s[2], s[sbhd], step * s[2], s[!sbhd], s[2]};
}

/* Strides over batch, head, query and key; 0 where t broadcasts. */
static int64_t mask_strides(const cm_problem *p, int input, int64_t *out)
{
    for (int i = 0; i < 4; i++)
        out[i] = 0;
    if (!cm_problem_has(p, input))
        return 1;
    const cm_tensor *t = p->in[input];
    for (int i = 0; i < t->rank; i++)
        out[4 - t->rank + i] = t->dims[i] == 1 ? 0 : t->strides[i];
    return t->rank == 4 && t->dims[0] > 0 ? t->dims[0] : 1;
}

bool cm_problem_attention(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p)
{
    (void)arena;
    cm_attention *a = &p->as.attention;
    cm_ints offsets = cm_attr_ints(op, attr, "offsets"),
            steps = cm_attr_ints(op, attr, "head_steps");
    int64_t batch, size[3];
    *a = (cm_attention){.heads = cm_attr_int(op, attr, "q_num_heads"),
                        .kv_heads = cm_attr_int(op, attr, "kv_num_heads"),
                        .head_size = cm_attr_int(op, attr, "head_size"),
                        .v_head_size = cm_attr_int(op, attr, "v_head_size"),
                        .scale = cm_attr_float(op, attr, "scale"),
                        .softcap = cm_attr_float(op, attr, "softcap"),
                        .causal = cm_attr_int(op, attr, "is_causal") != 0,
                        .bias_last = cm_attr_int(op, attr, "bias_last") != 0,
                        .mask_value = cm_attr_float(op, attr, "mask_value"),
                        .has_mask_value = cm_attr_has(op->attrs, attr, "mask_value")};
    size[Q] = size[K] = a->head_size;
    size[V] = a->v_head_size;
#define AT(list, i, otherwise) (list.n ? list.v[i] : (otherwise))
    a->q = heads_of(p->in[Q], cm_attr_str(op, attr, "q_layout"), AT(offsets, Q, 0),
                    AT(steps, Q, size[Q]), &a->batch, &a->q_len);
    a->k = heads_of(p->in[K], cm_attr_str(op, attr, "k_layout"), AT(offsets, K, 0),
                    AT(steps, K, size[K]), &batch, &a->kv_len);
    a->v = heads_of(p->in[V], cm_attr_str(op, attr, "v_layout"), AT(offsets, V, 0),
                    AT(steps, V, size[V]), &batch, &a->kv_len);
#undef AT
    if (!cm_problem_wants(p, 0))
        return false;
    int64_t len;
    a->y = heads_of(p->out[0], cm_attr_str(op, attr, "y_layout"), 0, size[V], &batch, &len);
    a->past_len = cm_problem_has(p, PAST_K) ? p->in[PAST_K]->dims[2] : 0;
    a->bias_batch = mask_strides(p, BIAS, a->bias);
    a->mask_batch = mask_strides(p, MASK, a->mask);
    return a->batch > 0 && a->q_len > 0 && a->kv_len + a->past_len > 0;
}
