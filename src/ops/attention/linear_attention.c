/* linear_attention.c -- LinearAttention, of ONNX and of com.microsoft: a state in place of a cache.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Per head a state S [d_k, d_v]; each token in turn:
 *
 *     S = exp(g) S                          gated rules
 *     v = beta (v - S^T k)                  delta rules
 *     S = S + k v^T;   o = scale q^T S
 *
 * com.microsoft's form may keep the states after the last W tokens (state_window), and may have
 * more key heads than query heads. */
#include "ops/attention/attend.h"

#include <math.h>
#include <string.h>

#include "base/size.h"
#include "ops/linear/dot.h"
#include "ops/expect.h"
#include "ops/math.h"

typedef struct {
    uint64_t present;
    int64_t chunk_size, kv_num_heads, q_num_heads, state_window;
    float scale;
    cm_str update_rule;
} linear_attr;

#define FIELDS                                                                                     \
    CM_ATTR_INT(linear_attr, chunk_size, 64), CM_ATTR_INT_REQUIRED(linear_attr, kv_num_heads),     \
        CM_ATTR_INT_REQUIRED(linear_attr, q_num_heads), CM_ATTR_FLOAT(linear_attr, scale, 0),      \
        CM_ATTR_STR(linear_attr, update_rule, "gated_delta")
CM_ATTRS(linear_attention, linear_attr, FIELDS)
CM_ATTRS(ms_linear_attention, linear_attr, FIELDS, CM_ATTR_INT(linear_attr, state_window, 0))

enum { Q, K, V, PAST, DECAY, BETA };

static cm_status read_rule(cm_ctx *cx, const linear_attr *a, bool *gated, bool *delta)
{
    static const char *const names[] = {"linear", "gated", "delta", "gated_delta"};
    for (int i = 0; i < 4; i++)
        if (cm_str_equal(a->update_rule, cm_str_of(names[i]))) {
            *gated = i & 1;
            *delta = i >> 1;
            return CM_OK;
        }
    return cm_fail(cx, CM_ERR_MODEL,
                   "update_rule is '%.*s', wanted linear, gated, delta or gated_delta",
                   (int)(a->update_rule.n < 64 ? a->update_rule.n : 64), a->update_rule.p);
}

static cm_status check_attributes(cm_infer *f, const linear_attr *a)
{
    bool gated, delta, inverse = f->op->id != CM_OP_LINEAR_ATTENTION;
    CM_TRY(read_rule(f->cx, a, &gated, &delta));
    int64_t q = a->q_num_heads, kv = a->kv_num_heads;
    if (q < 1 || kv < 1 || (q % kv && !(inverse && kv % q == 0)))
        return cm_fail(f->cx, CM_ERR_MODEL, "q_num_heads %lld is no multiple of kv_num_heads %lld",
                       (long long)q, (long long)kv);
    if (gated != cm_infer_has(f, DECAY))
        return cm_fail(f->cx, CM_ERR_MODEL, "update_rule '%.*s' %s a decay input",
                       (int)a->update_rule.n, a->update_rule.p, gated ? "wants" : "takes no");
    if (delta != cm_infer_has(f, BETA))
        return cm_fail(f->cx, CM_ERR_MODEL, "update_rule '%.*s' %s a beta input",
                       (int)a->update_rule.n, a->update_rule.p, delta ? "wants" : "takes no");
    if (a->state_window < 0 || a->state_window > 8)
        return cm_fail(f->cx, CM_ERR_MODEL, "state_window is %lld, wanted 0 to 8",
                       (long long)a->state_window);
    return CM_OK;
}

static cm_status check_gates(cm_infer *f, const linear_attr *a, const cm_dim *tokens, cm_dim d_k)
{
    cm_dim last[] = {tokens[0], tokens[1], CM_DIM_ERROR};
    int64_t n, k;
    CM_TRY(cm_expect_shape(f, DECAY, "decay", 3, last));
    CM_TRY(cm_expect_shape(f, BETA, "beta", 3, last));
    if (cm_expect_known(f, DECAY) && cm_infer_const(f, cm_infer_dim(f, DECAY, 2), &n) &&
        cm_infer_const(f, d_k, &k) && n != a->kv_num_heads &&
        (n % a->kv_num_heads || n / a->kv_num_heads != k))
        return cm_fail(f->cx, CM_ERR_MODEL,
                       "decay has %lld columns, wanted %lld, times %lld or not", (long long)n,
                       (long long)a->kv_num_heads, (long long)k);
    if (cm_expect_known(f, BETA) && cm_infer_const(f, cm_infer_dim(f, BETA, 2), &n) && n != 1 &&
        n != a->kv_num_heads)
        return cm_fail(f->cx, CM_ERR_MODEL, "beta has %lld columns, wanted %lld or 1", (long long)n,
                       (long long)a->kv_num_heads);
    return CM_OK;
}

