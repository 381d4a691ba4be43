/* ms_packed.c -- com.microsoft sequences without padding: PackedAttention,
 * PackedMultiHeadAttention.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Tokens of all sequences lie one after the other, [tokens, hidden]; cumulative_sequence_length
 * says where each sequence begins; token_offset where each token lay in the padded [batch, len]. */
#include "ops/attention/attend.h"

#include <math.h>
#include <string.h>

#include "base/size.h"
#include "ops/expect.h"
#include "ops/quant/qgemm.h"

typedef struct {
    uint64_t present;
    float scale, mask_filter_value;
    int64_t num_heads;
    cm_ints qkv_hidden_sizes;
} packed_attr;

enum { HAS_SCALE = 1 };

CM_ATTRS(ms_packed_attention, packed_attr, CM_ATTR_FLOAT(packed_attr, scale, 0),
         CM_ATTR_INT_REQUIRED(packed_attr, num_heads),
         CM_ATTR_INTS(packed_attr, qkv_hidden_sizes, 0))
CM_ATTRS(ms_packed_multi_head_attention, packed_attr, CM_ATTR_FLOAT(packed_attr, scale, 0),
         CM_ATTR_FLOAT(packed_attr, mask_filter_value, -10000),
         CM_ATTR_INT_REQUIRED(packed_attr, num_heads))

/* Where the inputs are. */
typedef struct {
    int bias, offset, lengths, attention_bias;
} places;

static const places *places_of(cm_op_id id)
{
    static const places projected = {2, 3, 4, 5}, plain = {3, 4, 5, 6};
    return id == CM_OP_MS_PACKED_ATTENTION ? &projected : &plain;
}

/* Sizes of queries, keys and values in the columns of a packed [tokens, columns]. */
static cm_status infer_projected(cm_infer *f, const packed_attr *a)
{
    cm_dim v_hidden;
    CM_TRY(cm_expect_rank(f, 0, "input", 2, 2));
    CM_TRY(cm_expect_rank(f, 1, "weights", 2, 2));
    if (!cm_infer_ranked(f, 0) || !cm_infer_ranked(f, 1)) {
        cm_infer_unknown(f, 0);
        return CM_OK;
    }
    cm_dim columns = cm_infer_dim(f, 1, 1);
    CM_TRY(cm_infer_equal(f, "rows of the weights", cm_infer_dim(f, 1, 0), cm_infer_dim(f, 0, 1)));
    CM_TRY(cm_expect_shape(f, 2, "bias", 1, &columns));
    if (a->qkv_hidden_sizes.n == 0) {
        CM_TRY(cm_expect_split(f, "columns of the weights", columns, 3, &v_hidden));
    } else {
        const int64_t *v = a->qkv_hidden_sizes.v;
        if (a->qkv_hidden_sizes.n != 3 || v[0] < 0 || v[1] != v[0] || v[2] < 0)
            return cm_fail(f->cx, CM_ERR_MODEL,
                           "qkv_hidden_sizes must be three sizes, the first two equal");
        CM_TRY(cm_infer_equal(f, "columns of the weights", columns,
                              cm_infer_add(f, cm_infer_add(f, v[0], v[1]), v[2])));
        v_hidden = v[2];
    }
    cm_dim out[] = {cm_infer_dim(f, 0, 0), v_hidden};
    return cm_infer_tensor(f, 0, 2, out);
}

static cm_status infer_plain(cm_infer *f, const packed_attr *a)
{
    static const int required[] = {4, 5};
    CM_TRY(cm_expect_present(f, required, CM_COUNT(required)));
    if (!cm_infer_ranked(f, 0) || (cm_infer_has(f, 2) && !cm_infer_ranked(f, 2))) {
        cm_infer_unknown(f, 0);
        return CM_OK;
    }
    int rank = cm_infer_rank(f, 0);
    if (rank != 2 && rank != 4)
        return cm_fail(f->cx, CM_ERR_MODEL, "query has rank %d, wanted 2 or 4", rank);
    cm_dim tokens = cm_infer_dim(f, 0, 0), hidden;
    if (rank == 4) {
        cm_dim want[] = {tokens, a->num_heads, 3, CM_DIM_ERROR};
        CM_TRY(cm_expect_shape(f, 0, "query", 4, want));
        hidden = cm_infer_mul(f, cm_infer_dim(f, 0, 3), a->num_heads);
    } else {
        static const int both[] = {1, 2};
        CM_TRY(cm_expect_present(f, both, 2));
        cm_dim key[] = {tokens, cm_infer_dim(f, 0, 1)}, value[] = {tokens, CM_DIM_ERROR};
        CM_TRY(cm_expect_shape(f, 1, "key", 2, key));
        CM_TRY(cm_expect_shape(f, 2, "value", 2, value));
        hidden = cm_infer_dim(f, 2, 1);
    }
    cm_dim out[] = {tokens, hidden};
    return cm_infer_tensor(f, 0, 2, out);
}

