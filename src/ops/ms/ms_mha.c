/* ms_mha.c -- com.microsoft MultiHeadAttention and DecoderMaskedMultiHeadAttention: attention on
 * projected inputs, whose bias is added here.
 * SPDX-License-Identifier: Apache-2.0
 *
 *     query [B,S,D], key [B,L,D], value [B,L,V]        query [B,S,N,3,H]: all three
 *     key [B,L,N,2,H]: keys and values                 key, value [B,N,L,H]: a finished cache
 *
 * DecoderMasked...: S is 1, and a query without key holds all three side by side. */
#include "ops/attention/attend_mask.h"

#include <math.h>

#include "ops/expect.h"

typedef struct {
    uint64_t present;
    float scale, mask_filter_value;
    int64_t num_heads, unidirectional, output_qk, past_present_share_buffer;
} mha_attr;

enum { HAS_SCALE = 1 };

#define FIELDS                                                                                     \
    CM_ATTR_FLOAT(mha_attr, scale, 0), CM_ATTR_FLOAT(mha_attr, mask_filter_value, -10000),         \
        CM_ATTR_INT_REQUIRED(mha_attr, num_heads)
CM_ATTRS(ms_multi_head_attention, mha_attr, FIELDS, CM_ATTR_INT(mha_attr, unidirectional, 0))
CM_ATTRS(ms_decoder_masked_attention, mha_attr, FIELDS, CM_ATTR_INT(mha_attr, output_qk, 0),
         CM_ATTR_INT(mha_attr, past_present_share_buffer, 0))

/* Where the inputs are. */
typedef struct {
    int bias, mask, attention_bias, past_k, past_v, past_len, beam_width, indirection;
} places;

static const places *places_of(cm_op_id id)
{
    static const places multi = {3, 4, 5, 6, 7, 8, -1, 9};
    static const places decoder = {10, 3, 4, 5, 6, 7, 8, 9};
    return id == CM_OP_MS_MULTI_HEAD_ATTENTION ? &multi : &decoder;
}

enum { Q, K, V };

/* How the inputs hold queries, keys and values. */
typedef enum { SEPARATE, PACKED_QKV, PACKED_KV, CACHED_KV, FLAT_QKV } qkv_form;

static bool read_form(int q_rank, bool has_key, int k_rank, qkv_form *out)
{
    if (q_rank == 5 && !has_key)
        *out = PACKED_QKV;
    else if (q_rank == 3 && !has_key)
        *out = FLAT_QKV;
    else if (q_rank == 3 && (k_rank == 3 || k_rank == 4 || k_rank == 5))
        *out = k_rank == 3 ? SEPARATE : k_rank == 4 ? CACHED_KV : PACKED_KV;
    else
        return false;
    return true;
}

typedef struct {
    qkv_form form;
    cm_dim batch, q_len, kv_len, head, v_head;
} sizes;

