/* ms_gqa.c -- com.microsoft GroupQueryAttention: rotary positions, a growing or fixed cache.
 * SPDX-License-Identifier: Apache-2.0
 *
 * seqlens_k[b] + 1 keys count for sequence b once the new ones are in. The prompt (as many queries
 * as total_sequence_length) starts the cache; later queries go behind seqlens_k[b] + 1 - S keys. The
 * present cache is as long as the past one, or as total_sequence_length when that is more. */
#include "ops/attention/rotary.h"

#include <math.h>
#include <string.h>

#include "base/size.h"
#include "ops/attention/attend_mask.h"
#include "ops/expect.h"
#include "ops/quant/quant.h"

typedef struct {
    uint64_t present;
    float scale, softcap, qk_norm_epsilon;
    int64_t causal, do_rotary, kv_cache_bit_width, kv_num_heads, local_window_size, num_heads;
    int64_t qk_output, rotary_interleaved, sliding_window_cache, smooth_softmax;
    cm_str k_quant_type, v_quant_type;
} gqa_attr;

enum { HAS_SCALE = 1 };

CM_ATTRS(ms_group_query_attention, gqa_attr, CM_ATTR_FLOAT(gqa_attr, scale, 0),
         CM_ATTR_INT(gqa_attr, causal, 1), CM_ATTR_INT(gqa_attr, do_rotary, 0),
         CM_ATTR_STR(gqa_attr, k_quant_type, "NONE"), CM_ATTR_INT(gqa_attr, kv_cache_bit_width, 0),
         CM_ATTR_INT_REQUIRED(gqa_attr, kv_num_heads), CM_ATTR_INT(gqa_attr, local_window_size, -1),
         CM_ATTR_INT_REQUIRED(gqa_attr, num_heads), CM_ATTR_FLOAT(gqa_attr, qk_norm_epsilon, 1e-6f),
         CM_ATTR_INT(gqa_attr, qk_output, 0), CM_ATTR_INT(gqa_attr, rotary_interleaved, 0),
         CM_ATTR_INT(gqa_attr, sliding_window_cache, 0), CM_ATTR_INT(gqa_attr, smooth_softmax, -1),
         CM_ATTR_FLOAT(gqa_attr, softcap, 0), CM_ATTR_STR(gqa_attr, v_quant_type, "NONE"))

enum {
    Q,
    K,
    V,
    PAST_K,
    PAST_V,
    SEQLENS,
    TOTAL,
    COS,
    SIN,
    POSITIONS,
    BIAS,
    SINK,
    K_SCALE,
    V_SCALE,
    Q_NORM,
    K_NORM
};

static cm_status check_attributes(cm_infer *f, const gqa_attr *a)
{
    int64_t q = a->num_heads, kv = a->kv_num_heads;
    if (q < 1 || kv < 1 || q % kv || q > INT32_MAX)
        return cm_fail(f->cx, CM_ERR_MODEL, "num_heads %lld is no multiple of kv_num_heads %lld",
                       (long long)q, (long long)kv);
    if (a->sliding_window_cache)
        return cm_fail(f->cx, CM_ERR_UNSUPPORTED, "sliding_window_cache");
    if (a->kv_cache_bit_width == 4)
        return cm_fail(f->cx, CM_ERR_UNSUPPORTED, "a key and value cache of 4 bits");
    if (a->qk_output < 0 || a->qk_output > 2)
        return cm_fail(f->cx, CM_ERR_MODEL, "qk_output is %lld, wanted 0 to 2",
                       (long long)a->qk_output);
    if (a->do_rotary && (!cm_infer_has(f, COS) || !cm_infer_has(f, SIN)))
        return cm_fail(f->cx, CM_ERR_MODEL, "do_rotary is set without cos_cache and sin_cache");
    if (cm_infer_has(f, K) != cm_infer_has(f, V) ||
        cm_infer_has(f, PAST_K) != cm_infer_has(f, PAST_V))
        return cm_fail(f->cx, CM_ERR_MODEL, "a key is given without its value, or the reverse");
    if (cm_infer_has(f, Q_NORM) != cm_infer_has(f, K_NORM))
        return cm_fail(f->cx, CM_ERR_MODEL,
                       "q_norm_weight and k_norm_weight must be given together");
    return CM_OK;
}