static cm_status infer(cm_infer *f)
{
    const packed_attr *a = f->attr;
    const places *at = places_of(f->op->id);
    if (a->num_heads < 1 || a->num_heads > INT32_MAX)
        return cm_fail(f->cx, CM_ERR_MODEL, "num_heads is %lld", (long long)a->num_heads);
    CM_TRY(cm_expect_rank(f, at->offset, "token_offset", 2, 2));
    CM_TRY(cm_expect_rank(f, at->lengths, "cumulative_sequence_length", 1, 1));
    CM_TRY(cm_expect_rank(f, at->attention_bias, "attention_bias", 4, 4));
    CM_TRY(f->op->id == CM_OP_MS_PACKED_ATTENTION ? infer_projected(f, a) : infer_plain(f, a));
    cm_dim head;
    const cm_type *y = &f->out[0].type;
    return y->rank == 2 ? cm_expect_split(f, "hidden size", y->dims[1], a->num_heads, &head)
                        : CM_OK;
}

static cm_status project(cm_eval *e, double **out)
{
    const cm_tensor *x = cm_eval_in(e, 0), *w = cm_eval_in(e, 1);
    int64_t dims[] = {x->dims[0], w->dims[1]};
    cm_tensor y;
    CM_TRY(cm_eval_temp(e, CM_F64, 2, dims, &y));
    cm_qgemm g = {.a = {.dtype = x->dtype, .data = x->data},
                  .b = {.dtype = w->dtype, .data = w->data},
                  .mode = CM_QGEMM_REAL,
                  .alpha = 1,
                  .y_dtype = CM_F64,
                  .y = y.data};
    CM_TRY(cm_batch_matmul_read(e, x, w, NULL, &g.shape));
    CM_TRY(cm_eval_as_f64(e, 2, &g.bias));
    *out = y.data;
    return cm_qgemm_run(e, &g);
}

/* A copy of [tokens, n] with a bias on each column. */
static cm_status add_bias(cm_eval *e, const double *bias, int64_t tokens, int64_t heads,
                          int64_t size, cm_heads *h)
{
    int64_t dims[] = {tokens, heads, size};
    cm_tensor t;
    CM_TRY(cm_eval_temp(e, CM_F64, 3, dims, &t));
    double *to = t.data;
    for (int64_t r = 0; r < tokens; r++)
        for (int64_t n = 0; n < heads; n++)
            for (int64_t i = 0; i < size; i++)
                *to++ = h->at[n * h->head + r * h->row + i] + bias[n * size + i];
    *h = (cm_heads){t.data, 0, size, heads * size};
    return CM_OK;
}

static cm_status find_heads(cm_eval *e, const packed_attr *attr, cm_attend *a)
{
    int64_t n = attr->num_heads, tokens = cm_eval_in(e, 0)->dims[0];
    const double *x[3] = {NULL}, *bias;
    if (e->op->id == CM_OP_MS_PACKED_ATTENTION) {
        double *qkv;
        int64_t columns = cm_eval_in(e, 1)->dims[1];
        int64_t hidden = attr->qkv_hidden_sizes.n ? attr->qkv_hidden_sizes.v[0] : columns / 3;
        CM_TRY(project(e, &qkv));
        a->head = hidden / n;
        a->v_head = (columns - 2 * hidden) / n;
        a->q = (cm_heads){qkv, 0, a->head, columns};
        a->k = (cm_heads){qkv + hidden, 0, a->head, columns};
        a->v = (cm_heads){qkv + 2 * hidden, 0, a->v_head, columns};
        return CM_OK;
    }
    for (int i = 0; i < 3; i++)
        if (cm_eval_has(e, i))
            CM_TRY(cm_eval_as_f64(e, i, &x[i]));
    if (cm_eval_in(e, 0)->rank == 4) {
        int64_t h = a->head = a->v_head = cm_eval_in(e, 0)->dims[3];
        a->q = (cm_heads){x[0], 0, 3 * h, 3 * n * h};
        a->k = (cm_heads){x[0] + h, 0, 3 * h, 3 * n * h};
        a->v = (cm_heads){x[0] + 2 * h, 0, 3 * h, 3 * n * h};
    } else {
        a->head = cm_eval_in(e, 0)->dims[1] / n;
        a->v_head = cm_eval_in(e, 2)->dims[1] / n;
        a->q = (cm_heads){x[0], 0, a->head, n * a->head};
        a->k = (cm_heads){x[1], 0, a->head, n * a->head};
        a->v = (cm_heads){x[2], 0, a->v_head, n * a->v_head};
    }
    if (!cm_eval_has(e, 3))
        return CM_OK;
    if (cm_tensor_elems(cm_eval_in(e, 3)) != n * (2 * a->head + a->v_head))
        return cm_fail(e->cx, CM_ERR_DATA, "bias has %lld elements",
                       (long long)cm_tensor_elems(cm_eval_in(e, 3)));
    CM_TRY(cm_eval_as_f64(e, 3, &bias));
    CM_TRY(add_bias(e, bias, tokens, n, a->head, &a->q));
    CM_TRY(add_bias(e, bias + n * a->head, tokens, n, a->head, &a->k));
    return add_bias(e, bias + 2 * n * a->head, tokens, n, a->v_head, &a->v);
}

