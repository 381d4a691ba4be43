/* ms_attention.c -- com.microsoft Attention and QAttention: the projection to queries, keys and
 * values is part of the operator.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops/attention/attend_mask.h"

#include <math.h>

#include "ops/expect.h"
#include "ops/linear/gemm.h"
#include "ops/quant/qgemm.h"

typedef struct {
    uint64_t present;
    int64_t do_rotary, num_heads, past_present_share_buffer, rotary_embedding_dim, unidirectional;
    cm_ints qkv_hidden_sizes;
    float mask_filter_value, scale;
} attention_attr;

enum { HAS_SCALE = 1 };

#define FIELDS                                                                                     \
    CM_ATTR_FLOAT(attention_attr, scale, 0), CM_ATTR_INT(attention_attr, do_rotary, 0),            \
        CM_ATTR_FLOAT(attention_attr, mask_filter_value, -10000),                                  \
        CM_ATTR_INT_REQUIRED(attention_attr, num_heads),                                           \
        CM_ATTR_INT(attention_attr, past_present_share_buffer, 0),                                 \
        CM_ATTR_INT(attention_attr, unidirectional, 0)
CM_ATTRS(ms_attention, attention_attr, FIELDS, CM_ATTR_INTS(attention_attr, qkv_hidden_sizes, 0),
         CM_ATTR_INT(attention_attr, rotary_embedding_dim, 0))
CM_ATTRS(ms_qattention, attention_attr, FIELDS)

/* Where the inputs are; -1: the operator has none. */
typedef struct {
    int bias, mask, past, attention_bias, past_len, x_scale, w_scale, x_zero, w_zero;
} places;

static const places *places_of(cm_op_id id)
{
    static const places plain = {2, 3, 4, 5, 6, -1, -1, -1, -1};
    static const places quantised = {2, 5, 8, -1, -1, 3, 4, 6, 7};
    return id == CM_OP_MS_QATTENTION ? &quantised : &plain;
}

/* Hidden sizes of queries, keys and values: given, or a third each. */
static cm_status hidden_sizes(cm_infer *f, const attention_attr *a, cm_dim columns, cm_dim *out)
{
    if (a->num_heads < 1 || a->num_heads > INT32_MAX)
        return cm_fail(f->cx, CM_ERR_MODEL, "num_heads is %lld", (long long)a->num_heads);
    if (a->qkv_hidden_sizes.n == 0) {
        CM_TRY(cm_expect_split(f, "columns of the weights", columns, 3, &out[0]));
        out[1] = out[2] = out[0];
    } else {
        const int64_t *v = a->qkv_hidden_sizes.v;
        if (a->qkv_hidden_sizes.n != 3 || v[0] < 0 || v[1] != v[0] || v[2] < 0)
            return cm_fail(f->cx, CM_ERR_MODEL,
                           "qkv_hidden_sizes must be three sizes, the first two equal");
        for (int i = 0; i < 3; i++)
            out[i] = v[i];
        CM_TRY(cm_infer_equal(f, "columns of the weights", columns,
                              cm_infer_add(f, cm_infer_add(f, v[0], v[1]), v[2])));
    }
    cm_dim head;
    CM_TRY(cm_expect_split(f, "hidden size", out[0], a->num_heads, &head));
    return cm_expect_split(f, "hidden size of values", out[2], a->num_heads, &head);
}

static cm_status check_quantised(cm_infer *f, const places *at)
{
    if (at->x_scale < 0)
        return CM_OK;
    CM_TRY(cm_expect_one(f, at->x_scale, "input_scale"));
    CM_TRY(cm_expect_one(f, at->x_zero, "input_zero_point"));
    CM_TRY(cm_qparam_check(f, at->w_scale, "weight_scale", 1, true));
    return cm_qparam_check(f, at->w_zero, "weight_zero_point", 1, true);
}