static bool is_quantized_cache(cm_dtype t)
{
    return t == CM_I8 || t == CM_U8 || t == CM_F8E4M3FN;
}

/* How long the present cache is; CM_DIM_ERROR when not known. */
static cm_dim present_length(cm_infer *f)
{
    cm_dim past = cm_infer_has(f, PAST_K) ? cm_expect_dim(f, PAST_K, 2) : 0, total;
    int n = 1;
    int64_t p, t;
    if (past == CM_DIM_ERROR || !cm_infer_elems(f, TOTAL, &total, &n) || n != 1)
        return CM_DIM_ERROR;
    if (cm_infer_const(f, past, &p) && cm_infer_const(f, total, &t))
        return cm_max_i64(p, t);
    return f->dims ? cm_dim_max(f->dims, past, total) : CM_DIM_ERROR;
}

static cm_status infer_outputs(cm_infer *f, const gqa_attr *a, cm_dim batch, cm_dim len,
                               cm_dim head)
{
    cm_dim out[] = {batch, len, cm_infer_mul(f, head, a->num_heads)}, total = CM_DIM_ERROR;
    cm_dim present[] = {batch, a->kv_num_heads, present_length(f), head};
    int n = 1;
    CM_TRY(cm_infer_tensor(f, 0, 3, out));
    if (present[2] == CM_DIM_ERROR && f->dims)
        present[2] = cm_infer_fresh(f, "cache");
    for (int o = 1; o < f->n_out && o < 3; o++) {
        CM_TRY(cm_infer_tensor(f, o, 4, present));
        f->out[o].type.dtype = f->in[cm_infer_has(f, PAST_K) ? PAST_K : Q].type->dtype;
    }
    if (f->n_out < 4)
        return CM_OK;
    if (!cm_infer_elems(f, TOTAL, &total, &n) || n != 1)
        total = cm_infer_fresh(f, "total");
    cm_dim scores[] = {batch, a->num_heads, len, total};
    return cm_infer_tensor(f, 3, 4, scores);
}

static cm_status infer(cm_infer *f)
{
    const gqa_attr *a = f->attr;
    static const int required[] = {SEQLENS, TOTAL};
    CM_TRY(cm_expect_present(f, required, CM_COUNT(required)));
    CM_TRY(check_attributes(f, a));
    CM_TRY(cm_expect_rank(f, Q, "query", 3, 3));
    CM_TRY(cm_expect_one(f, TOTAL, "total_sequence_length"));
    if (!cm_infer_ranked(f, Q)) {
        for (int o = 0; o < f->n_out; o++)
            cm_infer_unknown(f, o);
        return CM_OK;
    }
    cm_dim batch = cm_infer_dim(f, Q, 0), len = cm_infer_dim(f, Q, 1), head;
    int64_t heads = cm_infer_has(f, K) ? a->num_heads : a->num_heads + 2 * a->kv_num_heads;
    CM_TRY(cm_expect_split(f, "hidden size of query", cm_infer_dim(f, Q, 2), heads, &head));
    cm_dim fresh[] = {batch, CM_DIM_ERROR, cm_infer_mul(f, head, a->kv_num_heads)};
    CM_TRY(cm_expect_shape(f, K, "key", 3, fresh));
    CM_TRY(cm_expect_shape(f, V, "value", 3, fresh));
    if (cm_expect_known(f, K))
        CM_TRY(cm_infer_equal(f, "length of key", cm_infer_dim(f, K, 1), len));
    if (cm_expect_known(f, V))
        CM_TRY(cm_infer_equal(f, "length of value", cm_infer_dim(f, V, 1), len));
    cm_dim past[] = {batch, a->kv_num_heads, CM_DIM_ERROR, head};
    CM_TRY(cm_expect_shape(f, PAST_K, "past_key", 4, past));
    past[2] = cm_expect_dim(f, PAST_K, 2);
    CM_TRY(cm_expect_shape(f, PAST_V, "past_value", 4, past));
    cm_dim sink = a->num_heads, norm = head, tokens[] = {batch, len};
    CM_TRY(cm_expect_shape(f, SINK, "head_sink", 1, &sink));
    CM_TRY(cm_expect_shape(f, Q_NORM, "q_norm_weight", 1, &norm));
    CM_TRY(cm_expect_shape(f, K_NORM, "k_norm_weight", 1, &norm));
    if (a->do_rotary)
        CM_TRY(cm_expect_shape(f, POSITIONS, "position_ids", 2, tokens));
    cm_dim cache[] = {cm_expect_dim(f, COS, 0), cm_expect_dim(f, COS, 1)};
    CM_TRY(cm_expect_rank(f, COS, "cos_cache", 2, 2));
    CM_TRY(cm_expect_shape(f, SIN, "sin_cache", 2, cache));
    CM_TRY(cm_attend_mask_check(f, -1, BIAS, batch, a->num_heads, len, CM_DIM_ERROR));
    return infer_outputs(f, a, batch, len, head);
}

