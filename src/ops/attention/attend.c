/* attend.c -- scaled dot product attention on doubles.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops/attention/attend.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/size.h"
#include "ops/linear/dot.h"
#include "ops/math.h"

typedef struct {
    const cm_attend *a;
    double *rows; /* per (batch, head): kv_len scores, then v_head outputs */
    int64_t row_elems;
} job;

static void store_row(const cm_heads_out *o, int64_t b, int64_t h, int64_t r, const double *src,
                      int64_t n)
{
    int64_t index = b * o->batch + h * o->head + r * o->row;
    cm_store_f64(o->dtype, src, n, (char *)o->at + (size_t)index * cm_dtype_size(o->dtype));
}

static bool takes_part(const cm_attend *a, int64_t b, int64_t h, int64_t q, int64_t k)
{
    int64_t position = q + (a->position ? a->position[b] : 0);
    return !((a->kv_valid && k >= a->kv_valid[b]) || (a->causal && k > position) ||
             (a->left >= 0 && position - k > a->left) ||
             (a->right >= 0 && k - position > a->right) ||
             (a->allow && !a->allow(a->allow_arg, b, h, q, k)));
}

/* -infinity: the key does not take part. */
static double bias_of(const cm_attend *a, int64_t b, int64_t h, int64_t q, int64_t k)
{
    if (!takes_part(a, b, h, q, k) && !(a->fill && a->fill_biased))
        return -INFINITY;
    if (a->bias && a->bias_period)
        b %= a->bias_period;
    if (!a->bias)
        return 0;
    if (k >= a->bias_cols)
        return -INFINITY;
    return a->bias[b * a->bias_batch + h * a->bias_head + q * a->bias_row + k * a->bias_col];
}

/* The scores, 0 in place of -infinity. */
static void store_masked_row(const cm_attend *a, int64_t b, int64_t h, int64_t r, const double *s)
{
    const cm_heads_out *o = &a->scores;
    int64_t index = b * o->batch + h * o->head + r * o->row;
    for (int64_t j = 0; j < a->kv_len; j++)
        cm_set_f64(o->dtype, o->at, index + j, s[j] == -INFINITY ? 0 : s[j]);
}

/* The scores, the lowest finite number where a boolean mask rules a key out. */
static void store_biased_row(const cm_attend *a, int64_t b, int64_t h, int64_t r, const double *s)
{
    const cm_heads_out *o = &a->scores;
    double lowest = o->dtype == CM_F16 ? -65504 : o->dtype == CM_F64 ? -DBL_MAX : -FLT_MAX;
    store_row(o, b, h, r, s, a->kv_len);
    for (int64_t j = 0; a->from_bool && j < a->kv_len; j++)
        if (s[j] == -INFINITY && j < a->bias_cols && takes_part(a, b, h, r, j))
            cm_set_f64(o->dtype, o->at, b * o->batch + h * o->head + r * o->row + j, lowest);
}

/* Scores of one query in place of which come their softmax. */
static void softmax_row(double *s, int64_t n, const double *sink)
{
    double max = sink ? *sink : -INFINITY, sum = 0;
    for (int64_t k = 0; k < n; k++)
        if (s[k] > max || isnan(s[k]))
            max = s[k];
    if (max == -INFINITY) {
        memset(s, 0, (size_t)n * sizeof(double));
        return;
    }
    for (int64_t k = 0; k < n; k++) {
        s[k] = s[k] == -INFINITY ? 0 : cm_exp(s[k] - max);
        sum += s[k];
    }
    if (sink)
        sum += cm_exp(*sink - max);
    for (int64_t k = 0; k < n; k++)
        s[k] /= sum;
}

static void attend_row(const cm_attend *a, int64_t b, int64_t h, int64_t r, double *s, double *y)
{
    int64_t g = h / (a->q_heads / a->kv_heads);
    const double *q = a->q.at + b * a->q.batch + h * a->q.head + r * a->q.row;
    const double *k = a->k.at + b * a->k.batch + g * a->k.head;
    const double *v = a->v.at + b * a->v.batch + g * a->v.head;
    bool wanted = a->scores.at != NULL;
    for (int64_t j = 0; j < a->kv_len; j++) {
        bool skip = !wanted && bias_of(a, b, h, r, j) == -INFINITY;
        s[j] = skip ? 0 : cm_dot_f64(q, k + j * a->k.row, a->head) * a->scale;
    }
    if (wanted && a->score_mode == CM_SCORE_RAW)
        store_row(&a->scores, b, h, r, s, a->kv_len);
    for (int64_t j = 0; a->softcap > 0 && j < a->kv_len; j++)
        s[j] = a->softcap * cm_tanh(s[j] / a->softcap);
    if (wanted && a->score_mode == CM_SCORE_CAPPED)
        store_row(&a->scores, b, h, r, s, a->kv_len);
    for (int64_t j = 0; j < a->kv_len; j++) {
        double bias = bias_of(a, b, h, r, j);
        if (a->fill && !takes_part(a, b, h, r, j))
            s[j] = a->fill_biased ? *a->fill + bias : *a->fill;
        else
            s[j] = bias == -INFINITY ? bias : s[j] + bias;
    }
    if (wanted && a->score_mode == CM_SCORE_BIASED)
        store_biased_row(a, b, h, r, s);
    if (wanted && a->score_mode == CM_SCORE_TAKING_PART)
        store_masked_row(a, b, h, r, s);
    softmax_row(s, a->kv_len, a->sink ? &a->sink[h] : NULL);
    if (wanted && a->score_mode == CM_SCORE_SOFTMAX)
        store_row(&a->scores, b, h, r, s, a->kv_len);
    memset(y, 0, (size_t)a->v_head * sizeof(double));
    for (int64_t j = 0; j < a->kv_len; j++)
        if (s[j] != 0)
            cm_axpy_f64(s[j], v + j * a->v.row, y, a->v_head);
    if (a->y.at)
        store_row(&a->y, b, h, r, y, a->v_head);
}

