/* unary.c -- functions of one tensor, element by element.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Floats go through double and are rounded once; integers stay integers and wrap. */
#include <math.h>

#include "ops/elementwise.h"
#include "ops/math.h"

typedef struct {
    uint64_t present;
    float alpha;
} alpha_attr; /* of several operators */
typedef struct {
    uint64_t present;
    cm_str approximate;
} gelu_attr;
typedef struct {
    uint64_t present;
    float alpha, beta;
} hard_sigmoid_attr;
typedef struct {
    uint64_t present;
    int64_t detect_negative, detect_positive;
} is_inf_attr;
typedef struct {
    uint64_t present;
    float alpha, gamma;
} selu_attr;
typedef struct {
    uint64_t present;
    float bias, lambd;
} shrink_attr;

CM_ATTRS(celu, alpha_attr, CM_ATTR_FLOAT(alpha_attr, alpha, 1))
CM_ATTRS(elu, alpha_attr, CM_ATTR_FLOAT(alpha_attr, alpha, 1))
CM_ATTRS(leaky_relu, alpha_attr, CM_ATTR_FLOAT(alpha_attr, alpha, 0.01))
CM_ATTRS(swish, alpha_attr, CM_ATTR_FLOAT(alpha_attr, alpha, 1))
CM_ATTRS(thresholded_relu, alpha_attr, CM_ATTR_FLOAT(alpha_attr, alpha, 1))
CM_ATTRS(gelu, gelu_attr, CM_ATTR_STR(gelu_attr, approximate, "none"))
CM_ATTRS(hard_sigmoid, hard_sigmoid_attr, CM_ATTR_FLOAT(hard_sigmoid_attr, alpha, 0.2),
         CM_ATTR_FLOAT(hard_sigmoid_attr, beta, 0.5))
CM_ATTRS(is_inf, is_inf_attr, CM_ATTR_INT(is_inf_attr, detect_negative, 1),
         CM_ATTR_INT(is_inf_attr, detect_positive, 1))
CM_ATTRS(selu, selu_attr, CM_ATTR_FLOAT(selu_attr, alpha, 1.67326319217681884765625),
         CM_ATTR_FLOAT(selu_attr, gamma, 1.05070102214813232421875))
CM_ATTRS(shrink, shrink_attr, CM_ATTR_FLOAT(shrink_attr, bias, 0),
         CM_ATTR_FLOAT(shrink_attr, lambd, 0.5))

static double alpha_of(const void *attr)
{
    return (double)((const alpha_attr *)attr)->alpha;
}

static double clamp01(double x) /* NaN stays */
{
    return x < 0 ? 0 : x > 1 ? 1 : x;
}

static double celu(double x, double alpha)
{
    double low = alpha * cm_expm1(x / alpha);
    return (x > 0 ? x : x != x ? x : 0) + (low > 0 ? 0 : low);
}

static double gelu(double x, const gelu_attr *a)
{
    if (cm_str_equal(a->approximate, cm_str_of("tanh")))
        return 0.5 * x * (1 + cm_tanh(0x1.9884533d43651p-1 * (x + 0.044715 * x * x * x)));
    if (x == -INFINITY)
        return 0;
    /* 1 + erf(t) = erfc(-t), which keeps its precision where x is negative */
    return 0.5 * x * cm_erfc(-x * 0x1.6a09e667f3bcdp-1);
}

static double hard_sigmoid(double x, const hard_sigmoid_attr *a)
{
    return clamp01((double)a->alpha * x + (double)a->beta);
}

static double selu(double x, const selu_attr *a)
{
    return (double)a->gamma * (x > 0 ? x : (double)a->alpha * cm_expm1(x));
}

static double shrink(double x, const shrink_attr *a)
{
    double lambd = (double)a->lambd, bias = (double)a->bias;
    return x < -lambd ? x + bias : x > lambd ? x - bias : 0;
}