typedef struct {
    cm_attend a;
    int64_t total, buffer; /* total_sequence_length; rows of the present cache */
    int64_t *past_lens;    /* per batch */
    int64_t *key_counts;
} run;

static cm_status read_lengths(cm_eval *e, run *r)
{
    void *past, *keys;
    int64_t rows = cm_eval_has(e, PAST_K) ? cm_eval_in(e, PAST_K)->dims[2] : 0;
    r->total = cm_eval_int(e, TOTAL, 0);
    r->buffer = cm_max_i64(r->total, rows);
    if (cm_tensor_elems(cm_eval_in(e, SEQLENS)) < r->a.batch)
        return cm_fail(e->cx, CM_ERR_DATA, "seqlens_k has fewer than %lld elements",
                       (long long)r->a.batch);
    if (r->total < r->a.q_len)
        return cm_fail(e->cx, CM_ERR_DATA, "total_sequence_length is %lld for %lld queries",
                       (long long)r->total, (long long)r->a.q_len);
    CM_TRY(cm_eval_scratch(e, (size_t)r->a.batch, sizeof(int64_t), &past));
    CM_TRY(cm_eval_scratch(e, (size_t)r->a.batch, sizeof(int64_t), &keys));
    r->past_lens = past;
    r->key_counts = keys;
    for (int64_t b = 0; b < r->a.batch; b++) {
        int64_t n = cm_eval_int(e, SEQLENS, b) + 1;
        int64_t before = r->total == r->a.q_len ? 0 : n - r->a.q_len;
        if (n < 0 || n > r->total || before < 0 || before > rows)
            return cm_fail(e->cx, CM_ERR_DATA,
                           "seqlens_k[%lld] is %lld: total_sequence_length is %lld, "
                           "past keys %lld",
                           (long long)b, (long long)(n - 1), (long long)r->total, (long long)rows);
        r->past_lens[b] = before;
        r->key_counts[b] = r->a.causal ? before + r->a.q_len : n;
    }
    return CM_OK;
}

/* Each head's vector divided by its root mean square, times a weight. A copy, [B,N,S,H]. */
static cm_status normalise(cm_eval *e, const run *r, int weight, double epsilon, int64_t heads,
                           cm_heads *h)
{
    if (!cm_eval_has(e, weight))
        return CM_OK;
    int64_t dims[] = {r->a.batch, heads, r->a.q_len, r->a.head};
    const double *w;
    cm_tensor t;
    CM_TRY(cm_eval_as_f64(e, weight, &w));
    CM_TRY(cm_eval_temp(e, CM_F64, 4, dims, &t));
    double *to = t.data;
    int64_t rows = r->a.batch * heads * r->a.q_len;
    for (int64_t i = 0; i < rows; i++, to += r->a.head) {
        const double *x = h->at + i / r->a.q_len / heads * h->batch +
                          i / r->a.q_len % heads * h->head + i % r->a.q_len * h->row;
        double sum = 0;
        for (int64_t j = 0; j < r->a.head; j++)
            sum += x[j] * x[j];
        double scale = 1 / sqrt(sum / (double)r->a.head + epsilon);
        for (int64_t j = 0; j < r->a.head; j++)
            to[j] = x[j] * scale * w[j];
    }
    *h = cm_heads_bnsh(t.data, heads, r->a.q_len, r->a.head);
    return CM_OK;
}

