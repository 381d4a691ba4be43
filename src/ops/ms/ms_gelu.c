/* ms_gelu.c -- com.microsoft activations and what is fused around them: Gelu, FastGelu, QuickGelu,
 * BiasGelu, BiasSplitGelu, BiasAdd, BiasDropout (as it runs: nothing is dropped), BiasSoftmax.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops/eval.h"

#include <math.h>
#include <string.h>

#include "ops/pointwise/activation.h"
#include "ops/expect.h"
#include "ops/math.h"

typedef struct {
    uint64_t present;
    float alpha;
    int64_t axis, is_inner_broadcast, seed;
} gelu_attr;

CM_ATTRS(ms_quick_gelu, gelu_attr, CM_ATTR_FLOAT(gelu_attr, alpha, 1.702f))
CM_ATTRS(ms_bias_dropout, gelu_attr, CM_ATTR_INT(gelu_attr, seed, 0))
CM_ATTRS(ms_bias_softmax, gelu_attr, CM_ATTR_INT(gelu_attr, axis, 1),
         CM_ATTR_INT_REQUIRED(gelu_attr, is_inner_broadcast))

static const char *function_name(cm_op_id id)
{
    switch (id) {
    case CM_OP_MS_FAST_GELU:
        return "FastGelu";
    case CM_OP_MS_QUICK_GELU:
        return "QuickGelu";
    case CM_OP_MS_BIAS_ADD:
    case CM_OP_MS_BIAS_DROPOUT:
        return "";
    default:
        return "Gelu";
    }
}

/* Bias: a vector as long as the last axis; BiasDropout's may have the shape of the data; FastGelu's
 * is of any length and repeats over the elements. */
static cm_status check_bias(cm_infer *f)
{
    if (!cm_expect_known(f, 0) || !cm_expect_known(f, 1) || f->op->id == CM_OP_MS_FAST_GELU)
        return CM_OK;
    int rank = cm_infer_rank(f, 0);
    const cm_dim *dims = f->in[0].type->dims;
    if (f->op->id == CM_OP_MS_BIAS_DROPOUT && cm_infer_rank(f, 1) == rank)
        return cm_expect_shape(f, 1, "bias", rank, dims);
    if (rank == 0)
        return cm_fail(f->cx, CM_ERR_MODEL, "the input is a scalar");
    return cm_expect_shape(f, 1, "bias", 1, &dims[rank - 1]);
}

/* data [.., softmax axes from `axis`], bias equal to it but for leading axes, or axes just before
 * `axis`, of size 1 (or left out). */
static cm_status infer_softmax(cm_infer *f)
{
    const gelu_attr *a = f->attr;
    int axis;
    CM_TRY(cm_infer_like(f, 0, 0));
    if (!cm_expect_known(f, 0) || !cm_expect_known(f, 1))
        return CM_OK;
    int rank = cm_infer_rank(f, 0);
    CM_TRY(cm_axis(f->cx, a->axis, rank, &axis));
    CM_TRY(cm_expect_rank(f, 1, "bias", 1, rank));
    for (int i = 1; i <= cm_infer_rank(f, 1); i++) {
        cm_dim d = cm_infer_dim(f, 1, cm_infer_rank(f, 1) - i);
        if (d != 1)
            CM_TRY(cm_infer_equal(f, "bias", d, cm_infer_dim(f, 0, rank - i)));
    }
    return CM_OK;
}

static cm_status infer(cm_infer *f)
{
    if (f->op->id == CM_OP_MS_BIAS_SOFTMAX)
        return infer_softmax(f);
    CM_TRY(check_bias(f));
    if (f->op->id == CM_OP_MS_BIAS_ADD || f->op->id == CM_OP_MS_BIAS_DROPOUT)
        if (cm_expect_known(f, 0))
            CM_TRY(cm_expect_shape(f, 2, "residual", cm_infer_rank(f, 0), f->in[0].type->dims));
    CM_TRY(cm_infer_like(f, 0, 0));
    if (f->n_out > 1) {
        CM_TRY(cm_infer_like(f, 1, 0));
        f->out[1].type.dtype = CM_BOOL;
    }
    int rank = cm_infer_rank(f, 0);
    if (f->op->id == CM_OP_MS_BIAS_SPLIT_GELU && rank > 0)
        return cm_expect_split(f, "hidden size", cm_infer_dim(f, 0, rank - 1), 2,
                               &f->out[0].type.dims[rank - 1]);
    return CM_OK;
}

typedef struct {
    const cm_tensor *x;
    cm_tensor *y;
    cm_activation function;
    const double *bias, *residual; /* NULL: none */
    int64_t n_bias;
    bool split;
} run;

