/* attention.c -- Attention: grouped heads, masks, soft cap, windows, internal and external caches.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Query row i of a block stands at position offset + i among the keys; offset is the length of the
 * past, or, with nonpad_kv_seqlen, what the valid keys exceed the queries by. */
#include "ops/attention/attend_mask.h"

#include <math.h>

#include "ops/expect.h"

typedef struct {
    uint64_t present;
    int64_t is_causal, kv_num_heads, q_num_heads, qk_matmul_output_mode, softmax_precision;
    int64_t left_window_size, right_window_size;
    float scale, softcap;
} attention_attr;

enum { HAS_SCALE = 1 };

CM_ATTRS(attention, attention_attr, CM_ATTR_FLOAT(attention_attr, scale, 0),
         CM_ATTR_INT(attention_attr, is_causal, 0), CM_ATTR_INT(attention_attr, kv_num_heads, 0),
         CM_ATTR_INT(attention_attr, q_num_heads, 0),
         CM_ATTR_INT(attention_attr, qk_matmul_output_mode, 0),
         CM_ATTR_FLOAT(attention_attr, softcap, 0),
         CM_ATTR_INT(attention_attr, softmax_precision, 0),
         CM_ATTR_INT(attention_attr, left_window_size, -1),
         CM_ATTR_INT(attention_attr, right_window_size, -1))

enum { Q, K, V, MASK, PAST_K, PAST_V, NONPAD };

/* The sizes of the problem, as dims. */
typedef struct {
    cm_dim batch, q_heads, kv_heads, q_len, kv_len, past, total, head, v_head;
} sizes;

static cm_status check_attributes(cm_infer *f, const attention_attr *a)
{
    int64_t mode = a->qk_matmul_output_mode, p = a->softmax_precision;
    if (mode < 0 || mode > 3)
        return cm_fail(f->cx, CM_ERR_MODEL, "qk_matmul_output_mode is %lld, wanted 0 to 3",
                       (long long)mode);
    if (p != 0 && p != CM_F32 && p != CM_F16 && p != CM_F64 && p != CM_BF16)
        return cm_fail(f->cx, CM_ERR_MODEL, "softmax_precision is %lld, wanted 1, 10, 11 or 16",
                       (long long)p);
    if (a->left_window_size < -1 || a->right_window_size < -1)
        return cm_fail(
            f->cx, CM_ERR_MODEL, "a window size is %lld, wanted -1 or more",
            (long long)(a->left_window_size < -1 ? a->left_window_size : a->right_window_size));
    if (cm_infer_has(f, PAST_K) != cm_infer_has(f, PAST_V))
        return cm_fail(f->cx, CM_ERR_MODEL, "past_key and past_value must be given together");
    if (cm_infer_has(f, NONPAD) && cm_infer_has(f, PAST_K))
        return cm_fail(f->cx, CM_ERR_MODEL, "nonpad_kv_seqlen is given along with past_key");
    return CM_OK;
}

static cm_status read_sizes(cm_infer *f, const attention_attr *a, sizes *s)
{
    if (cm_infer_rank(f, Q) == 4) {
        s->q_heads = cm_infer_dim(f, Q, 1);
        s->kv_heads = cm_infer_dim(f, K, 1);
        s->q_len = cm_infer_dim(f, Q, 2);
        s->kv_len = cm_infer_dim(f, K, 2);
        s->head = cm_infer_dim(f, Q, 3);
        s->v_head = cm_infer_dim(f, V, 3);
        CM_TRY(cm_infer_equal(f, "heads of V", cm_infer_dim(f, V, 1), s->kv_heads));
        CM_TRY(cm_infer_equal(f, "head size of K", cm_infer_dim(f, K, 3), s->head));
    } else {
        if (a->q_num_heads < 1 || a->kv_num_heads < 1)
            return cm_fail(f->cx, CM_ERR_MODEL,
                           "q_num_heads is %lld and kv_num_heads %lld: inputs of rank 3 need both",
                           (long long)a->q_num_heads, (long long)a->kv_num_heads);
        s->q_heads = a->q_num_heads;
        s->kv_heads = a->kv_num_heads;
        s->q_len = cm_infer_dim(f, Q, 1);
        s->kv_len = cm_infer_dim(f, K, 1);
        cm_dim k_head;
        CM_TRY(cm_expect_split(f, "hidden size of Q", cm_infer_dim(f, Q, 2), s->q_heads, &s->head));
        CM_TRY(cm_expect_split(f, "hidden size of K", cm_infer_dim(f, K, 2), s->kv_heads, &k_head));
        CM_TRY(
            cm_expect_split(f, "hidden size of V", cm_infer_dim(f, V, 2), s->kv_heads, &s->v_head));
        CM_TRY(cm_infer_equal(f, "head size of K", k_head, s->head));
    }
    s->batch = cm_infer_dim(f, Q, 0);
    CM_TRY(cm_infer_equal(f, "batch of K", cm_infer_dim(f, K, 0), s->batch));
    CM_TRY(cm_infer_equal(f, "batch of V", cm_infer_dim(f, V, 0), s->batch));
    int v_axis = cm_infer_rank(f, Q) == 4 ? 2 : 1;
    CM_TRY(cm_infer_equal(f, "length of V", cm_infer_dim(f, V, v_axis), s->kv_len));
    int64_t hq, hkv;
    if (cm_infer_const(f, s->q_heads, &hq) && cm_infer_const(f, s->kv_heads, &hkv) &&
        (hkv < 1 || hq % hkv != 0))
        return cm_fail(f->cx, CM_ERR_MODEL, "%lld query heads are no multiple of %lld key heads",
                       (long long)hq, (long long)hkv);
    s->past = 0;
    if (cm_infer_has(f, PAST_K))
        s->past = cm_infer_ranked(f, PAST_K) ? cm_infer_dim(f, PAST_K, 2) : CM_DIM_ERROR;
    s->total =
        s->past == CM_DIM_ERROR ? cm_infer_fresh(f, "total") : cm_infer_add(f, s->past, s->kv_len);
    return CM_OK;
}

