/* quantize.c -- QuantizeLinear, DequantizeLinear (ONNX's, com.microsoft's), DynamicQuantizeLinear.
 * SPDX-License-Identifier: Apache-2.0
 *
 *     q = saturate(round(x / scale) + zero)       x = (q - zero) * scale
 *
 * The division is rounded to the type of the scale, or to `precision`, before it is rounded to an
 * integer, half to even. */
#include "ops/quant/quant.h"

#include <math.h>

#include "ops/expect.h"

/* One struct for all: what a descriptor leaves out is 0. */
typedef struct {
    uint64_t present;
    int64_t axis, block_size, output_dtype;
    int64_t precision, saturate; /* quantise only */
} quantize_attr;

CM_ATTRS(quantize_linear, quantize_attr, CM_ATTR_INT(quantize_attr, axis, 1),
         CM_ATTR_INT(quantize_attr, block_size, 0), CM_ATTR_INT(quantize_attr, output_dtype, 0),
         CM_ATTR_INT(quantize_attr, precision, 0), CM_ATTR_INT(quantize_attr, saturate, 1))
CM_ATTRS(dequantize_linear, quantize_attr, CM_ATTR_INT(quantize_attr, axis, 1),
         CM_ATTR_INT(quantize_attr, block_size, 0), CM_ATTR_INT(quantize_attr, output_dtype, 0))
CM_ATTRS(ms_quantize_linear, quantize_attr, CM_ATTR_INT(quantize_attr, axis, 1))

enum { SRC, SCALE, ZERO };
enum { PIECE = 256 };

static bool is_quantize(cm_op_id id)
{
    return id == CM_OP_QUANTIZE_LINEAR || id == CM_OP_MS_QUANTIZE_LINEAR;
}

static cm_status check_parameters(cm_infer *f, const quantize_attr *a)
{
    CM_TRY(cm_quant_check(f, SRC, SCALE, "the scale", a->axis, a->block_size));
    CM_TRY(cm_quant_check(f, SRC, ZERO, "the zero point", a->axis, a->block_size));
    if (!cm_expect_known(f, SCALE) || !cm_expect_known(f, ZERO))
        return CM_OK;
    double n_scale = 1, n_zero = 1;
    for (int i = SCALE; i <= ZERO; i++)
        for (int d = 0; d < cm_infer_rank(f, i); d++) {
            int64_t v;
            if (!cm_infer_const(f, cm_infer_dim(f, i, d), &v))
                return CM_OK;
            *(i == SCALE ? &n_scale : &n_zero) *= (double)v;
        }
    if (n_scale != n_zero)
        return cm_fail(f->cx, CM_ERR_MODEL, "the scale has %.0f elements and the zero point %.0f",
                       n_scale, n_zero);
    return CM_OK;
}

static bool is_quantized(int64_t t)
{
    int32_t lo, hi;
    return t > 0 && t < CM_DTYPE_COUNT &&
           (cm_quant_range((cm_dtype)t, &lo, &hi) || (t >= CM_F8E4M3FN && t <= CM_F8E5M2FNUZ) ||
            t == CM_F4E2M1 || t == CM_F6E2M3 || t == CM_F6E3M2);
}

static cm_status quantized_type(cm_infer *f, const quantize_attr *a, cm_dtype *out)
{
    cm_dtype zero = cm_infer_has(f, ZERO) ? f->in[ZERO].type->dtype : CM_NO_DTYPE;
    if (a->output_dtype && !is_quantized(a->output_dtype))
        return cm_fail(f->cx, CM_ERR_MODEL, "output_dtype is %lld: no type to quantise to",
                       (long long)a->output_dtype);
    if (a->output_dtype && zero && a->output_dtype != (int64_t)zero)
        return cm_fail(f->cx, CM_ERR_MODEL, "output_dtype is %s, the zero point's type %s",
                       cm_dtype_name((cm_dtype)a->output_dtype), cm_dtype_name(zero));
    if (a->precision && a->precision != CM_F32 && a->precision != CM_F16 &&
        a->precision != CM_BF16 && a->precision != CM_F64)
        return cm_fail(f->cx, CM_ERR_MODEL, "precision is %lld: no float type",
                       (long long)a->precision);
    *out = zero ? zero : a->output_dtype ? (cm_dtype)a->output_dtype : CM_U8;
    return CM_OK;
}

static cm_status real_type(cm_infer *f, const quantize_attr *a, cm_dtype *out)
{
    int64_t t = a->output_dtype ? a->output_dtype : (int64_t)f->in[SCALE].type->dtype;
    if (t != CM_F32 && t != CM_F16 && t != CM_BF16)
        return cm_fail(f->cx, CM_ERR_MODEL,
                       "the output's type would be %s, wanted f32, f16 or bf16",
                       cm_dtype_valid((int)t) ? cm_dtype_name((cm_dtype)t) : "unknown");
    *out = (cm_dtype)t;
    return CM_OK;
}

static cm_status infer_dynamic(cm_infer *f)
{
    CM_TRY(cm_infer_like(f, 0, 0));
    CM_TRY(cm_infer_tensor(f, 1, 0, NULL));
    CM_TRY(cm_infer_tensor(f, 2, 0, NULL));
    f->out[0].type.dtype = f->out[2].type.dtype = CM_U8;
    return CM_OK;
}