static cm_status read_sizes(cm_infer *f, const mha_attr *a, sizes *s)
{
    bool decoder = f->op->id != CM_OP_MS_MULTI_HEAD_ATTENTION;
    bool has_key = cm_infer_has(f, K);
    if (!read_form(cm_infer_rank(f, Q), has_key, has_key ? cm_infer_rank(f, K) : 0, &s->form) ||
        (s->form == FLAT_QKV && !decoder))
        return cm_fail(f->cx, CM_ERR_MODEL, "query of rank %d and key of rank %d do not fit",
                       cm_infer_rank(f, Q), has_key ? cm_infer_rank(f, K) : -1);
    int64_t n = a->num_heads;
    s->batch = cm_infer_dim(f, Q, 0);
    s->q_len = cm_infer_dim(f, Q, 1);
    s->kv_len = s->form == CACHED_KV ? cm_infer_dim(f, K, 2)
                : has_key            ? cm_infer_dim(f, K, 1)
                                     : s->q_len;
    if (s->form == PACKED_QKV) {
        cm_dim want[] = {s->batch, s->q_len, n, 3, cm_infer_dim(f, Q, 4)};
        s->head = s->v_head = cm_infer_dim(f, Q, 4);
        return cm_expect_shape(f, Q, "query", 5, want);
    }
    if (s->form == FLAT_QKV) {
        cm_dim hidden;
        CM_TRY(cm_expect_split(f, "query", cm_infer_dim(f, Q, 2), 3, &hidden));
        CM_TRY(cm_expect_split(f, "hidden size", hidden, n, &s->head));
        s->v_head = s->head;
        return CM_OK;
    }
    CM_TRY(cm_expect_split(f, "hidden size of query", cm_infer_dim(f, Q, 2), n, &s->head));
    s->v_head = s->head;
    cm_dim packed[] = {s->batch, s->kv_len, n, 2, s->head},
           cached[] = {s->batch, n, s->kv_len, s->head};
    cm_dim plain[] = {s->batch, s->kv_len, cm_infer_dim(f, Q, 2)},
           value[] = {s->batch, s->kv_len, CM_DIM_ERROR};
    if (s->form == PACKED_KV)
        return cm_expect_shape(f, K, "key", 5, packed);
    if (!cm_infer_has(f, V))
        return cm_fail(f->cx, CM_ERR_MODEL, "value is missing beside a key of rank %d",
                       cm_infer_rank(f, K));
    if (s->form == CACHED_KV) {
        cached[3] = CM_DIM_ERROR;
        CM_TRY(cm_expect_shape(f, V, "value", 4, cached));
        if (cm_expect_known(f, V))
            s->v_head = cm_infer_dim(f, V, 3);
        cached[3] = s->head;
        return cm_expect_shape(f, K, "key", 4, cached);
    }
    CM_TRY(cm_expect_shape(f, K, "key", 3, plain));
    CM_TRY(cm_expect_shape(f, V, "value", 3, value));
    return cm_expect_known(f, V)
               ? cm_expect_split(f, "hidden size of value", cm_infer_dim(f, V, 2), n, &s->v_head)
               : CM_OK;
}

static bool shares_buffer(const cm_infer *f, const mha_attr *a, const places *at)
{
    return f->op->id == CM_OP_MS_MULTI_HEAD_ATTENTION ? cm_infer_has(f, at->past_len)
                                                      : a->past_present_share_buffer != 0;
}

static cm_status infer_outputs(cm_infer *f, const mha_attr *a, const sizes *s)
{
    const places *at = places_of(f->op->id);
    bool past = cm_infer_has(f, at->past_k) && s->form != CACHED_KV,
         shared = past && shares_buffer(f, a, at);
    cm_dim before = past ? cm_expect_dim(f, at->past_k, 2) : 0, buffer = CM_DIM_ERROR;
    if (before != CM_DIM_ERROR)
        buffer = shared ? before : cm_infer_add(f, before, s->kv_len);
    cm_dim out[] = {s->batch, s->q_len, cm_infer_mul(f, s->v_head, a->num_heads)};
    cm_dim present[] = {s->batch, a->num_heads, buffer, s->head};
    cm_dim scores[] = {s->batch, a->num_heads, s->q_len, buffer};
    CM_TRY(cm_attend_mask_check(f, at->mask, at->attention_bias, s->batch, a->num_heads, s->q_len,
                                shared ? CM_DIM_ERROR : buffer));
    CM_TRY(cm_infer_tensor(f, 0, 3, out));
    for (int o = 1; o < f->n_out; o++) {
        if (o < 3)
            present[3] = o == 1 ? s->head : s->v_head;
        cm_dim *dims = o < 3 ? present : scores;
        if (buffer == CM_DIM_ERROR)
            cm_infer_unknown(f, o);
        else if (o == 3 && shared) /* as long as the keys that count, which only data tell */
            CM_TRY(cm_infer_data_dependent(f, o, 4));
        else
            CM_TRY(cm_infer_tensor(f, o, 4, dims));
    }
    if (f->n_out > 3)
        f->out[3].type.dtype = f->in[Q].type->dtype;
    return CM_OK;
}