/* The present state holds the past and the new keys; a shared buffer keeps its length. */
static cm_status infer_present(cm_infer *f, const attention_attr *a, cm_dim batch, cm_dim len,
                               cm_dim head, cm_dim *total)
{
    const places *at = places_of(f->op->id);
    bool past = cm_infer_has(f, at->past), shared = a->past_present_share_buffer != 0;
    cm_dim before = past ? cm_expect_dim(f, at->past, 3) : 0;
    cm_dim want[] = {2, batch, a->num_heads, CM_DIM_ERROR, head};
    CM_TRY(cm_expect_shape(f, at->past, "past", 5, want));
    *total = CM_DIM_ERROR;
    if (shared && !past)
        return cm_fail(f->cx, CM_ERR_MODEL, "past_present_share_buffer is set without a past");
    if (!shared && before != CM_DIM_ERROR)
        *total = cm_infer_add(f, before, len);
    if (f->n_out < 2)
        return CM_OK;
    cm_dim present = shared ? before : *total;
    if (present == CM_DIM_ERROR) {
        cm_infer_unknown(f, 1);
        return CM_OK;
    }
    cm_dim dims[] = {2, batch, a->num_heads, present, head};
    return cm_infer_tensor(f, 1, 5, dims);
}

static cm_status infer(cm_infer *f)
{
    const attention_attr *a = f->attr;
    const places *at = places_of(f->op->id);
    if (a->do_rotary)
        return cm_fail(f->cx, CM_ERR_UNSUPPORTED, "do_rotary inside %s", f->op->name);
    CM_TRY(cm_expect_rank(f, 0, "input", 3, 3));
    CM_TRY(cm_expect_rank(f, 1, "weights", 2, 2));
    CM_TRY(check_quantised(f, at));
    if (!cm_infer_ranked(f, 0) || !cm_infer_ranked(f, 1)) {
        for (int o = 0; o < f->n_out; o++)
            cm_infer_unknown(f, o);
        return CM_OK;
    }
    cm_dim batch = cm_infer_dim(f, 0, 0), len = cm_infer_dim(f, 0, 1),
           columns = cm_infer_dim(f, 1, 1);
    cm_dim hidden[3], total;
    CM_TRY(cm_infer_equal(f, "rows of the weights", cm_infer_dim(f, 1, 0), cm_infer_dim(f, 0, 2)));
    CM_TRY(cm_expect_shape(f, at->bias, "bias", 1, &columns));
    CM_TRY(hidden_sizes(f, a, columns, hidden));
    CM_TRY(infer_present(f, a, batch, len, cm_infer_floor_div(f, hidden[0], a->num_heads), &total));
    if (cm_infer_has(f, at->past))
        CM_TRY(cm_infer_equal(f, "hidden size of values beside a past", hidden[2], hidden[0]));
    CM_TRY(cm_attend_mask_check(f, at->mask, at->attention_bias, batch, a->num_heads, len, total));
    cm_dim out[] = {batch, len, hidden[2]};
    return cm_infer_tensor(f, 0, 3, out);
}

/* input * weights + bias, [batch * len, columns]. */
static cm_status project(cm_eval *e, const places *at, double **out)
{
    const cm_tensor *x = cm_eval_in(e, 0), *w = cm_eval_in(e, 1);
    int64_t dims[] = {x->dims[0] * x->dims[1], w->dims[1]};
    cm_tensor y;
    CM_TRY(cm_eval_temp(e, CM_F64, 2, dims, &y));
    cm_qgemm g = {.a = {.dtype = x->dtype, .data = x->data},
                  .b = {.dtype = w->dtype, .data = w->data},
                  .mode = CM_QGEMM_REAL,
                  .alpha = 1,
                  .y_dtype = CM_F64,
                  .y = y.data};
    CM_TRY(cm_batch_matmul_read(e, x, w, NULL, &g.shape));
    if (cm_eval_has(e, at->bias))
        CM_TRY(cm_eval_as_f64(e, at->bias, &g.bias));
    if (at->x_scale >= 0) {
        CM_TRY(cm_qparam_read(e, at->x_scale, x, false, &g.a.scale));
        CM_TRY(cm_qparam_read(e, at->x_zero, x, false, &g.a.zero));
        CM_TRY(cm_qparam_read(e, at->w_scale, w, true, &g.b.scale));
        CM_TRY(cm_qparam_read(e, at->w_zero, w, true, &g.b.zero));
    }
    *out = y.data;
    return cm_qgemm_run(e, &g);
}