/* clang-format off */
static double apply(cm_op_id id, const void *attr, double x)
{
    switch (id) {
    case CM_OP_ABS: return fabs(x);
    case CM_OP_ACOS: return cm_acos(x);
    case CM_OP_ACOSH: return cm_acosh(x);
    case CM_OP_ASIN: return cm_asin(x);
    case CM_OP_ASINH: return cm_asinh(x);
    case CM_OP_ATAN: return cm_atan(x);
    case CM_OP_ATANH: return cm_atanh(x);
    case CM_OP_CEIL: return ceil(x);
    case CM_OP_CELU: return celu(x, alpha_of(attr));
    case CM_OP_COS: return cm_cos(x);
    case CM_OP_COSH: return cm_cosh(x);
    case CM_OP_ELU: return x < 0 ? alpha_of(attr) * cm_expm1(x) : x;
    case CM_OP_ERF: return cm_erf(x);
    case CM_OP_EXP: return cm_exp(x);
    case CM_OP_FLOOR: return floor(x);
    case CM_OP_GELU: return gelu(x, attr);
    case CM_OP_HARD_SIGMOID: return hard_sigmoid(x, attr);
    case CM_OP_HARD_SWISH: return x * clamp01(x / 6 + 0.5);
    case CM_OP_LEAKY_RELU: return x < 0 ? alpha_of(attr) * x : x;
    case CM_OP_LOG: return cm_ln(x);
    case CM_OP_MISH: return x * cm_tanh(cm_softplus(x));
    case CM_OP_NEG: return -x;
    case CM_OP_RECIPROCAL: return 1 / x;
    case CM_OP_RELU: return x > 0 || x != x ? x : 0;
    case CM_OP_ROUND: return rint(x);
    case CM_OP_SELU: return selu(x, attr);
    case CM_OP_SHRINK: return shrink(x, attr);
    case CM_OP_SIGMOID: return cm_sigmoid(x);
    case CM_OP_SIGN: return x > 0 ? 1 : x < 0 ? -1 : x != x ? x : 0;
    case CM_OP_SIN: return cm_sin(x);
    case CM_OP_SINH: return cm_sinh(x);
    case CM_OP_SOFTPLUS: return cm_softplus(x);
    case CM_OP_SOFTSIGN: return x / (1 + fabs(x));
    case CM_OP_SQRT: return sqrt(x);
    case CM_OP_SWISH: return x * cm_sigmoid(alpha_of(attr) * x);
    case CM_OP_TAN: return cm_tan(x);
    case CM_OP_TANH: return cm_tanh(x);
    case CM_OP_THRESHOLDED_RELU: return x > alpha_of(attr) ? x : 0;
    default: return NAN; /* the others are not functions of floats */
    }
}
/* clang-format on */

/* x + bias for x below -lambd, x - bias for x above lambd, else 0, exactly where bias is whole. */
static int64_t shrink_int(const shrink_attr *a, cm_dtype t, int64_t v)
{
    double x = cm_get_f64(t == CM_U64 ? CM_U64 : CM_I64, &v, 0), bias = (double)a->bias, y;
    if (x >= -(double)a->lambd && x <= (double)a->lambd)
        return 0;
    if (x < -(double)a->lambd)
        bias = -bias;
    int64_t whole, r;
    cm_store_f64(CM_I64, &bias, 1, &whole);
    if (bias == rint(bias))
        return (int64_t)((uint64_t)v - (uint64_t)whole);
    y = x - bias;
    cm_store_f64(CM_I64, &y, 1, &r);
    return r;
}

/* `v` as cm_load_i64 gave it; the result is stored modulo the width of `t`. */
static int64_t apply_int(cm_op_id id, const void *attr, cm_dtype t, int64_t v)
{
    bool negative = t != CM_U64 && v < 0;
    double y;
    int64_t r;
    switch (id) {
    case CM_OP_ABS:
        return negative ? (int64_t)(0 - (uint64_t)v) : v;
    case CM_OP_BITWISE_NOT:
        return ~v;
    case CM_OP_NEG:
        return (int64_t)(0 - (uint64_t)v);
    case CM_OP_RELU:
        return negative ? 0 : v;
    case CM_OP_SHRINK:
        return shrink_int(attr, t, v);
    case CM_OP_SIGN:
        return negative ? -1 : v != 0;
    default: /* Erf of older opsets */
        y = apply(id, attr, (double)v);
        cm_store_f64(CM_I64, &y, 1, &r);
        return r;
    }
}

static bool detects(cm_op_id id, const void *attr, double x)
{
    const is_inf_attr *a = attr;
    if (id == CM_OP_IS_NAN)
        return x != x;
    return (x == INFINITY && a->detect_positive) || (x == -INFINITY && a->detect_negative);
}

typedef struct {
    const cm_eval *e;
    const cm_tensor *in;
    cm_tensor *out;
} job;

