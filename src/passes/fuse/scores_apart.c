/* scores_apart.c -- an Attention whose scores are an output: these by nodes of their own, for a plan.
 *
 *     y, pk, pv, s = Attention(q, k, v, mask, past_k, past_v) {qk_matmul_output_mode=2}
 *  becomes
 *     y, pk, pv, _ = Attention(q, k, v, mask, past_k, past_v)
 *     s = MatMul(q, Transpose(Concat(past_k, k))) * scale + mask
 *
 * so that what is left has kernels. Mode 1 is behind the soft cap, mode 3 behind the softmax, where a query that sees no key
 * has zeros. Sizes must be numbers. Left alone: biased scores of batches with a number of valid keys each, masks that are shorter than the
 * keys.
 *
 * needs: types    keeps: types, uses
 * SPDX-License-Identifier: Apache-2.0
 */
#include <float.h>
#include <math.h>

#include "passes/causal_mask.h"
#include "passes/chain.h"

enum { Q, K, V, MASK, PAST_K, PAST_V, LENGTHS };
enum { RAW, CAPPED, BIASED, SOFTMAX };

typedef struct {
    int64_t batch, heads, kv_heads, q_len, kv_len, past, size;
} sizes;

static cm_value *input(const cm_node *n, int i)
{
    return i < n->n_in ? n->in[i] : NULL;
}

static bool all_numbers(const cm_value *v, int rank)
{
    if (cm_rank(v) != rank)
        return false;
    for (int i = 0; i < rank; i++)
        if (!cm_dim_is_size(v->type.dims[i]) || v->type.dims[i] < 1)
            return false;
    return true;
}

static bool read_sizes(const cm_node *n, sizes *s)
{
    int rank = cm_rank(n->in[Q]);
    const cm_value *past = input(n, PAST_K);
    if ((rank != 3 && rank != 4) || !all_numbers(n->in[Q], rank) || !all_numbers(n->in[K], rank))
        return false;
    if (past && (cm_rank(past) != 4 || !cm_dim_is_size(past->type.dims[2])))
        return false;
    const int64_t *q = n->in[Q]->type.dims, *k = n->in[K]->type.dims;
    bool by_heads = rank == 4;
    *s = (sizes){.batch = q[0],
                 .heads = by_heads ? q[1] : cm_int(n, "q_num_heads"),
                 .kv_heads = by_heads ? k[1] : cm_int(n, "kv_num_heads"),
                 .q_len = q[by_heads ? 2 : 1],
                 .kv_len = k[by_heads ? 2 : 1],
                 .past = past ? past->type.dims[2] : 0};
    if (s->heads < 1 || s->kv_heads < 1 || s->heads % s->kv_heads)
        return false;
    s->size = by_heads ? q[3] : q[2] / s->heads;
    return true;
}

static bool is_half_or_float(const cm_value *v)
{
    return v->type.dtype == CM_F32 || v->type.dtype == CM_F16 || v->type.dtype == CM_BF16;
}

static bool is_scored(const cm_node *n)
{
    enum { MOST = 1 << 24 };
    sizes s;
    if (!cm_is(n, CM_OP_ATTENTION) || n->n_out < 4 || !n->out[3] || !n->out[3]->n_uses ||
        !is_half_or_float(n->in[Q]) || !is_half_or_float(n->in[K]) || !read_sizes(n, &s))
        return false;
    if (cm_int(n, "qk_matmul_output_mode") < BIASED)
        return true;
    const cm_value *mask = input(n, MASK);
    int64_t total = s.past + s.kv_len;
    int rank = mask ? cm_rank(mask) : 0;
    if (mask && (rank < 1 || rank > 4 || mask->type.dims[rank - 1] != total))
        return false;
    return !input(n, LENGTHS) && s.q_len <= MOST / total;
}

static cm_value *transpose(cm_chain *c, cm_value *v, const int64_t perm[4])
{
    void *attr = cm_chain_attr(c, CM_OP_TRANSPOSE);
    cm_chain_ints(c, CM_OP_TRANSPOSE, attr, "perm", 4, perm);
    return CM_THEN(c, CM_OP_TRANSPOSE, attr, v);
}

/* [batch, heads, len, size] in float32. */
static cm_value *by_heads(cm_chain *c, cm_value *v, int64_t heads, const sizes *s, int64_t len)
{
    static const int64_t perm[] = {0, 2, 1, 3};
    v = cm_chain_widen(c, v);
    if (c->st != CM_OK || cm_rank(v) == 4)
        return v;
    v = cm_chain_reshape(c, v, 4, (int64_t[]){s->batch, len, heads, s->size});
    return transpose(c, v, perm);
}