static cm_status infer(cm_infer *f)
{
    if (f->op->id == CM_OP_DYNAMIC_QUANTIZE_LINEAR)
        return infer_dynamic(f);
    const quantize_attr *a = f->attr;
    CM_TRY(check_parameters(f, a));
    cm_dtype t = CM_NO_DTYPE;
    CM_TRY(is_quantize(f->op->id) ? quantized_type(f, a, &t) : real_type(f, a, &t));
    CM_TRY(cm_infer_like(f, 0, SRC));
    f->out[0].type.dtype = t;
    return CM_OK;
}

typedef struct {
    const cm_tensor *x;
    cm_tensor *y;
    const double *scale, *zero; /* zero NULL: none */
    cm_quant_axis axis;
    cm_dtype precision;
    bool saturate;
} run;

static void encode(const run *r, const double *v, const double *zero, int64_t n, void *dst)
{
    int32_t lo, hi;
    cm_dtype t = r->y->dtype;
    if (cm_quant_range(t, &lo, &hi)) {
        int64_t q[PIECE];
        for (int64_t i = 0; i < n; i++)
            q[i] = cm_quant_round(t, v[i], (int32_t)zero[i]);
        cm_store_i64(t, q, n, dst);
        return;
    }
    uint8_t *to = dst;
    for (int64_t i = 0; i < n; i++)
        to[i] = t >= CM_F8E4M3FN && t <= CM_F8E5M2FNUZ
                    ? cm_f64_to_f8(t, v[i] + zero[i], r->saturate)
                    : cm_f64_to_small_float(t, v[i] + zero[i]);
}

static void run_piece(const run *r, bool quantize, int64_t at, int64_t n)
{
    double v[PIECE], zero[PIECE];
    size_t from = cm_dtype_size(r->x->dtype), to = cm_dtype_size(r->y->dtype);
    cm_load_f64(r->x->dtype, (const char *)r->x->data + (size_t)at * from, n, v);
    for (int64_t i = 0; i < n; i++) {
        int64_t p = cm_quant_index(&r->axis, at + i);
        zero[i] = r->zero ? r->zero[p] : 0;
        if (quantize)
            v[i] = cm_quant_to(r->precision, cm_quant_to(r->precision, v[i]) /
                                                 cm_quant_to(r->precision, r->scale[p]));
        else
            v[i] = (v[i] - zero[i]) * r->scale[p];
    }
    void *dst = (char *)r->y->data + (size_t)at * to;
    if (quantize)
        encode(r, v, zero, n, dst);
    else
        cm_store_f64(r->y->dtype, v, n, dst);
}

static void quantize_range(void *arg, int64_t begin, int64_t end)
{
    for (int64_t i = begin; i < end; i += PIECE)
        run_piece(arg, true, i, end - i < PIECE ? end - i : PIECE);
}

static void dequantize_range(void *arg, int64_t begin, int64_t end)
{
    for (int64_t i = begin; i < end; i += PIECE)
        run_piece(arg, false, i, end - i < PIECE ? end - i : PIECE);
}

static cm_status eval_dynamic(cm_eval *e)
{
    int64_t n = cm_tensor_elems(cm_eval_in(e, 0));
    const double *x;
    float scale;
    int32_t zero;
    CM_TRY(cm_eval_as_f64(e, 0, &x));
    cm_quant_dynamic(x, n, &scale, &zero);
    if (cm_eval_wants(e, 0))
        cm_quant_store(CM_U8, x, n, scale, zero, cm_eval_out(e, 0)->data);
    if (cm_eval_wants(e, 1))
        *(float *)cm_eval_out(e, 1)->data = scale;
    if (cm_eval_wants(e, 2))
        *(uint8_t *)cm_eval_out(e, 2)->data = (uint8_t)zero;
    return CM_OK;
}

static cm_dtype division_type(const cm_tensor *x, const cm_tensor *scale, int64_t precision)
{
    if (precision)
        return (cm_dtype)precision;
    if (scale->dtype == CM_F8E8M0) /* a power of two: nothing is lost in x's own type */
        return x->dtype == CM_I32 ? CM_F64 : x->dtype;
    return scale->dtype == CM_I32 ? CM_F64 : scale->dtype;
}

static cm_status eval(cm_eval *e)
{
    if (e->op->id == CM_OP_DYNAMIC_QUANTIZE_LINEAR)
        return eval_dynamic(e);
    const quantize_attr *a = e->attr;
    bool quantize = is_quantize(e->op->id);
    run r = {.x = cm_eval_in(e, SRC), .y = cm_eval_out(e, 0), .saturate = a->saturate != 0};
    CM_TRY(cm_eval_as_f64(e, SCALE, &r.scale));
    if (cm_eval_has(e, ZERO))
        CM_TRY(cm_eval_as_f64(e, ZERO, &r.zero));
    r.axis = cm_quant_layout(r.x, cm_eval_in(e, SCALE), a->axis, a->block_size);
    if (quantize)
        r.precision = division_type(r.x, cm_eval_in(e, SCALE), a->precision);
    int64_t n = cm_tensor_elems(r.x);
    cm_parallel(e->threads, n, 4096, quantize ? quantize_range : dequantize_range, &r);
    return CM_OK;
}

const cm_family cm_family_quantize = {.name = "quantize", .infer = infer, .eval = eval};