/* Attention of sequence b, tokens [from, to). */
static cm_status attend_sequence(cm_eval *e, const cm_attend *like, const double *bias, int64_t b,
                                 int64_t from, int64_t to)
{
    cm_attend a = *like;
    const cm_tensor *t = bias ? cm_eval_in(e, places_of(e->op->id)->attention_bias) : NULL;
    a.q_len = a.kv_len = to - from;
    a.q.at += from * a.q.row;
    a.k.at += from * a.k.row;
    a.v.at += from * a.v.row;
    a.y.at = (char *)a.y.at + (size_t)(from * a.y.row) * cm_dtype_size(a.y.dtype);
    if (t) {
        const int64_t *d = t->dims;
        if ((d[0] != 1 && d[0] <= b) || (d[1] != 1 && d[1] != a.q_heads) || d[2] < a.q_len ||
            d[3] < a.kv_len)
            return cm_fail(e->cx, CM_ERR_DATA, "attention_bias does not cover sequence %lld",
                           (long long)b);
        a.bias = bias + (d[0] == 1 ? 0 : b * d[1] * d[2] * d[3]);
        a.bias_head = d[1] == 1 ? 0 : d[2] * d[3];
        a.bias_row = d[3];
        a.bias_col = 1;
        a.bias_cols = a.kv_len;
    }
    return cm_attend_run(e, &a);
}

static cm_status eval(cm_eval *e)
{
    const packed_attr *attr = e->attr;
    const places *at = places_of(e->op->id);
    int64_t n = attr->num_heads, tokens = cm_eval_in(e, 0)->dims[0];
    const int64_t *ends;
    const double *bias = NULL;
    cm_attend a = {.batch = 1, .q_heads = n, .kv_heads = n, .left = -1, .right = -1};
    if (!cm_eval_wants(e, 0))
        return CM_OK;
    CM_TRY(find_heads(e, attr, &a));
    a.scale = attr->present & HAS_SCALE && attr->scale != 0 ? attr->scale
              : a.head                                      ? 1 / sqrt((double)a.head)
                                                            : 0;
    cm_tensor *y = cm_eval_out(e, 0);
    a.y = (cm_heads_out){y->dtype, y->data, 0, a.v_head, n * a.v_head};
    CM_TRY(cm_eval_as_i64(e, at->lengths, &ends));
    if (cm_eval_has(e, at->attention_bias))
        CM_TRY(cm_eval_as_f64(e, at->attention_bias, &bias));
    int64_t batch = cm_tensor_elems(cm_eval_in(e, at->lengths)) - 1;
    for (int64_t b = 0; b < batch; b++) {
        if (ends[b] < 0 || ends[b + 1] < ends[b] || ends[b + 1] > tokens)
            return cm_fail(e->cx, CM_ERR_DATA, "sequence %lld is tokens %lld to %lld of %lld",
                           (long long)b, (long long)ends[b], (long long)ends[b + 1],
                           (long long)tokens);
        CM_TRY(attend_sequence(e, &a, bias, b, ends[b], ends[b + 1]));
    }
    return CM_OK;
}

const cm_family cm_family_ms_packed = {.name = "ms_packed", .infer = infer, .eval = eval};