static void compute(void *arg, int64_t at, int64_t n)
{
    const job *j = arg;
    const unsigned char *src = (const unsigned char *)j->in->data;
    unsigned char *dst = j->out->data;
    cm_dtype t = j->in->dtype;
    cm_op_id id = j->e->op->id;
    cm_block b;
    src += (size_t)at * cm_dtype_size(t);
    dst += (size_t)at * cm_dtype_size(j->out->dtype);
    if (id == CM_OP_NOT) {
        for (int64_t i = 0; i < n; i++)
            dst[i] = !src[i];
    } else if (id == CM_OP_IS_NAN || id == CM_OP_IS_INF) {
        cm_load_f64(t, src, n, b.f);
        for (int64_t i = 0; i < n; i++)
            dst[i] = detects(id, j->e->attr, b.f[i]);
    } else if (cm_dtype_is_float(t)) {
        cm_load_f64(t, src, n, b.f);
        for (int64_t i = 0; i < n; i++)
            b.f[i] = apply(id, j->e->attr, b.f[i]);
        cm_store_f64(t, b.f, n, dst);
    } else {
        cm_load_i64(t, src, n, b.i);
        for (int64_t i = 0; i < n; i++)
            b.i[i] = apply_int(id, j->e->attr, t, b.i[i]);
        cm_store_i64(t, b.i, n, dst);
    }
}

static cm_status eval(cm_eval *e)
{
    job j = {e, cm_eval_in(e, 0), cm_eval_out(e, 0)};
    return cm_eval_blocks(e, cm_tensor_elems(j.out), compute, &j);
}

static cm_dim apply_dim(cm_infer *f, cm_dim d)
{
    bool nonneg = cm_dim_is_nonneg(f->dims, d);
    int64_t v;
    switch (f->op->id) {
    case CM_OP_NEG:
        return cm_infer_sub(f, 0, d);
    case CM_OP_ABS:
    case CM_OP_RELU:
        if (nonneg)
            return d;
        if (cm_infer_const(f, d, &v))
            return f->op->id == CM_OP_RELU ? 0 : cm_infer_sub(f, 0, d);
        return CM_DIM_ERROR;
    case CM_OP_SIGN:
        if (cm_infer_const(f, d, &v))
            return cm_infer_number(f, (v > 0) - (v < 0));
        return cm_dim_is_positive(f->dims, d) ? 1 : CM_DIM_ERROR;
    case CM_OP_NOT:
        return cm_infer_const(f, d, &v) ? v == 0 : CM_DIM_ERROR;
    default:
        return CM_DIM_ERROR;
    }
}

static cm_status infer(cm_infer *f)
{
    cm_dim v[CM_MAX_ELEMS];
    int n;
    if (f->op->id == CM_OP_GELU) {
        cm_str how = ((const gelu_attr *)f->attr)->approximate;
        if (!cm_str_equal(how, cm_str_of("none")) && !cm_str_equal(how, cm_str_of("tanh")))
            return cm_fail(f->cx, CM_ERR_MODEL,
                           "approximate is \"%.*s\", wanted \"none\" or \"tanh\"",
                           (int)(how.n < 64 ? how.n : 64), how.n ? how.p : "");
    }
    CM_TRY(cm_infer_like(f, 0, 0));
    if (cm_infer_elems_together(f, 1, v, &n)) {
        for (int i = 0; i < n; i++) {
            v[i] = apply_dim(f, v[i]);
            if (!cm_infer_elem_fits(f, f->out[0].type.dtype, v[i]))
                return CM_OK;
        }
        cm_infer_set_elems(f, 0, v, n);
    }
    return CM_OK;
}

static void cost(const cm_infer *f, cm_cost *c)
{
    double each = 1;
    switch (f->op->id) {
    case CM_OP_ABS:
    case CM_OP_BITWISE_NOT:
    case CM_OP_CEIL:
    case CM_OP_FLOOR:
    case CM_OP_IS_INF:
    case CM_OP_IS_NAN:
    case CM_OP_NEG:
    case CM_OP_NOT:
    case CM_OP_RELU:
    case CM_OP_ROUND:
    case CM_OP_SIGN:
    case CM_OP_SQRT:
    case CM_OP_RECIPROCAL:
        break;
    case CM_OP_HARD_SIGMOID:
    case CM_OP_HARD_SWISH:
    case CM_OP_LEAKY_RELU:
    case CM_OP_SHRINK:
    case CM_OP_SOFTSIGN:
    case CM_OP_THRESHOLDED_RELU:
        each = 3;
        break;
    default:
        each = 12; /* a polynomial or so */
    }
    c->ops = each * cm_infer_volume(f, &f->out[0].type);
}

const cm_family cm_family_unary = {.name = "unary", .infer = infer, .eval = eval, .cost = cost};
