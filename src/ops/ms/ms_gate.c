/* ms_gate.c -- com.microsoft gates of recent networks: GatedRMSNorm, GatedAdd, ScaledSiLU,
 * LinearAttentionGate.
 * SPDX-License-Identifier: Apache-2.0
 *
 *     GatedRMSNorm          x / rms(x) * scale * f(gate), rms over groups as long as scale
 *     GatedAdd              x + y * gate, one gate a row; the product is rounded to the type first
 *     ScaledSiLU            z * sigmoid(z), z = scale * x; each step is rounded to the type
 *     LinearAttentionGate   scale * softplus(a + bias) per head; sigmoid(b) */
#include "ops/eval.h"

#include <math.h>

#include "ops/expect.h"
#include "ops/math.h"
#include "ops/quant/quant.h"

typedef struct {
    uint64_t present;
    cm_str activation;
    float epsilon, alpha;
} gate_attr;

CM_ATTRS(ms_gated_rms_norm, gate_attr, CM_ATTR_STR(gate_attr, activation, "silu"),
         CM_ATTR_FLOAT(gate_attr, epsilon, 1e-5f))
CM_ATTRS(ms_scaled_silu, gate_attr, CM_ATTR_FLOAT(gate_attr, alpha, 1))

static bool is_named(cm_str s, const char *name)
{
    return cm_str_equal(s, cm_str_of(name));
}

/* Input i has the shape of input 0, but for the last axis, which is `last`. */
static cm_status expect_rows(cm_infer *f, int i, const char *name, cm_dim last)
{
    cm_dim dims[CM_MAX_RANK];
    if (!cm_expect_known(f, 0) || !cm_expect_known(f, i))
        return CM_OK;
    int rank = cm_infer_rank(f, 0);
    for (int d = 0; d < rank; d++)
        dims[d] = d == rank - 1 ? last : cm_infer_dim(f, 0, d);
    return cm_expect_shape(f, i, name, rank, dims);
}

static cm_status infer_norm(cm_infer *f)
{
    const gate_attr *a = f->attr;
    if (!is_named(a->activation, "silu") && !is_named(a->activation, "swish") &&
        !is_named(a->activation, "sigmoid"))
        return cm_fail(f->cx, CM_ERR_MODEL, "activation is '%.*s', wanted silu, swish or sigmoid",
                       (int)(a->activation.n < 40 ? a->activation.n : 40), a->activation.p);
    CM_TRY(cm_expect_rank(f, 1, "scale", 1, 1));
    int64_t size, last;
    int rank = cm_infer_rank(f, 0);
    if (cm_expect_known(f, 1) && cm_infer_const(f, cm_infer_dim(f, 1, 0), &size) && rank > 0 &&
        cm_infer_const(f, cm_infer_dim(f, 0, rank - 1), &last) && (size < 1 || last % size))
        return cm_fail(f->cx, CM_ERR_MODEL,
                       "the last axis of %lld is no multiple of %lld, scale's length",
                       (long long)last, (long long)size);
    return CM_OK;
}

static cm_status infer(cm_infer *f)
{
    int rank = cm_infer_rank(f, 0);
    if (rank == 0 && f->op->id != CM_OP_MS_SCALED_SILU)
        return cm_fail(f->cx, CM_ERR_MODEL, "the input is a scalar");
    cm_dim last = rank > 0 ? cm_infer_dim(f, 0, rank - 1) : CM_DIM_ERROR;
    switch (f->op->id) {
    case CM_OP_MS_GATED_RMS_NORM:
        CM_TRY(infer_norm(f));
        CM_TRY(expect_rows(f, 2, "gate", last));
        break;
    case CM_OP_MS_GATED_ADD:
        CM_TRY(expect_rows(f, 1, "Y", last));
        CM_TRY(expect_rows(f, 2, "gate", 1));
        break;
    case CM_OP_MS_SCALED_SILU:
        CM_TRY(cm_expect_one(f, 1, "scale"));
        break;
    default:
        if (last != CM_DIM_ERROR) {
            CM_TRY(cm_expect_shape(f, 1, "dt_bias", 1, &last));
            CM_TRY(cm_expect_shape(f, 2, "decay_scale", 1, &last));
        }
        CM_TRY(expect_rows(f, 3, "b", last));
        if (f->n_out > 1 && !cm_infer_has(f, 3))
            return cm_fail(f->cx, CM_ERR_MODEL, "the output beta is asked for without b");
    }
    for (int o = 0; o < f->n_out; o++)
        CM_TRY(cm_infer_like(f, o, 0));
    return CM_OK;
}

static void norm(const gate_attr *a, const double *const *in, int64_t i, int64_t size, double *y)
{
    const double *x = in[0] + i * size, *gate = in[2] + i * size;
    bool silu = !is_named(a->activation, "sigmoid");
    double square = 0;
    for (int64_t j = 0; j < size; j++)
        square += x[j] * x[j];
    double inverse = 1 / sqrt(square / (double)size + a->epsilon);
    for (int64_t j = 0; j < size; j++)
        y[j] = x[j] * inverse * in[1][j] * cm_sigmoid(gate[j]) * (silu ? gate[j] : 1);
}

static void finish(cm_eval *e, int o, const double *v, int64_t n)
{
    cm_tensor *t = cm_eval_out(e, o);
    cm_store_f64(t->dtype, v, n, t->data);
}

static cm_status eval(cm_eval *e)
{
    const gate_attr *a = e->attr;
    const cm_tensor *x = cm_eval_in(e, 0);
    int64_t n = cm_tensor_elems(x), last = x->rank ? x->dims[x->rank - 1] : 1;
    const double *in[4] = {NULL};
    void *out;
    for (int i = 0; i < 4 && i < e->n_in; i++)
        if (cm_eval_has(e, i))
            CM_TRY(cm_eval_as_f64(e, i, &in[i]));
    CM_TRY(cm_eval_scratch(e, (size_t)n, sizeof(double), &out));
    double *y = out;
    cm_dtype t = x->dtype;
    switch (e->op->id) {
    case CM_OP_MS_GATED_RMS_NORM: {
        int64_t size = cm_eval_in(e, 1)->dims[0];
        for (int64_t i = 0; i < n / size; i++)
            norm(a, in, i, size, y + i * size);
        break;
    }
    case CM_OP_MS_GATED_ADD:
        for (int64_t i = 0; i < n; i++)
            y[i] = in[0][i] + cm_quant_to(t, in[1][i] * in[2][i / last]);
        break;
    case CM_OP_MS_SCALED_SILU:
        for (int64_t i = 0; i < n; i++) {
            double z = cm_quant_to(t, in[0][i] * (in[1] ? in[1][0] : a->alpha));
            y[i] = z * cm_quant_to(t, cm_sigmoid(z));
        }
        break;
    default:
        for (int64_t i = 0; cm_eval_wants(e, 1) && i < n; i++)
            y[i] = cm_sigmoid(in[3][i]);
        if (cm_eval_wants(e, 1))
            finish(e, 1, y, n);
        for (int64_t i = 0; i < n; i++)
            y[i] = in[2][i % last] * cm_softplus(in[0][i] + in[1][i % last]);
    }
    if (cm_eval_wants(e, 0))
        finish(e, 0, y, n);
    return CM_OK;
}

const cm_family cm_family_ms_gate = {.name = "ms_gate", .infer = infer, .eval = eval};