/* The mask broadcasts to [batch, q_heads, q_len, total]; its last axis may be shorter. */
static cm_status check_mask(cm_infer *f, const sizes *s)
{
    CM_TRY(cm_expect_rank(f, MASK, "attn_mask", 0, 4));
    if (!cm_expect_known(f, MASK))
        return CM_OK;
    int rank = cm_infer_rank(f, MASK);
    cm_dim want[] = {s->batch, s->q_heads, s->q_len, s->total};
    for (int i = 0; i < rank; i++) {
        cm_dim d = cm_infer_dim(f, MASK, i), w = want[4 - rank + i];
        int64_t n, m;
        if (i == rank - 1 && cm_infer_const(f, d, &n) && cm_infer_const(f, w, &m) && n <= m)
            continue;
        if (d != 1)
            CM_TRY(cm_infer_equal(f, "attn_mask", d, w));
    }
    return CM_OK;
}

static cm_status infer(cm_infer *f)
{
    const attention_attr *a = f->attr;
    CM_TRY(check_attributes(f, a));
    for (int i = Q; i <= V; i++)
        CM_TRY(cm_expect_rank(f, i, i == Q ? "Q" : i == K ? "K" : "V", 3, 4));
    if (!cm_infer_ranked(f, Q) || !cm_infer_ranked(f, K) || !cm_infer_ranked(f, V)) {
        for (int o = 0; o < f->n_out; o++)
            cm_infer_unknown(f, o);
        return CM_OK;
    }
    int rank = cm_infer_rank(f, Q);
    CM_TRY(cm_expect_rank(f, K, "K", rank, rank));
    CM_TRY(cm_expect_rank(f, V, "V", rank, rank));
    CM_TRY(cm_expect_rank(f, PAST_K, "past_key", 4, 4));
    CM_TRY(cm_expect_rank(f, PAST_V, "past_value", 4, 4));
    sizes s;
    CM_TRY(read_sizes(f, a, &s));
    cm_dim past_k[] = {s.batch, s.kv_heads, s.past, s.head};
    cm_dim past_v[] = {s.batch, s.kv_heads, s.past, s.v_head};
    CM_TRY(cm_expect_shape(f, PAST_K, "past_key", 4, past_k));
    CM_TRY(cm_expect_shape(f, PAST_V, "past_value", 4, past_v));
    CM_TRY(cm_expect_shape(f, NONPAD, "nonpad_kv_seqlen", 1, &s.batch));
    CM_TRY(check_mask(f, &s));
    cm_dim y4[] = {s.batch, s.q_heads, s.q_len, s.v_head};
    cm_dim y3[] = {s.batch, s.q_len, cm_infer_mul(f, s.q_heads, s.v_head)};
    cm_dim present_k[] = {s.batch, s.kv_heads, s.total, s.head};
    cm_dim present_v[] = {s.batch, s.kv_heads, s.total, s.v_head};
    cm_dim scores[] = {s.batch, s.q_heads, s.q_len, s.total};
    CM_TRY(cm_infer_tensor(f, 0, rank, rank == 4 ? y4 : y3));
    if (f->n_out > 1)
        CM_TRY(cm_infer_tensor(f, 1, 4, present_k));
    if (f->n_out > 2)
        CM_TRY(cm_infer_tensor(f, 2, 4, present_v));
    if (f->n_out > 3)
        CM_TRY(cm_infer_tensor(f, 3, 4, scores));
    return CM_OK;
}