static cm_status rotate(cm_eval *e, const gqa_attr *attr, const run *r, int64_t heads, cm_heads *h)
{
    const cm_tensor *cache = cm_eval_in(e, COS);
    int64_t dims[] = {r->a.batch, heads, r->a.q_len, r->a.head}, n = r->a.batch * r->a.q_len;
    cm_rotary rot = {.batch = r->a.batch,
                     .heads = heads,
                     .len = r->a.q_len,
                     .size = r->a.head,
                     .dim = 2 * cache->dims[1],
                     .interleaved = attr->rotary_interleaved != 0,
                     .x = *h};
    if (rot.dim > rot.size)
        return cm_fail(e->cx, CM_ERR_DATA, "cos_cache has %lld columns for heads of %lld",
                       (long long)cache->dims[1], (long long)rot.size);
    cm_tensor t;
    void *rows;
    CM_TRY(cm_eval_temp(e, CM_F64, 4, dims, &t));
    CM_TRY(cm_eval_as_f64(e, COS, &rot.cos));
    CM_TRY(cm_eval_as_f64(e, SIN, &rot.sin));
    CM_TRY(cm_eval_scratch(e, (size_t)n, sizeof(int64_t), &rows));
    for (int64_t i = 0; i < n; i++)
        ((int64_t *)rows)[i] = cm_eval_has(e, POSITIONS)
                                   ? cm_eval_int(e, POSITIONS, i)
                                   : r->past_lens[i / r->a.q_len] + i % r->a.q_len;
    rot.rows = rows;
    CM_TRY(cm_rotary_check(e->cx, rot.rows, n, cache->dims[0]));
    rot.y = cm_heads_out_bnsh(&t, heads, r->a.q_len, r->a.head);
    cm_rotary_run(e->threads, &rot);
    *h = cm_heads_bnsh(t.data, heads, r->a.q_len, r->a.head);
    return CM_OK;
}

/* The scale of channel (head, i) of a quantised cache. */
static double cache_scale(cm_eval *e, int scale, int64_t head, int64_t i, int64_t size)
{
    int64_t n = cm_eval_has(e, scale) ? cm_tensor_elems(cm_eval_in(e, scale)) : 0;
    int64_t at = head * size + i;
    return n == 0 ? 1 : cm_eval_f64(e, scale, at < n ? at : 0);
}

/* A quantised cache holds what its type can: new rows are rounded to it, and read back. */
static void round_cache(cm_eval *e, const run *r, int scale, cm_dtype t, double *v, void *codes)
{
    int64_t rows = r->buffer, size = r->a.head;
    for (int64_t b = 0; b < r->a.batch; b++)
        for (int64_t h = 0; h < r->a.kv_heads; h++)
            for (int64_t k = 0; k < rows; k++)
                for (int64_t i = 0; i < size; i++) {
                    int64_t at = ((b * r->a.kv_heads + h) * rows + k) * size + i;
                    double s = cache_scale(e, scale, h, i, size);
                    uint8_t code;
                    bool fresh = k >= r->past_lens[b];
                    double q = fresh ? v[at] / s : v[at];
                    cm_quant_store(t, &q, 1, 1, 0, &code);
                    if (codes)
                        ((uint8_t *)codes)[at] = code;
                    v[at] = cm_get_f64(t, &code, 0) * s;
                }
}

static cm_status join(cm_eval *e, run *r, int past, int scale, int out, cm_heads *h)
{
    cm_cache c = {.batch = r->a.batch,
                  .heads = r->a.kv_heads,
                  .len = r->buffer,
                  .size = r->a.head,
                  .past_lens = r->past_lens,
                  .fresh = *h,
                  .fresh_len = r->a.q_len};
    if (cm_eval_has(e, past)) {
        const double *v;
        CM_TRY(cm_eval_as_f64(e, past, &v));
        c.past_rows = cm_eval_in(e, past)->dims[2];
        c.past = cm_heads_bnsh(v, c.heads, c.past_rows, c.size);
    }
    double *joined;
    CM_TRY(cm_cache_join(e, &c, &joined));
    cm_tensor *t = cm_eval_wants(e, out) ? cm_eval_out(e, out) : NULL;
    cm_dtype stored = cm_eval_has(e, past) ? cm_eval_in(e, past)->dtype : cm_eval_in(e, Q)->dtype;
    if (is_quantized_cache(stored))
        round_cache(e, r, scale, stored, joined, t ? t->data : NULL);
    else if (t)
        cm_store_f64(t->dtype, joined, cm_tensor_elems(t), t->data);
    *h = cm_heads_bnsh(joined, c.heads, c.len, c.size);
    return CM_OK;
}