static cm_status infer(cm_infer *f)
{
    const mha_attr *a = f->attr;
    const places *at = places_of(f->op->id);
    bool known = cm_infer_ranked(f, Q) && (!cm_infer_has(f, K) || cm_infer_ranked(f, K));
    if (a->num_heads < 1 || a->num_heads > INT32_MAX)
        return cm_fail(f->cx, CM_ERR_MODEL, "num_heads is %lld", (long long)a->num_heads);
    if (!known) {
        for (int o = 0; o < f->n_out; o++)
            cm_infer_unknown(f, o);
        return CM_OK;
    }
    sizes s;
    CM_TRY(read_sizes(f, a, &s));
    cm_dim hidden = cm_infer_mul(f, s.head, 2 * a->num_heads);
    cm_dim bias = cm_infer_add(f, hidden, cm_infer_mul(f, s.v_head, a->num_heads));
    CM_TRY(cm_expect_shape(f, at->bias, "bias", 1, &bias));
    cm_dim past_k[] = {s.batch, a->num_heads, CM_DIM_ERROR, s.head};
    cm_dim past_v[] = {s.batch, a->num_heads, CM_DIM_ERROR, s.v_head};
    CM_TRY(cm_expect_shape(f, at->past_k, "past_key", 4, past_k));
    past_v[2] = cm_expect_dim(f, at->past_k, 2);
    CM_TRY(cm_expect_shape(f, at->past_v, "past_value", 4, past_v));
    if (cm_infer_has(f, at->past_k) != cm_infer_has(f, at->past_v))
        return cm_fail(f->cx, CM_ERR_MODEL, "past_key and past_value must be given together");
    return infer_outputs(f, a, &s);
}

/* Queries, keys and values where they lie. */
static cm_status find_heads(cm_eval *e, qkv_form form, int64_t fresh, cm_attend *a)
{
    const double *x[3] = {NULL};
    for (int i = 0; i < 3; i++)
        if (cm_eval_has(e, i))
            CM_TRY(cm_eval_as_f64(e, i, &x[i]));
    int64_t n = a->q_heads, h = a->head, row = 3 * n * h;
    a->q = cm_heads_bsnh(x[Q], n, a->q_len, h);
    switch (form) {
    case PACKED_QKV: /* [B,S,N,3,H] */
        a->q = (cm_heads){x[Q], a->q_len * row, 3 * h, row};
        a->k = (cm_heads){x[Q] + h, a->q_len * row, 3 * h, row};
        a->v = (cm_heads){x[Q] + 2 * h, a->q_len * row, 3 * h, row};
        break;
    case FLAT_QKV: /* [B,S,3*N*H] */
        a->q = (cm_heads){x[Q], a->q_len * row, h, row};
        a->k = (cm_heads){x[Q] + n * h, a->q_len * row, h, row};
        a->v = (cm_heads){x[Q] + 2 * n * h, a->q_len * row, h, row};
        break;
    case PACKED_KV: /* [B,L,N,2,H] */
        row = 2 * n * h;
        a->k = (cm_heads){x[K], fresh * row, 2 * h, row};
        a->v = (cm_heads){x[K] + h, fresh * row, 2 * h, row};
        break;
    case CACHED_KV:
        a->k = cm_heads_bnsh(x[K], n, fresh, h);
        a->v = cm_heads_bnsh(x[V], n, fresh, a->v_head);
        break;
    default:
        a->k = cm_heads_bsnh(x[K], n, fresh, h);
        a->v = cm_heads_bsnh(x[V], n, fresh, a->v_head);
    }
    return CM_OK;
}

/* A copy, [B,N,len,size], with the bias of each head added. */
static cm_status add_bias(cm_eval *e, const cm_attend *a, const double *bias, int64_t len,
                          int64_t size, cm_heads *h)
{
    int64_t dims[] = {a->batch, a->q_heads, len, size};
    cm_tensor t;
    CM_TRY(cm_eval_temp(e, CM_F64, 4, dims, &t));
    double *to = t.data;
    for (int64_t b = 0; b < a->batch; b++)
        for (int64_t n = 0; n < a->q_heads; n++)
            for (int64_t r = 0; r < len; r++)
                for (int64_t i = 0; i < size; i++)
                    *to++ = h->at[b * h->batch + n * h->head + r * h->row + i] + bias[n * size + i];
    *h = cm_heads_bnsh(t.data, a->q_heads, len, size);
    return CM_OK;
}