/* scale q k^T, heads that share keys as more rows of one. */
static cm_value *products(cm_chain *c, const sizes *s)
{
    static const int64_t perm[] = {0, 1, 3, 2};
    const cm_node *n = c->at;
    int64_t group = s->heads / s->kv_heads;
    cm_value *q = by_heads(c, n->in[Q], s->heads, s, s->q_len);
    cm_value *k = by_heads(c, n->in[K], s->kv_heads, s, s->kv_len);
    if (s->past) {
        void *attr = cm_chain_attr(c, CM_OP_CONCAT);
        cm_chain_int(c, CM_OP_CONCAT, attr, "axis", 2);
        k = CM_THEN(c, CM_OP_CONCAT, attr, cm_chain_widen(c, n->in[PAST_K]), k);
    }
    if (group > 1)
        q = cm_chain_reshape(c, q, 4,
                             (int64_t[]){s->batch, s->kv_heads, group * s->q_len, s->size});
    double scale = cm_attr_has(n->op->attrs, n->attr, "scale") ? cm_float(n, "scale")
                                                               : 1 / sqrt((double)s->size);
    cm_value *v = CM_THEN(c, CM_OP_MATMUL, NULL, q, transpose(c, k, perm));
    v = CM_THEN(c, CM_OP_MUL, NULL, v, cm_chain_number(c, CM_F32, scale));
    if (group > 1)
        v = cm_chain_reshape(c, v, 4,
                             (int64_t[]){s->batch, s->heads, s->q_len, s->past + s->kv_len});
    return v;
}

static cm_value *cap(cm_chain *c, cm_value *v, double most)
{
    v = CM_THEN(c, CM_OP_MUL, NULL, v, cm_chain_number(c, CM_F32, 1 / most));
    v = CM_THEN(c, CM_OP_TANH, NULL, v);
    return CM_THEN(c, CM_OP_MUL, NULL, v, cm_chain_number(c, CM_F32, most));
}

/* What a mask of bools rules out has the lowest number there is, where the softmax does not need it to be nothing. */
static cm_value *mask_out(cm_chain *c, cm_value *v, bool shown)
{
    cm_dtype t = c->at->in[Q]->type.dtype;
    cm_value *mask = input(c->at, MASK);
    if (!mask)
        return v;
    if (mask->type.dtype != CM_BOOL)
        return CM_THEN(c, CM_OP_ADD, NULL, v,
                       mask->type.dtype == CM_F32 ? mask : cm_chain_cast(c, mask, CM_F32));
    double low = !shown ? -INFINITY : t == CM_F16 ? -65504 : -FLT_MAX;
    return CM_THEN(c, CM_OP_WHERE, NULL, mask, v, cm_chain_number(c, CM_F32, low));
}

/* Keys behind the query, and outside its window. */
static cm_value *look_back(cm_chain *c, cm_value *v, const sizes *s)
{
    const cm_node *n = c->at;
    cm_seen seen = {.queries = s->q_len,
                    .keys = s->past + s->kv_len,
                    .past = s->past,
                    .causal = cm_int(n, "is_causal") != 0,
                    .left = cm_int(n, "left_window_size"),
                    .right = cm_int(n, "right_window_size")};
    cm_value *mask = NULL;
    if (!seen.causal && seen.left < 0 && seen.right < 0)
        return v;
    if (c->st == CM_OK)
        c->st = cm_draw_seen(c->rw->cx, n->network, &seen, &mask);
    return CM_THEN(c, CM_OP_WHERE, NULL, mask, v, cm_chain_number(c, CM_F32, -INFINITY));
}

static cm_value *softmax(cm_chain *c, cm_value *v)
{
    static const int64_t last = -1;
    cm_value *most = cm_chain_reduce(c, CM_OP_REDUCE_MAX, v, 1, &last, true);
    cm_value *none = CM_THEN(c, CM_OP_EQUAL, NULL, most, cm_chain_number(c, CM_F32, -INFINITY));
    void *attr = cm_chain_attr(c, CM_OP_SOFTMAX);
    cm_chain_int(c, CM_OP_SOFTMAX, attr, "axis", -1);
    v = CM_THEN(c, CM_OP_SOFTMAX, attr, v);
    return CM_THEN(c, CM_OP_WHERE, NULL, none, cm_chain_number(c, CM_F32, 0), v);
}

static void expand(cm_chain *c)
{
    const cm_node *n = c->at;
    int64_t mode = cm_int(n, "qk_matmul_output_mode");
    sizes s;
    (void)read_sizes(n, &s);
    cm_value *v = products(c, &s);
    if (mode >= CAPPED && cm_float(n, "softcap") > 0)
        v = cap(c, v, cm_float(n, "softcap"));
    if (mode >= BIASED)
        v = look_back(c, mask_out(c, v, mode == BIASED), &s);
    cm_chain_end(c, 3, mode == SOFTMAX ? softmax(c, v) : v);
}

CM_PASS(scores_apart)
{
    static const cm_chain_form forms[] = {{is_scored, expand}};
    return cm_chain_rewrite(rw, g, forms, CM_COUNT(forms));
}