/* Past and new keys (which 0) or values (1); the present output. */
static cm_status join(cm_eval *e, const cm_attend *a, int past_input, int which, int64_t past_len,
                      int64_t buffer, cm_heads *h)
{
    bool past = cm_eval_has(e, past_input), present = cm_eval_wants(e, 1);
    if (!past && !present)
        return CM_OK;
    int64_t size = which ? a->v_head : a->head, elems = a->batch * a->kv_heads * buffer * size;
    cm_cache c = {.batch = a->batch,
                  .heads = a->kv_heads,
                  .len = buffer,
                  .size = size,
                  .past_len = past_len,
                  .fresh = *h,
                  .fresh_len = a->q_len};
    if (past) {
        const double *v;
        CM_TRY(cm_eval_as_f64(e, past_input, &v));
        c.past_rows = cm_eval_in(e, past_input)->dims[3];
        c.past = cm_heads_bnsh(v + which * a->batch * a->kv_heads * c.past_rows * size, a->kv_heads,
                               c.past_rows, size);
    }
    double *joined;
    CM_TRY(cm_cache_join(e, &c, &joined));
    *h = cm_heads_bnsh(joined, a->kv_heads, buffer, size);
    if (present) {
        cm_tensor *t = cm_eval_out(e, 1);
        size_t skip = (size_t)(which * elems) * cm_dtype_size(t->dtype);
        cm_store_f64(t->dtype, joined, elems, (char *)t->data + skip);
    }
    return CM_OK;
}

/* Rows of past that count, and rows of the buffer that past and present share. */
static cm_status read_past(cm_eval *e, const attention_attr *a, const places *at, int64_t len,
                           int64_t *past, int64_t *buffer)
{
    *past = cm_eval_has(e, at->past) ? cm_eval_in(e, at->past)->dims[3] : 0;
    *buffer = *past + len;
    if (!a->past_present_share_buffer)
        return CM_OK;
    *buffer = *past;
    int64_t given =
        at->past_len >= 0 && cm_eval_has(e, at->past_len) ? cm_eval_int(e, at->past_len, 0) : 0;
    if (given < 0 || given + len > *buffer)
        return cm_fail(e->cx, CM_ERR_DATA, "past_sequence_length is %lld for a buffer of %lld",
                       (long long)given, (long long)*buffer);
    *past = given;
    return CM_OK;
}

static cm_status eval(cm_eval *e)
{
    const attention_attr *attr = e->attr;
    const places *at = places_of(e->op->id);
    const cm_tensor *x = cm_eval_in(e, 0);
    int64_t columns = cm_eval_in(e, 1)->dims[1], past, buffer;
    const int64_t *sizes = attr->qkv_hidden_sizes.v;
    int64_t hidden = attr->qkv_hidden_sizes.n ? sizes[0] : columns / 3;
    int64_t v_hidden = attr->qkv_hidden_sizes.n ? sizes[2] : columns / 3;
    cm_attend a = {.batch = x->dims[0],
                   .q_heads = attr->num_heads,
                   .kv_heads = attr->num_heads,
                   .q_len = x->dims[1],
                   .left = -1,
                   .right = -1,
                   .causal = attr->unidirectional != 0,
                   .head = hidden / attr->num_heads,
                   .v_head = v_hidden / attr->num_heads};
    a.scale = attr->present & HAS_SCALE && attr->scale != 0 ? attr->scale
              : a.head                                      ? 1 / sqrt((double)a.head)
                                                            : 0;
    CM_TRY(read_past(e, attr, at, a.q_len, &past, &buffer));
    a.kv_len = past + a.q_len;
    double *qkv;
    CM_TRY(project(e, at, &qkv));
    a.q = (cm_heads){qkv, a.q_len * columns, a.head, columns};
    a.k = (cm_heads){qkv + hidden, a.q_len * columns, a.head, columns};
    a.v = (cm_heads){qkv + 2 * hidden, a.q_len * columns, a.v_head, columns};
    CM_TRY(join(e, &a, at->past, 0, past, buffer, &a.k));
    CM_TRY(join(e, &a, at->past, 1, past, buffer, &a.v));
    CM_TRY(cm_attend_position(e, &a, past));
    CM_TRY(cm_attend_mask(e, at->mask, at->attention_bias, past, attr->mask_filter_value, &a));
    if (cm_eval_wants(e, 0))
        a.y = cm_heads_out_bsnh(cm_eval_out(e, 0), a.q_heads, a.q_len, a.v_head);
    return cm_attend_run(e, &a);
}

const cm_family cm_family_ms_attention = {.name = "ms_attention", .infer = infer, .eval = eval};