static cm_status read_sink(cm_eval *e, const gqa_attr *attr, cm_attend *a)
{
    if (cm_eval_has(e, SINK))
        return cm_eval_as_f64(e, SINK, &a->sink);
    if (attr->smooth_softmax != 1)
        return CM_OK;
    void *zeros;
    CM_TRY(cm_eval_scratch(e, (size_t)a->q_heads, sizeof(double), &zeros));
    a->sink = zeros;
    return CM_OK;
}

static cm_status find_heads(cm_eval *e, cm_attend *a)
{
    const double *x[3] = {NULL};
    for (int i = 0; i < 3; i++)
        if (cm_eval_has(e, i))
            CM_TRY(cm_eval_as_f64(e, i, &x[i]));
    if (x[K]) {
        a->q = cm_heads_bsnh(x[Q], a->q_heads, a->q_len, a->head);
        a->k = cm_heads_bsnh(x[K], a->kv_heads, a->q_len, a->head);
        a->v = cm_heads_bsnh(x[V], a->kv_heads, a->q_len, a->head);
        return CM_OK;
    }
    int64_t row = (a->q_heads + 2 * a->kv_heads) * a->head;
    a->q = (cm_heads){x[Q], a->q_len * row, a->head, row};
    a->k = (cm_heads){x[Q] + a->q_heads * a->head, a->q_len * row, a->head, row};
    a->v = (cm_heads){x[Q] + (a->q_heads + a->kv_heads) * a->head, a->q_len * row, a->head, row};
    return CM_OK;
}

static cm_status eval(cm_eval *e)
{
    const gqa_attr *attr = e->attr;
    const cm_tensor *q = cm_eval_in(e, Q);
    int64_t heads = attr->num_heads + (cm_eval_has(e, K) ? 0 : 2 * attr->kv_num_heads);
    run r = {.a = {.batch = q->dims[0],
                   .q_heads = attr->num_heads,
                   .kv_heads = attr->kv_num_heads,
                   .q_len = q->dims[1],
                   .head = q->dims[2] / heads,
                   .right = -1,
                   .left = attr->local_window_size > 0 ? attr->local_window_size - 1 : -1,
                   .causal = attr->causal != 0,
                   .softcap = attr->softcap}};
    cm_attend *a = &r.a;
    a->v_head = a->head;
    a->scale = attr->present & HAS_SCALE && attr->scale != 0 ? attr->scale
               : a->head                                     ? 1 / sqrt((double)a->head)
                                                             : 0;
    CM_TRY(read_lengths(e, &r));
    CM_TRY(find_heads(e, a));
    CM_TRY(normalise(e, &r, Q_NORM, attr->qk_norm_epsilon, a->q_heads, &a->q));
    CM_TRY(normalise(e, &r, K_NORM, attr->qk_norm_epsilon, a->kv_heads, &a->k));
    if (attr->do_rotary) {
        CM_TRY(rotate(e, attr, &r, a->q_heads, &a->q));
        CM_TRY(rotate(e, attr, &r, a->kv_heads, &a->k));
    }
    CM_TRY(join(e, &r, PAST_K, K_SCALE, 1, &a->k));
    CM_TRY(join(e, &r, PAST_V, V_SCALE, 2, &a->v));
    a->kv_len = r.total;
    a->position = r.past_lens;
    a->kv_valid = r.key_counts;
    CM_TRY(cm_attend_mask(e, -1, BIAS, 0, 0, a));
    CM_TRY(read_sink(e, attr, a));
    if (cm_eval_wants(e, 0))
        a->y = cm_heads_out_bsnh(cm_eval_out(e, 0), a->q_heads, a->q_len, a->head);
    if (cm_eval_wants(e, 3)) {
        a->scores = cm_heads_out_bnsh(cm_eval_out(e, 3), a->q_heads, a->q_len, a->kv_len);
        a->score_mode = attr->qk_output == 2 ? CM_SCORE_SOFTMAX : CM_SCORE_TAKING_PART;
    }
    return cm_attend_run(e, a);
}

const cm_family cm_family_ms_gqa = {.name = "ms_gqa", .infer = infer, .eval = eval};