static cm_status infer(cm_infer *f)
{
    const linear_attr *a = f->attr;
    CM_TRY(check_attributes(f, a));
    CM_TRY(cm_expect_rank(f, Q, "query", 3, 3));
    CM_TRY(cm_expect_rank(f, K, "key", 3, 3));
    CM_TRY(cm_expect_rank(f, V, "value", 3, 3));
    if (!cm_infer_ranked(f, Q) || !cm_infer_ranked(f, V)) {
        cm_infer_unknown(f, 0);
        cm_infer_unknown(f, 1);
    } else {
        cm_dim tokens[] = {cm_infer_dim(f, Q, 0), cm_infer_dim(f, Q, 1)}, d_k, d_v;
        CM_TRY(cm_expect_split(f, "hidden size of query", cm_infer_dim(f, Q, 2), a->q_num_heads,
                               &d_k));
        CM_TRY(cm_expect_split(f, "hidden size of value", cm_infer_dim(f, V, 2), a->kv_num_heads,
                               &d_v));
        cm_dim key[] = {tokens[0], tokens[1], cm_infer_mul(f, d_k, a->kv_num_heads)};
        cm_dim value[] = {tokens[0], tokens[1], CM_DIM_ERROR};
        CM_TRY(cm_expect_shape(f, K, "key", 3, key));
        CM_TRY(cm_expect_shape(f, V, "value", 3, value));
        CM_TRY(check_gates(f, a, tokens, d_k));
        int64_t heads = cm_max_i64(a->q_num_heads, a->kv_num_heads);
        cm_dim out[] = {tokens[0], tokens[1], cm_infer_mul(f, d_v, heads)};
        cm_dim state[] = {a->state_window, tokens[0], a->kv_num_heads, d_k, d_v};
        int skip = a->state_window == 0;
        CM_TRY(cm_expect_shape(f, PAST, "past_state", 5 - skip, state + skip));
        CM_TRY(cm_infer_tensor(f, 0, 3, out));
        CM_TRY(cm_infer_tensor(f, 1, 5 - skip, state + skip));
    }
    if (!cm_infer_has(f, PAST))
        f->out[1].type.dtype = f->in[Q].type->dtype;
    return CM_OK;
}

typedef struct {
    int64_t batch, len, q_heads, kv_heads, out_heads, d_k, d_v, window;
    bool gated, delta;
    double scale;
    const double *q, *k, *v, *decay, *beta;
    int64_t decay_cols, beta_cols;
    double *state; /* [batch, kv_heads, d_k, d_v] */
    double *rows;  /* [batch, kv_heads, d_v] */
    cm_tensor *y, *present;
} run;

static void update(const run *r, int64_t token, int64_t h, double *s, double *v)
{
    const double *k = r->k + (token * r->kv_heads + h) * r->d_k;
    memcpy(v, r->v + (token * r->kv_heads + h) * r->d_v, (size_t)r->d_v * sizeof(double));
    for (int64_t d = 0; r->gated && d < r->d_k; d++) {
        const double *g = r->decay + token * r->decay_cols;
        double factor = cm_exp(r->decay_cols == r->kv_heads ? g[h] : g[h * r->d_k + d]);
        for (int64_t m = 0; m < r->d_v; m++)
            s[d * r->d_v + m] *= factor;
    }
    if (r->delta) {
        double beta = r->beta[token * r->beta_cols + (r->beta_cols == 1 ? 0 : h)];
        for (int64_t d = 0; d < r->d_k; d++)
            cm_axpy_f64(-k[d], s + d * r->d_v, v, r->d_v);
        for (int64_t m = 0; m < r->d_v; m++)
            v[m] *= beta;
    }
    for (int64_t d = 0; d < r->d_k; d++)
        cm_axpy_f64(k[d], v, s + d * r->d_v, r->d_v);
}

static void read_out(const run *r, int64_t token, int64_t out_head, const double *s, double *y)
{
    int64_t h = out_head * r->q_heads / r->out_heads;
    const double *q = r->q + (token * r->q_heads + h) * r->d_k;
    memset(y, 0, (size_t)r->d_v * sizeof(double));
    for (int64_t d = 0; d < r->d_k; d++)
        cm_axpy_f64(r->scale * q[d], s + d * r->d_v, y, r->d_v);
    if (r->y)
        cm_store_f64(r->y->dtype, y, r->d_v,
                     (char *)r->y->data + (size_t)((token * r->out_heads + out_head) * r->d_v) *
                                              cm_dtype_size(r->y->dtype));
}

