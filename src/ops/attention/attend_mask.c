/* attend_mask.c -- the masks of com.microsoft's attention operators.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops/attention/attend_mask.h"

#include "ops/expect.h"

static cm_status check_mask(cm_infer *f, int mask, cm_dim batch, cm_dim q_len, cm_dim total)
{
    int rank = cm_infer_rank(f, mask);
    int64_t n, b;
    CM_TRY(cm_expect_rank(f, mask, "the mask", 1, 4));
    cm_dim first = cm_infer_dim(f, mask, 0);
    if (rank == 1) {
        if (cm_infer_const(f, first, &n) && batch != CM_DIM_ERROR && cm_infer_const(f, batch, &b) &&
            n != b && (n % 2 || n / 2 != b) && ((n - 2) % 3 || (n - 2) / 3 != b))
            return cm_fail(f->cx, CM_ERR_MODEL, "the mask has %lld elements for a batch of %lld",
                           (long long)n, (long long)b);
        return CM_OK;
    }
    cm_dim by_key[] = {batch, cm_infer_dim(f, mask, 1) == 1 ? 1 : total};
    cm_dim by_query[] = {batch, q_len, total};
    if (rank == 2)
        return cm_expect_shape(f, mask, "the mask", 2, by_key);
    return rank == 3 ? cm_expect_shape(f, mask, "the mask", 3, by_query) : CM_OK;
}

cm_status cm_attend_mask_check(cm_infer *f, int mask, int bias, cm_dim batch, cm_dim heads,
                               cm_dim q_len, cm_dim total)
{
    if (mask >= 0 && cm_expect_known(f, mask))
        CM_TRY(check_mask(f, mask, batch, q_len, total));
    if (bias < 0 || !cm_expect_known(f, bias))
        return CM_OK;
    CM_TRY(cm_expect_rank(f, bias, "attention_bias", 4, 4));
    cm_dim want[] = {cm_infer_dim(f, bias, 0) == 1 ? 1 : batch,
                     cm_infer_dim(f, bias, 1) == 1 ? 1 : heads, q_len, total};
    return cm_expect_shape(f, bias, "attention_bias", 4, want);
}

/* Is key k masked for query q of sequence b? */
static bool masked(const cm_tensor *m, const int64_t *v, int64_t batch, int64_t past, int64_t b,
                   int64_t q, int64_t k)
{
    switch (m->rank) {
    case 1:
        return k >= v[b] || (m->dims[0] == 2 * batch && k < v[batch + b]);
    case 2:
        return m->dims[1] != 1 && v[b * m->dims[1] + k] <= 0;
    case 3:
        return v[(b * m->dims[1] + q) * m->dims[2] + k] <= 0;
    default:
        return v[(b * m->dims[2] + past + q) * m->dims[3] + k] <= 0;
    }
}

static bool covers(const cm_tensor *m, int64_t past, const cm_attend *a)
{
    const int64_t *d = m->dims;
    switch (m->rank) {
    case 1:
        return d[0] >= a->batch;
    case 2:
        return d[0] == a->batch && (d[1] == 1 || d[1] >= a->kv_len);
    case 3:
        return d[0] == a->batch && d[1] == a->q_len && d[2] >= a->kv_len;
    default:
        return d[0] == a->batch && d[1] == 1 && d[2] >= past + a->q_len && d[3] >= a->kv_len;
    }
}

static cm_status add_mask(cm_eval *e, int mask, int64_t past, double filter, const cm_attend *a,
                          double *bias)
{
    const cm_tensor *m = cm_eval_in(e, mask);
    const int64_t *v;
    CM_TRY(cm_eval_as_i64(e, mask, &v));
    if (!covers(m, past, a)) {
        char text[128];
        return cm_fail(e->cx, CM_ERR_DATA, "the mask %s does not cover %lld keys",
                       cm_shape_text(text, sizeof text, m->rank, m->dims), (long long)a->kv_len);
    }
    for (int64_t b = 0; b < a->batch; b++)
        for (int64_t q = 0; q < a->q_len; q++)
            for (int64_t k = 0; k < a->kv_len; k++)
                if (masked(m, v, a->batch, past, b, q, k))
                    bias[(b * a->q_len + q) * a->kv_len + k] += filter;
    return CM_OK;
}

cm_status cm_attend_mask(cm_eval *e, int mask, int bias, int64_t past, double filter, cm_attend *a)
{
    bool has_mask = mask >= 0 && cm_eval_has(e, mask), has_bias = bias >= 0 && cm_eval_has(e, bias);
    int64_t rows = a->q_len * a->kv_len;
    a->bias_cols = a->kv_len;
    a->bias_col = 1;
    a->bias_row = a->kv_len;
    if (has_bias) {
        const cm_tensor *t = cm_eval_in(e, bias);
        if (t->dims[2] < a->q_len || t->dims[3] < a->kv_len)
            return cm_fail(e->cx, CM_ERR_DATA, "attention_bias does not cover %lld keys",
                           (long long)a->kv_len);
        CM_TRY(cm_eval_as_f64(e, bias, &a->bias));
        a->bias_row = t->dims[3];
        a->bias_head = t->dims[1] == 1 ? 0 : t->dims[2] * t->dims[3];
        a->bias_batch = t->dims[0] == 1 ? 0 : t->dims[1] * t->dims[2] * t->dims[3];
    }
    if (!has_mask)
        return CM_OK;
    int64_t heads = has_bias && a->bias_head ? a->q_heads : 1;
    int64_t dims[] = {heads, a->batch, a->q_len, a->kv_len};
    cm_tensor t;
    CM_TRY(cm_eval_temp(e, CM_F64, 4, dims, &t));
    for (int64_t h = 0; h < heads; h++) {
        double *to = (double *)t.data + h * a->batch * rows;
        for (int64_t b = 0; has_bias && b < a->batch; b++)
            for (int64_t i = 0; i < rows; i++)
                to[b * rows + i] = a->bias[b * a->bias_batch + h * a->bias_head +
                                           i / a->kv_len * a->bias_row + i % a->kv_len];
        CM_TRY(add_mask(e, mask, past, filter, a, to));
    }
    a->bias = t.data;
    a->bias_row = a->kv_len;
    a->bias_head = heads == 1 ? 0 : a->batch * rows;
    a->bias_batch = rows;
    return CM_OK;
}

cm_status cm_attend_position(cm_eval *e, cm_attend *a, int64_t position)
{
    void *v;
    CM_TRY(cm_eval_scratch(e, (size_t)a->batch, sizeof(int64_t), &v));
    for (int64_t b = 0; b < a->batch; b++)
        ((int64_t *)v)[b] = position;
    a->position = v;
    return CM_OK;
}