static void attend_range(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    const cm_attend *a = j->a;
    for (int64_t i = begin; i < end; i++) {
        double *s = j->rows + i * j->row_elems;
        for (int64_t r = 0; r < a->q_len; r++)
            attend_row(a, i / a->q_heads, i % a->q_heads, r, s, s + a->kv_len);
    }
}

cm_status cm_attend_run(cm_eval *e, const cm_attend *a)
{
    job j = {.a = a, .row_elems = a->kv_len + a->v_head};
    int64_t n = a->batch * a->q_heads;
    size_t total;
    void *rows;
    if (n == 0 || a->q_len == 0)
        return CM_OK;
    if (!cm_mul((size_t)j.row_elems, (size_t)n, &total))
        return cm_fail_memory(e->cx);
    CM_TRY(cm_eval_scratch(e, total, sizeof(double), &rows));
    j.rows = rows;
    cm_parallel(e->threads, n, 1, attend_range, &j);
    return cm_check_cancel(e->cx);
}

cm_heads cm_heads_bnsh(const double *at, int64_t heads, int64_t len, int64_t size)
{
    return (cm_heads){at, heads * len * size, len * size, size};
}

cm_heads cm_heads_bsnh(const double *at, int64_t heads, int64_t len, int64_t size)
{
    return (cm_heads){at, heads * len * size, size, heads * size};
}

cm_heads_out cm_heads_out_bnsh(cm_tensor *t, int64_t heads, int64_t len, int64_t size)
{
    return (cm_heads_out){t->dtype, t->data, heads * len * size, len * size, size};
}

cm_heads_out cm_heads_out_bsnh(cm_tensor *t, int64_t heads, int64_t len, int64_t size)
{
    return (cm_heads_out){t->dtype, t->data, heads * len * size, size, heads * size};
}

static void copy_rows(const cm_heads *from, int64_t b, int64_t h, int64_t n, int64_t size,
                      double *to)
{
    for (int64_t r = 0; r < n; r++)
        memcpy(to + r * size, from->at + b * from->batch + h * from->head + r * from->row,
               (size_t)size * sizeof(double));
}

cm_status cm_cache_join(cm_eval *e, const cm_cache *c, double **out)
{
    int64_t dims[] = {c->batch, c->heads, c->len, c->size};
    cm_tensor t;
    CM_TRY(cm_eval_temp(e, CM_F64, 4, dims, &t));
    for (int64_t b = 0; b < c->batch; b++) {
        int64_t past = c->past_lens ? c->past_lens[b] : c->past_len;
        int64_t kept = !c->past.at ? 0 : c->past_lens ? past : cm_min_i64(c->past_rows, c->len);
        int64_t fresh = cm_min_i64(c->fresh_len, c->len - past);
        for (int64_t h = 0; h < c->heads; h++) {
            double *to = (double *)t.data + (b * c->heads + h) * c->len * c->size;
            copy_rows(&c->past, b, h, kept, c->size, to);
            if (fresh > 0)
                copy_rows(&c->fresh, b, h, fresh, c->size, to + past * c->size);
        }
    }
    *out = t.data;
    return CM_OK;
}

cm_status cm_attend_join_past(cm_eval *e, const cm_attend *a, int past, int out, int64_t fresh_len,
                              int64_t size, cm_heads *h)
{
    int64_t past_len = a->kv_len - fresh_len;
    if (!cm_eval_has(e, past) && !cm_eval_wants(e, out))
        return CM_OK;
    cm_cache c = {.batch = a->batch,
                  .heads = a->kv_heads,
                  .len = a->kv_len,
                  .size = size,
                  .past_rows = past_len,
                  .past_len = past_len,
                  .fresh = *h,
                  .fresh_len = fresh_len};
    if (cm_eval_has(e, past)) {
        const double *v;
        CM_TRY(cm_eval_as_f64(e, past, &v));
        c.past = cm_heads_bnsh(v, a->kv_heads, past_len, size);
    }
    double *joined;
    CM_TRY(cm_cache_join(e, &c, &joined));
    *h = cm_heads_bnsh(joined, a->kv_heads, a->kv_len, size);
    if (cm_eval_wants(e, out)) {
        cm_tensor *t = cm_eval_out(e, out);
        cm_store_f64(t->dtype, joined, cm_tensor_elems(t), t->data);
    }
    return CM_OK;
}