static void keep(const run *r, int64_t slot, int64_t head, const double *s)
{
    int64_t n = r->d_k * r->d_v;
    int64_t at = (slot * r->batch * r->kv_heads + head) * n;
    if (r->present)
        cm_store_f64(r->present->dtype, s, n,
                     (char *)r->present->data + (size_t)at * cm_dtype_size(r->present->dtype));
}

static void run_range(void *arg, int64_t begin, int64_t end)
{
    const run *r = arg;
    int64_t each = r->out_heads / r->kv_heads;
    for (int64_t i = begin; i < end; i++) {
        int64_t b = i / r->kv_heads, h = i % r->kv_heads;
        double *s = r->state + i * r->d_k * r->d_v, *row = r->rows + i * r->d_v;
        for (int64_t t = 0; t < r->len; t++) {
            update(r, b * r->len + t, h, s, row);
            for (int64_t j = 0; j < each; j++)
                read_out(r, b * r->len + t, h * each + j, s, row);
            int64_t slot = r->window - r->len + t;
            if (slot >= 0 && slot < r->window - 1)
                keep(r, slot, i, s);
        }
        keep(r, r->window - 1, i, s);
    }
}

static cm_status load_state(cm_eval *e, run *r)
{
    int64_t dims[] = {r->batch, r->kv_heads, r->d_k, r->d_v},
            rows[] = {r->batch, r->kv_heads, r->d_v};
    cm_tensor t;
    CM_TRY(cm_eval_temp(e, CM_F64, 4, dims, &t));
    r->state = t.data;
    if (cm_eval_has(e, PAST)) {
        const cm_tensor *past = cm_eval_in(e, PAST);
        int64_t n = cm_tensor_elems(&t);
        size_t skip = (size_t)((r->window - 1) * n) * cm_dtype_size(past->dtype);
        cm_load_f64(past->dtype, (const char *)past->data + skip, n, r->state);
    }
    CM_TRY(cm_eval_temp(e, CM_F64, 3, rows, &t));
    r->rows = t.data;
    return CM_OK;
}

static cm_status eval(cm_eval *e)
{
    const linear_attr *a = e->attr;
    const cm_tensor *q = cm_eval_in(e, Q), *v = cm_eval_in(e, V);
    run r = {.batch = q->dims[0],
             .len = q->dims[1],
             .q_heads = a->q_num_heads,
             .kv_heads = a->kv_num_heads,
             .window = cm_max_i64(a->state_window, 1)};
    CM_TRY(read_rule(e->cx, a, &r.gated, &r.delta));
    r.out_heads = cm_max_i64(r.q_heads, r.kv_heads);
    r.d_k = q->dims[2] / r.q_heads;
    r.d_v = v->dims[2] / r.kv_heads;
    r.scale = a->scale != 0 ? a->scale : r.d_k ? 1 / sqrt((double)r.d_k) : 0;
    CM_TRY(cm_eval_as_f64(e, Q, &r.q));
    CM_TRY(cm_eval_as_f64(e, K, &r.k));
    CM_TRY(cm_eval_as_f64(e, V, &r.v));
    if (r.gated) {
        CM_TRY(cm_eval_as_f64(e, DECAY, &r.decay));
        r.decay_cols = cm_eval_in(e, DECAY)->dims[2];
    }
    if (r.delta) {
        CM_TRY(cm_eval_as_f64(e, BETA, &r.beta));
        r.beta_cols = cm_eval_in(e, BETA)->dims[2];
    }
    CM_TRY(load_state(e, &r));
    r.y = cm_eval_wants(e, 0) ? cm_eval_out(e, 0) : NULL;
    r.present = cm_eval_wants(e, 1) ? cm_eval_out(e, 1) : NULL;
    if (r.present && r.window > 1)
        memset(r.present->data, 0,
               (size_t)cm_tensor_elems(r.present) * cm_dtype_size(r.present->dtype));
    cm_parallel(e->threads, r.batch * r.kv_heads, 1, run_range, &r);
    return CM_OK;
}

static void cost(const cm_infer *f, cm_cost *c)
{
    const linear_attr *a = f->attr;
    if (cm_expect_known(f, Q) && cm_expect_known(f, V) && a->kv_num_heads > 0)
        c->ops = 6 * cm_infer_volume(f, f->in[Q].type) * cm_infer_extent(f, cm_infer_dim(f, V, 2)) /
                 (double)a->kv_num_heads;
}

const cm_family cm_family_linear_attention = {
    .name = "linear_attention", .infer = infer, .eval = eval, .cost = cost};