enum { PIECE = 256 };

static void run_range(void *arg, int64_t begin, int64_t end)
{
    const run *r = arg;
    size_t size = cm_dtype_size(r->x->dtype);
    double v[PIECE];
    for (int64_t i = begin; i < end; i += PIECE) {
        int64_t n = end - i < PIECE ? end - i : PIECE;
        cm_load_f64(r->x->dtype, (const char *)r->x->data + (size_t)i * size, n, v);
        for (int64_t j = 0; j < n; j++) {
            double x = v[j] + (r->bias ? r->bias[(i + j) % r->n_bias] : 0);
            v[j] = cm_activation_apply(&r->function, x) + (r->residual ? r->residual[i + j] : 0);
        }
        cm_store_f64(r->y->dtype, v, n, (char *)r->y->data + (size_t)i * size);
    }
}

/* left * gelu(right), of rows that are cut in halves */
static void split_range(void *arg, int64_t begin, int64_t end)
{
    const run *r = arg;
    int64_t half = r->n_bias / 2;
    for (int64_t i = begin; half && i < end; i++) {
        int64_t row = i / half * r->n_bias, j = i % half;
        double left = cm_get_f64(r->x->dtype, r->x->data, row + j) + r->bias[j];
        double right = cm_get_f64(r->x->dtype, r->x->data, row + half + j) + r->bias[half + j];
        cm_set_f64(r->y->dtype, r->y->data, i, left * cm_activation_apply(&r->function, right));
    }
}

static void softmax(double *v, int64_t n)
{
    double max = -INFINITY, sum = 0;
    for (int64_t i = 0; i < n; i++)
        max = v[i] > max || isnan(v[i]) ? v[i] : max;
    for (int64_t i = 0; i < n; i++)
        sum += v[i] = cm_exp(v[i] - max);
    for (int64_t i = 0; i < n; i++)
        v[i] /= sum;
}

static cm_status eval_softmax(cm_eval *e)
{
    const gelu_attr *a = e->attr;
    const cm_tensor *x = cm_eval_in(e, 0), *b = cm_eval_in(e, 1);
    int64_t strides[CM_MAX_RANK], total = cm_tensor_elems(x);
    const double *bias;
    void *sum;
    int axis;
    CM_TRY(cm_axis(e->cx, a->axis, x->rank, &axis));
    CM_TRY(cm_eval_as_f64(e, 1, &bias));
    CM_TRY(cm_eval_scratch(e, (size_t)total, sizeof(double), &sum));
    double *v = sum;
    cm_load_f64(x->dtype, x->data, total, v);
    cm_broadcast_strides(b, x->rank, x->dims, strides);
    for (int64_t i = 0; i < total; i++) {
        int64_t at = 0, rest = i;
        for (int d = x->rank - 1; d >= 0; rest /= x->dims[d--])
            at += rest % x->dims[d] * strides[d];
        v[i] += bias[at];
    }
    int64_t n = cm_dims_product(x->dims, axis, x->rank);
    for (int64_t i = 0; i < total; i += n)
        softmax(v + i, n);
    cm_store_f64(x->dtype, v, total, cm_eval_out(e, 0)->data);
    return CM_OK;
}

static cm_status eval(cm_eval *e)
{
    if (e->op->id == CM_OP_MS_BIAS_SOFTMAX)
        return eval_softmax(e);
    run r = {.x = cm_eval_in(e, 0), .split = e->op->id == CM_OP_MS_BIAS_SPLIT_GELU};
    CM_TRY(cm_activation_find(e->cx, cm_str_of(function_name(e->op->id)), &r.function));
    if (e->op->id == CM_OP_MS_QUICK_GELU)
        r.function.alpha = ((const gelu_attr *)e->attr)->alpha;
    if (cm_eval_has(e, 1)) {
        CM_TRY(cm_eval_as_f64(e, 1, &r.bias));
        r.n_bias = cm_tensor_elems(cm_eval_in(e, 1));
        if (r.n_bias == 0)
            r.bias = NULL;
    }
    if (cm_eval_has(e, 2))
        CM_TRY(cm_eval_as_f64(e, 2, &r.residual));
    if (cm_eval_wants(e, 1))
        memset(cm_eval_out(e, 1)->data, 1, (size_t)cm_tensor_elems(cm_eval_out(e, 1)));
    if (!cm_eval_wants(e, 0))
        return CM_OK;
    r.y = cm_eval_out(e, 0);
    cm_parallel(e->threads, cm_tensor_elems(r.y), 1024, r.split ? split_range : run_range, &r);
    return CM_OK;
}

const cm_family cm_family_ms_gelu = {.name = "ms_gelu", .infer = infer, .eval = eval};