static cm_status add_biases(cm_eval *e, cm_attend *a, int input, qkv_form form, int64_t fresh)
{
    const double *bias;
    int64_t hidden = a->q_heads * a->head;
    if (!cm_eval_has(e, input))
        return CM_OK;
    CM_TRY(cm_eval_as_f64(e, input, &bias));
    CM_TRY(add_bias(e, a, bias, a->q_len, a->head, &a->q));
    if (form == CACHED_KV)
        return CM_OK;
    CM_TRY(add_bias(e, a, bias + hidden, fresh, a->head, &a->k));
    return add_bias(e, a, bias + 2 * hidden, fresh, a->v_head, &a->v);
}

/* Rows of a beam's cache come from the beam that each token was in. */
typedef struct {
    const int64_t *from; /* [batch/beams, beams, max_len] */
    int64_t beams, max_len;
} beams;

static void gather_beams(const cm_cache *c, const beams *b, const double *in, double *out)
{
    int64_t each = c->len * c->size;
    for (int64_t i = 0; i < c->batch; i++)
        for (int64_t h = 0; h < c->heads; h++)
            for (int64_t r = 0; r < c->len; r++) {
                int64_t beam =
                    r < c->past_len && r < b->max_len ? b->from[i * b->max_len + r] : i % b->beams;
                int64_t source = beam >= 0 && beam < b->beams ? i - i % b->beams + beam : i;
                for (int64_t j = 0; j < c->size; j++)
                    out[(i * c->heads + h) * each + r * c->size + j] =
                        in[(source * c->heads + h) * each + r * c->size + j];
            }
}

static cm_status join(cm_eval *e, const cm_attend *a, int past, int out, const cm_cache *like,
                      const beams *b, cm_heads *h)
{
    if (!cm_eval_has(e, past) && !cm_eval_wants(e, out))
        return CM_OK;
    cm_cache c = *like;
    c.fresh = *h;
    if (cm_eval_has(e, past)) {
        const double *v;
        CM_TRY(cm_eval_as_f64(e, past, &v));
        c.past_rows = cm_eval_in(e, past)->dims[2];
        c.past = cm_heads_bnsh(v, a->kv_heads, c.past_rows, c.size);
    }
    double *joined;
    CM_TRY(cm_cache_join(e, &c, &joined));
    if (cm_eval_wants(e, out)) {
        cm_tensor *t = cm_eval_out(e, out);
        cm_store_f64(t->dtype, joined, cm_tensor_elems(t), t->data);
    }
    if (b->from) {
        void *own;
        CM_TRY(
            cm_eval_scratch(e, (size_t)(c.batch * c.heads * c.len * c.size), sizeof(double), &own));
        gather_beams(&c, b, joined, own);
        joined = own;
    }
    *h = cm_heads_bnsh(joined, a->kv_heads, c.len, c.size);
    return CM_OK;
}

static cm_status read_beams(cm_eval *e, const places *at, int64_t batch, beams *out)
{
    *out = (beams){0};
    if (!cm_eval_has(e, at->indirection))
        return CM_OK;
    const cm_tensor *t = cm_eval_in(e, at->indirection);
    if (t->rank != 3 || t->dims[1] < 1 || t->dims[0] * t->dims[1] != batch)
        return cm_fail(e->cx, CM_ERR_DATA, "cache_indirection does not fit a batch of %lld",
                       (long long)batch);
    out->beams = t->dims[1];
    out->max_len = t->dims[2];
    return cm_eval_as_i64(e, at->indirection, &out->from);
}

