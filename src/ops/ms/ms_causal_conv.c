/* ms_causal_conv.c -- com.microsoft CausalConvWithState: ONNX's, with dilation and channels last.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Depthwise, along one axis; position t sees itself and what came before, the state first:
 *
 *     y[c, t] = f(bias[c] + sum over j of w[c, j] * x[c, t - (k - 1 - j)*dilation]) */
#include "ops/eval.h"

#include "base/size.h"
#include "ops/pointwise/activation.h"
#include "ops/expect.h"

typedef struct {
    uint64_t present;
    cm_str activation;
    int64_t channels_last, dilation, ndim, state_window;
} causal_attr;

CM_ATTRS(ms_causal_conv_with_state, causal_attr, CM_ATTR_STR(causal_attr, activation, "none"),
         CM_ATTR_INT(causal_attr, channels_last, 0), CM_ATTR_INT(causal_attr, dilation, 1),
         CM_ATTR_INT(causal_attr, ndim, 1), CM_ATTR_INT(causal_attr, state_window, 0))

enum { X, W, BIAS, PAST };

static cm_status find_function(cm_ctx *cx, const causal_attr *a, cm_activation *out)
{
    cm_str name = cm_str_equal(a->activation, cm_str_of("none"))    ? cm_str_of("")
                  : cm_str_equal(a->activation, cm_str_of("swish")) ? cm_str_of("silu")
                                                                    : a->activation;
    return cm_activation_find(cx, name, out);
}

static cm_status infer(cm_infer *f)
{
    const causal_attr *a = f->attr;
    cm_activation function;
    CM_TRY(find_function(f->cx, a, &function));
    if (a->ndim != 1 || a->state_window != 0)
        return cm_fail(f->cx, CM_ERR_UNSUPPORTED, "ndim %lld and state_window %lld",
                       (long long)a->ndim, (long long)a->state_window);
    if (a->dilation < 1)
        return cm_fail(f->cx, CM_ERR_MODEL, "dilation is %lld", (long long)a->dilation);
    if (!cm_infer_ranked(f, X) || !cm_infer_ranked(f, W)) {
        cm_infer_unknown(f, 0);
        cm_infer_unknown(f, 1);
        return CM_OK;
    }
    bool last = a->channels_last != 0;
    int rank = cm_infer_rank(f, X);
    CM_TRY(cm_expect_rank(f, X, "input", last ? 2 : 3, last ? CM_MAX_RANK : 3));
    CM_TRY(cm_expect_rank(f, W, "weight", 3, 3));
    cm_dim channels = last ? 1 : cm_infer_dim(f, X, 1), dims[CM_MAX_RANK];
    for (int d = 0; d < rank; d++) {
        dims[d] = cm_infer_dim(f, X, d);
        if (last && d >= 2)
            channels = cm_infer_mul(f, channels, dims[d]);
    }
    cm_dim w[] = {channels, 1, cm_infer_dim(f, W, 2)};
    int64_t k;
    if (cm_infer_const(f, w[2], &k) && k < 1)
        return cm_fail(f->cx, CM_ERR_MODEL, "a kernel of no taps");
    CM_TRY(cm_expect_shape(f, W, "weight", 3, w));
    CM_TRY(cm_expect_shape(f, BIAS, "bias", 1, &channels));
    dims[last ? 1 : 2] = cm_infer_mul(f, cm_infer_sub(f, w[2], 1), a->dilation);
    CM_TRY(cm_expect_shape(f, PAST, "past_state", rank, dims));
    CM_TRY(cm_infer_like(f, 0, X));
    return cm_infer_tensor(f, 1, rank, dims);
}

static cm_status eval(cm_eval *e)
{
    const causal_attr *a = e->attr;
    const cm_tensor *tx = cm_eval_in(e, X);
    bool last = a->channels_last != 0;
    int64_t channels = cm_eval_in(e, W)->dims[0], taps = cm_eval_in(e, W)->dims[2];
    int64_t len = tx->dims[last ? 1 : 2], state = (taps - 1) * a->dilation,
            n = tx->dims[0] * channels;
    int64_t c_stride = last ? 1 : len, t_stride = last ? channels : 1;
    int64_t sc_stride = last ? 1 : state, st_stride = last ? channels : 1,
            *dims = (int64_t[]){state + len};
    const double *x, *w, *bias = NULL, *past = NULL;
    cm_activation function;
    cm_tensor line;
    CM_TRY(find_function(e->cx, a, &function));
    CM_TRY(cm_eval_as_f64(e, X, &x));
    CM_TRY(cm_eval_as_f64(e, W, &w));
    if (cm_eval_has(e, BIAS))
        CM_TRY(cm_eval_as_f64(e, BIAS, &bias));
    if (cm_eval_has(e, PAST))
        CM_TRY(cm_eval_as_f64(e, PAST, &past));
    CM_TRY(cm_eval_temp(e, CM_F64, 1, dims, &line));
    double *v = line.data; /* the state, then the input */
    for (int64_t i = 0; i < n; i++) {
        int64_t c = i % channels, at = i / channels * channels * len + c * c_stride;
        int64_t s_at = i / channels * channels * state + c * sc_stride;
        for (int64_t t = 0; t < state; t++)
            v[t] = past ? past[s_at + t * st_stride] : 0;
        for (int64_t t = 0; t < len; t++)
            v[state + t] = x[at + t * t_stride];
        for (int64_t t = 0; cm_eval_wants(e, 0) && t < len; t++) {
            double sum = bias ? bias[c] : 0;
            for (int64_t j = 0; j < taps; j++)
                sum += w[c * taps + j] * v[t + j * a->dilation];
            cm_set_f64(tx->dtype, cm_eval_out(e, 0)->data, at + t * t_stride,
                       cm_activation_apply(&function, sum));
        }
        for (int64_t t = 0; cm_eval_wants(e, 1) && t < state; t++)
            cm_set_f64(tx->dtype, cm_eval_out(e, 1)->data, s_at + t * st_stride, v[len + t]);
    }
    return CM_OK;
}

const cm_family cm_family_ms_causal_conv = {.name = "ms_causal_conv", .infer = infer, .eval = eval};