/* A boolean mask becomes 0 and -infinity. */
static cm_status read_bias(cm_eval *e, cm_attend *a)
{
    if (!cm_eval_has(e, MASK))
        return CM_OK;
    const cm_tensor *m = cm_eval_in(e, MASK);
    if (m->dtype == CM_BOOL) {
        int64_t n = cm_tensor_elems(m);
        const uint8_t *allowed = m->data;
        void *bias;
        CM_TRY(cm_eval_scratch(e, (size_t)n, sizeof(double), &bias));
        for (int64_t i = 0; i < n; i++)
            ((double *)bias)[i] = allowed[i] ? 0 : -INFINITY;
        a->bias = bias;
        a->from_bool = true;
    } else {
        CM_TRY(cm_eval_as_f64(e, MASK, &a->bias));
    }
    int64_t stride = 1, *strides[] = {&a->bias_col, &a->bias_row, &a->bias_head, &a->bias_batch};
    for (int i = 0; i < m->rank; i++) {
        int64_t d = m->dims[m->rank - 1 - i];
        *strides[i] = d == 1 ? 0 : stride;
        stride *= d;
    }
    a->bias_cols = m->rank ? m->dims[m->rank - 1] : a->kv_len;
    return CM_OK;
}

static cm_status read_valid(cm_eval *e, cm_attend *a)
{
    if (!cm_eval_has(e, NONPAD))
        return CM_OK;
    CM_TRY(cm_eval_as_i64(e, NONPAD, &a->kv_valid));
    void *position;
    CM_TRY(cm_eval_scratch(e, (size_t)a->batch, sizeof(int64_t), &position));
    for (int64_t b = 0; b < a->batch; b++) {
        if (a->kv_valid[b] < 0 || a->kv_valid[b] > a->kv_len)
            return cm_fail(e->cx, CM_ERR_DATA, "nonpad_kv_seqlen[%lld] is %lld, wanted 0 to %lld",
                           (long long)b, (long long)a->kv_valid[b], (long long)a->kv_len);
        ((int64_t *)position)[b] = a->kv_valid[b] - a->q_len;
    }
    a->position = position;
    return CM_OK;
}

static cm_status eval(cm_eval *e)
{
    const attention_attr *attr = e->attr;
    const cm_tensor *q = cm_eval_in(e, Q), *k = cm_eval_in(e, K), *v = cm_eval_in(e, V);
    bool packed = q->rank == 3;
    int64_t fresh = k->dims[packed ? 1 : 2];
    int64_t past = cm_eval_has(e, PAST_K) ? cm_eval_in(e, PAST_K)->dims[2] : 0;
    cm_attend a = {.batch = q->dims[0],
                   .kv_len = past + fresh,
                   .causal = attr->is_causal != 0,
                   .left = attr->left_window_size,
                   .right = attr->right_window_size,
                   .softcap = attr->softcap,
                   .score_mode = (cm_score_mode)attr->qk_matmul_output_mode};
    a.q_heads = packed ? attr->q_num_heads : q->dims[1];
    a.kv_heads = packed ? attr->kv_num_heads : k->dims[1];
    a.q_len = q->dims[packed ? 1 : 2];
    a.head = packed ? q->dims[2] / a.q_heads : q->dims[3];
    a.v_head = packed ? v->dims[2] / a.kv_heads : v->dims[3];
    a.scale = attr->present & HAS_SCALE ? attr->scale : a.head ? 1 / sqrt((double)a.head) : 0;
    const double *x[3];
    for (int i = 0; i < 3; i++)
        CM_TRY(cm_eval_as_f64(e, i, &x[i]));
    cm_heads (*heads)(const double *, int64_t, int64_t, int64_t) =
        packed ? cm_heads_bsnh : cm_heads_bnsh;
    a.q = heads(x[Q], a.q_heads, a.q_len, a.head);
    a.k = heads(x[K], a.kv_heads, fresh, a.head);
    a.v = heads(x[V], a.kv_heads, fresh, a.v_head);
    CM_TRY(cm_attend_join_past(e, &a, PAST_K, 1, fresh, a.head, &a.k));
    CM_TRY(cm_attend_join_past(e, &a, PAST_V, 2, fresh, a.v_head, &a.v));
    CM_TRY(cm_attend_position(e, &a, past));
    CM_TRY(read_valid(e, &a));
    CM_TRY(read_bias(e, &a));
    if (cm_eval_wants(e, 0))
        a.y = (packed ? cm_heads_out_bsnh : cm_heads_out_bnsh)(cm_eval_out(e, 0), a.q_heads,
                                                               a.q_len, a.v_head);
    if (cm_eval_wants(e, 3))
        a.scores = cm_heads_out_bnsh(cm_eval_out(e, 3), a.q_heads, a.q_len, a.kv_len);
    return cm_attend_run(e, &a);
}

static void cost(const cm_infer *f, cm_cost *c)
{
    if (cm_expect_known(f, Q) && cm_expect_known(f, K)) {
        int axis = cm_infer_rank(f, K) == 4 ? 2 : 1;
        c->ops =
            4 * cm_infer_volume(f, f->in[Q].type) * cm_infer_extent(f, cm_infer_dim(f, K, axis));
    }
}

const cm_family cm_family_attention = {
    .name = "attention", .infer = infer, .eval = eval, .cost = cost};