static cm_status join_cache(cm_eval *e, const mha_attr *attr, qkv_form form, int64_t fresh,
                            cm_attend *a, int64_t *past)
{
    const places *at = places_of(e->op->id);
    bool decoder = e->op->id != CM_OP_MS_MULTI_HEAD_ATTENTION;
    bool has_past = cm_eval_has(e, at->past_k) && form != CACHED_KV;
    bool shared =
        has_past && (decoder ? attr->past_present_share_buffer != 0 : cm_eval_has(e, at->past_len));
    int64_t rows = has_past ? cm_eval_in(e, at->past_k)->dims[2] : 0;
    int64_t buffer = shared ? rows : rows + fresh;
    *past = shared ? cm_eval_has(e, at->past_len) ? cm_eval_int(e, at->past_len, 0) : 0 : rows;
    if (*past < 0 || *past + fresh > buffer)
        return cm_fail(e->cx, CM_ERR_DATA, "past_sequence_length is %lld for a buffer of %lld",
                       (long long)*past, (long long)buffer);
    a->kv_len = *past + fresh;
    beams b;
    CM_TRY(read_beams(e, at, a->batch, &b));
    cm_cache like = {.batch = a->batch,
                     .heads = a->kv_heads,
                     .len = buffer,
                     .size = a->head,
                     .past_len = *past,
                     .fresh_len = fresh};
    int past_k = has_past ? at->past_k : e->n_in, past_v = has_past ? at->past_v : e->n_in;
    CM_TRY(join(e, a, past_k, 1, &like, &b, &a->k));
    like.size = a->v_head;
    return join(e, a, past_v, 2, &like, &b, &a->v);
}

static cm_status eval(cm_eval *e)
{
    const mha_attr *attr = e->attr;
    const places *at = places_of(e->op->id);
    const cm_tensor *q = cm_eval_in(e, Q), *k = cm_eval_has(e, K) ? cm_eval_in(e, K) : NULL;
    qkv_form form = SEPARATE;
    read_form(q->rank, k != NULL, k ? k->rank : 0, &form);
    int64_t n = attr->num_heads, past;
    int64_t fresh = !k ? q->dims[1] : form == CACHED_KV ? k->dims[2] : k->dims[1];
    cm_attend a = {.batch = q->dims[0],
                   .q_heads = n,
                   .kv_heads = n,
                   .q_len = q->dims[1],
                   .left = -1,
                   .right = -1,
                   .causal = attr->unidirectional != 0,
                   .score_mode = CM_SCORE_BIASED};
    a.head = form == PACKED_QKV ? q->dims[4] : q->dims[2] / n / (form == FLAT_QKV ? 3 : 1);
    a.v_head = a.head;
    if (form == CACHED_KV)
        a.v_head = cm_eval_in(e, V)->dims[3];
    else if (form == SEPARATE)
        a.v_head = cm_eval_in(e, V)->dims[2] / n;
    a.scale = attr->present & HAS_SCALE && attr->scale != 0 ? attr->scale
              : a.head                                      ? 1 / sqrt((double)a.head)
                                                            : 0;
    CM_TRY(find_heads(e, form, fresh, &a));
    CM_TRY(add_biases(e, &a, at->bias, form, fresh));
    CM_TRY(join_cache(e, attr, form, fresh, &a, &past));
    CM_TRY(cm_attend_position(e, &a, past));
    CM_TRY(cm_attend_mask(e, at->mask, at->attention_bias, past, attr->mask_filter_value, &a));
    if (cm_eval_wants(e, 0))
        a.y = cm_heads_out_bsnh(cm_eval_out(e, 0), n, a.q_len, a.v_head);
    if (cm_eval_wants(e, 3)) {
        int64_t dims[] = {a.batch, n, a.q_len, a.kv_len};
        if (!cm_eval_out(e, 3)->data)
            CM_TRY(cm_eval_alloc(e, 3, q->dtype, 4, dims));
        a.scores = cm_heads_out_bnsh(cm_eval_out(e, 3), n, a.q_len, a.kv_len);
    }
    return cm_attend_run(e, &a);
}

const cm_family cm_family_ms_mha = {.name = "ms_mha", .infer = infer, .eval = eval};
