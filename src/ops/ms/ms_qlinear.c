/* ms_qlinear.c -- com.microsoft operators on quantised tensors: dequantise, do what the operator of
 * the same name does, quantise.
 * SPDX-License-Identifier: Apache-2.0
 *
 * QLinearAdd, Mul, Sigmoid, LeakyRelu, Softmax, Where, Concat, ReduceMean, AveragePool,
 * GlobalAveragePool. The operator itself is evaluated by its own family, on f32. */
#include "ops/delegate.h"

#include <string.h>

#include "ops/expect.h"
#include "ops/quant/quant.h"

typedef struct {
    uint64_t present;
    int64_t axis, opset, keepdims, channels_last, ceil_mode, count_include_pad;
    float alpha;
    cm_ints axes, kernel_shape, pads, strides;
    cm_str auto_pad;
} qlinear_attr;

CM_ATTRS(ms_qlinear_leaky_relu, qlinear_attr, CM_ATTR_FLOAT(qlinear_attr, alpha, 0.01f))
CM_ATTRS(ms_qlinear_concat, qlinear_attr, CM_ATTR_INT_REQUIRED(qlinear_attr, axis))
CM_ATTRS(ms_qlinear_softmax, qlinear_attr, CM_ATTR_INT(qlinear_attr, axis, -1),
         CM_ATTR_INT_REQUIRED(qlinear_attr, opset))
CM_ATTRS(ms_qlinear_reduce_mean, qlinear_attr, CM_ATTR_INTS(qlinear_attr, axes, 0),
         CM_ATTR_INT(qlinear_attr, keepdims, 1))
CM_ATTRS(ms_qlinear_average_pool, qlinear_attr, CM_ATTR_STR(qlinear_attr, auto_pad, "NOTSET"),
         CM_ATTR_INT(qlinear_attr, ceil_mode, 0), CM_ATTR_INT(qlinear_attr, channels_last, 0),
         CM_ATTR_INT(qlinear_attr, count_include_pad, 0),
         CM_ATTR_INTS(qlinear_attr, kernel_shape, CM_REQUIRED), CM_ATTR_INTS(qlinear_attr, pads, 0),
         CM_ATTR_INTS(qlinear_attr, strides, 0))
CM_ATTRS(ms_qlinear_global_average_pool, qlinear_attr, CM_ATTR_INT(qlinear_attr, channels_last, 0))

enum { MAX_OPERANDS = 512 };

/* What an operator's inputs are: operands with scale and zero point after each, from `first` on;
 * the output's parameters; plain inputs before the operands are passed on as they are. */
typedef struct {
    cm_op_id as;
    int n_plain, first, n_operands; /* n_operands -1: all that there are */
    int y_scale, y_zero;
} qform;

static qform form_of(cm_op_id id, int n_in)
{
    switch (id) {
    case CM_OP_MS_QLINEAR_ADD:
        return (qform){CM_OP_ADD, 0, 0, 2, 6, 7};
    case CM_OP_MS_QLINEAR_MUL:
        return (qform){CM_OP_MUL, 0, 0, 2, 6, 7};
    case CM_OP_MS_QLINEAR_SIGMOID:
        return (qform){CM_OP_SIGMOID, 0, 0, 1, 3, 4};
    case CM_OP_MS_QLINEAR_LEAKY_RELU:
        return (qform){CM_OP_LEAKY_RELU, 0, 0, 1, 3, 4};
    case CM_OP_MS_QLINEAR_SOFTMAX:
        return (qform){CM_OP_SOFTMAX, 0, 0, 1, 3, 4};
    case CM_OP_MS_QLINEAR_REDUCE_MEAN:
        return (qform){CM_OP_REDUCE_MEAN, 0, 0, 1, 3, 4};
    case CM_OP_MS_QLINEAR_AVERAGE_POOL:
        return (qform){CM_OP_AVERAGE_POOL, 0, 0, 1, 3, 4};
    case CM_OP_MS_QLINEAR_GLOBAL_AVERAGE_POOL:
        return (qform){CM_OP_GLOBAL_AVERAGE_POOL, 0, 0, 1, 3, 4};
    case CM_OP_MS_QLINEAR_WHERE:
        return (qform){CM_OP_WHERE, 1, 1, 2, 7, 8};
    default:
        return (qform){CM_OP_CONCAT, 0, 2, (n_in - 2) / 3, 0, 1};
    }
}

/* The attributes of the operator itself. */
static cm_status plain_attr(cm_ctx *cx, cm_op_id id, const qlinear_attr *a, void **out)
{
    qform form = form_of(id, 2);
    CM_TRY(cm_delegate_attr(cx, form.as, out));
    switch (id) {
    case CM_OP_MS_QLINEAR_LEAKY_RELU:
        cm_delegate_set(form.as, *out, "alpha", &a->alpha);
        break;
    case CM_OP_MS_QLINEAR_CONCAT:
    case CM_OP_MS_QLINEAR_SOFTMAX:
        cm_delegate_set(form.as, *out, "axis", &a->axis);
        break;
    case CM_OP_MS_QLINEAR_REDUCE_MEAN:
        cm_delegate_set(form.as, *out, "keepdims", &a->keepdims);
        break;
    case CM_OP_MS_QLINEAR_AVERAGE_POOL:
        cm_delegate_set(form.as, *out, "auto_pad", &a->auto_pad);
        cm_delegate_set(form.as, *out, "ceil_mode", &a->ceil_mode);
        cm_delegate_set(form.as, *out, "count_include_pad", &a->count_include_pad);
        cm_delegate_set(form.as, *out, "kernel_shape", &a->kernel_shape);
        cm_delegate_set(form.as, *out, "pads", &a->pads);
        cm_delegate_set(form.as, *out, "strides", &a->strides);
        break;
    default:
        break;
    }
    return CM_OK;
}

static bool channels_last(cm_op_id id, const void *attr)
{
    return (id == CM_OP_MS_QLINEAR_AVERAGE_POOL || id == CM_OP_MS_QLINEAR_GLOBAL_AVERAGE_POOL) &&
           ((const qlinear_attr *)attr)->channels_last != 0;
}

/* Move the channel axis: [N, space..., C] to [N, C, space...], or back. */
static void move_channel(int rank, int64_t *dims, bool to_first)
{
    if (rank < 3)
        return;
    int64_t c = to_first ? dims[rank - 1] : dims[1];
    if (to_first)
        memmove(dims + 2, dims + 1, (size_t)(rank - 2) * sizeof *dims);
    else
        memmove(dims + 1, dims + 2, (size_t)(rank - 2) * sizeof *dims);
    dims[to_first ? 1 : rank - 1] = c;
}

/* Softmax below opset 13 runs over all axes from `axis` on: a matrix of two axes. */
static bool flat_softmax(cm_op_id id, const void *attr)
{
    return id == CM_OP_MS_QLINEAR_SOFTMAX && ((const qlinear_attr *)attr)->opset < 13;
}

static cm_status check_params(cm_infer *f, const qform *form)
{
    CM_TRY(cm_expect_present(f, &form->y_scale, 1));
    for (int i = 0; i < form->n_operands; i++) {
        int operand[] = {form->first + 3 * i, form->first + 3 * i + 1};
        CM_TRY(cm_expect_present(f, operand, 2));
    }
    CM_TRY(cm_expect_one(f, form->y_scale, "the output's scale"));
    CM_TRY(cm_expect_one(f, form->y_zero, "the output's zero point"));
    for (int i = 0; i < form->n_operands; i++) {
        CM_TRY(cm_expect_one(f, form->first + 3 * i + 1, "an input's scale"));
        CM_TRY(cm_expect_one(f, form->first + 3 * i + 2, "an input's zero point"));
    }
    if (f->op->id != CM_OP_MS_QLINEAR_CONCAT)
        return CM_OK;
    if (form->n_operands < 1 || form->n_operands > MAX_OPERANDS || (f->n_in - 2) % 3)
        return cm_fail(f->cx, CM_ERR_MODEL, "%d inputs, wanted 2 and 3 for each tensor", f->n_in);
    for (int i = 2; i < f->n_in; i++) {
        bool scale = i % 3 == 0;
        if (!cm_infer_has(f, i) || (f->in[i].type->dtype == CM_F32) != scale)
            return cm_fail(f->cx, CM_ERR_MODEL, "input %d is no %s", i,
                           scale ? "scale" : "8-bit tensor");
    }
    return CM_OK;
}

static cm_status infer(cm_infer *f)
{
    qform form = form_of(f->op->id, f->n_in);
    CM_TRY(check_params(f, &form));
    int n_in = form.n_plain + form.n_operands;
    cm_infer_in *in;
    cm_type *types;
    CM_NEW_N(f->cx, f->cx->scratch, in, n_in + 1, cm_infer_in);
    CM_NEW_N(f->cx, f->cx->scratch, types, n_in + 1, cm_type);
    for (int i = 0; i < n_in; i++) {
        int source = i < form.n_plain ? i : form.first + 3 * (i - form.n_plain);
        types[i] = *f->in[source].type;
        if (i >= form.n_plain)
            types[i].dtype = CM_F32;
        if (channels_last(f->op->id, f->attr))
            move_channel(types[i].rank, types[i].dims, true);
        in[i].type = &types[i];
    }
    void *attr;
    cm_infer_out *out;
    CM_NEW_N(f->cx, f->cx->scratch, out, 1, cm_infer_out);
    CM_TRY(plain_attr(f->cx, f->op->id, f->attr, &attr));
    cm_type axes_type = cm_type_tensor(CM_I64, 1, (cm_dim[]){0});
    cm_tensor axes = {0};
    if (f->op->id == CM_OP_MS_QLINEAR_REDUCE_MEAN) {
        const cm_ints *list = &((const qlinear_attr *)f->attr)->axes;
        axes_type.dims[0] = list->n;
        if (!cm_tensor_shape(&axes, CM_I64, 1, &list->n))
            return cm_fail(f->cx, CM_ERR_MODEL, "axes has %lld entries", (long long)list->n);
        axes.data = (void *)list->v;
        if (list->n)
            in[n_in++] = (cm_infer_in){.type = &axes_type, .constant = &axes};
    }
    CM_TRY(cm_delegate_infer(f, form.as, attr, n_in, in, 1, out));
    cm_type *y = &f->out[0].type;
    *y = out->type;
    if (channels_last(f->op->id, f->attr))
        move_channel(y->rank, y->dims, false);
    y->dtype = f->in[form.y_zero < f->n_in && f->in[form.y_zero].type ? form.y_zero : form.first]
                   .type->dtype;
    return CM_OK;
}

/* A copy with the channel axis moved; both [N, a, b] with a and b exchanged. */
static cm_status swap_channel(cm_eval *e, cm_tensor *t, bool to_first)
{
    cm_tensor moved;
    int64_t dims[CM_MAX_RANK];
    if (t->rank < 3)
        return CM_OK;
    memcpy(dims, t->dims, sizeof dims);
    move_channel(t->rank, dims, to_first);
    CM_TRY(cm_eval_temp(e, CM_F32, t->rank, dims, &moved));
    int64_t n = t->dims[0], a, b;
    int split = to_first ? t->rank - 1 : 2;
    a = cm_dims_product(t->dims, 1, split);
    b = cm_dims_product(t->dims, split, t->rank);
    const float *from = t->data;
    float *to = moved.data;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < a; j++)
            for (int64_t k = 0; k < b; k++)
                to[(i * b + k) * a + j] = from[(i * a + j) * b + k];
    *t = moved;
    return CM_OK;
}

static cm_status dequantise(cm_eval *e, int i, cm_tensor *out)
{
    const cm_tensor *x = cm_eval_in(e, i);
    float scale = (float)cm_eval_f64(e, i + 1, 0);
    double zero = cm_eval_has(e, i + 2) ? cm_eval_f64(e, i + 2, 0) : 0;
    CM_TRY(cm_eval_temp(e, CM_F32, x->rank, x->dims, out));
    int64_t n = cm_tensor_elems(x);
    for (int64_t j = 0; j < n; j++)
        ((float *)out->data)[j] = scale * (float)(cm_get_f64(x->dtype, x->data, j) - zero);
    return CM_OK;
}

static void flatten(cm_tensor *t, int64_t axis)
{
    int at = (int)(axis < 0 ? axis + t->rank : axis);
    int64_t dims[] = {cm_dims_product(t->dims, 0, at), cm_dims_product(t->dims, at, t->rank)};
    cm_tensor_shape(t, CM_F32, 2, dims);
}

/* The sum in one float32 expression, so that ties fall as they do elsewhere:
 * a*ra + (b*rb + c), rounded after each of the two steps, c the constant part. */
static cm_status eval_add(cm_eval *e)
{
    const cm_tensor *a = cm_eval_in(e, 0), *b = cm_eval_in(e, 3);
    cm_tensor *y = cm_eval_out(e, 0);
    int64_t sa[CM_MAX_RANK], sb[CM_MAX_RANK], n = cm_tensor_elems(y);
    float y_scale = (float)cm_eval_f64(e, 6, 0);
    float ra = (float)cm_eval_f64(e, 1, 0) / y_scale, rb = (float)cm_eval_f64(e, 4, 0) / y_scale;
    float za = cm_eval_has(e, 2) ? (float)cm_eval_f64(e, 2, 0) : 0;
    float zb = cm_eval_has(e, 5) ? (float)cm_eval_f64(e, 5, 0) : 0;
    float zero = cm_eval_has(e, 7) ? (float)cm_eval_f64(e, 7, 0) : 0;
    float constant = zero - (ra * za + rb * zb);
    cm_broadcast_strides(a, y->rank, y->dims, sa);
    cm_broadcast_strides(b, y->rank, y->dims, sb);
    for (int64_t i = 0; i < n; i++) {
        int64_t rest = i, at_a = 0, at_b = 0;
        for (int d = y->rank - 1; d >= 0; rest /= y->dims[d--]) {
            at_a += rest % y->dims[d] * sa[d];
            at_b += rest % y->dims[d] * sb[d];
        }
        float v = (float)(cm_get_f64(b->dtype, b->data, at_b) * rb + constant);
        v = (float)(cm_get_f64(a->dtype, a->data, at_a) * ra + v);
        cm_set_i64(y->dtype, y->data, i, cm_quant_round(y->dtype, v, 0));
    }
    return CM_OK;
}

/* Exact sums, then one factor. */
static cm_status eval_global_average(cm_eval *e)
{
    const cm_tensor *x = cm_eval_in(e, 0);
    cm_tensor *y = cm_eval_out(e, 0);
    bool last = channels_last(e->op->id, e->attr);
    int64_t channels = x->dims[last ? x->rank - 1 : 1];
    int64_t space =
        last ? cm_dims_product(x->dims, 1, x->rank - 1) : cm_dims_product(x->dims, 2, x->rank);
    int64_t c_stride = last ? 1 : space, s_stride = last ? channels : 1;
    int64_t zero_x = cm_eval_int(e, 2, 0);
    float factor = (float)cm_eval_f64(e, 1, 0) / ((float)cm_eval_f64(e, 3, 0) * (float)space);
    for (int64_t i = 0; i < x->dims[0] * channels; i++) {
        int64_t first = i / channels * channels * space + i % channels * c_stride,
                sum = -zero_x * space;
        for (int64_t j = 0; j < space; j++)
            sum += cm_get_i64(x->dtype, x->data, first + j * s_stride);
        cm_set_i64(y->dtype, y->data, i,
                   cm_quant_round(y->dtype, (float)sum * factor, (int32_t)cm_eval_int(e, 4, 0)));
    }
    return CM_OK;
}

static cm_status eval(cm_eval *e)
{
    if (e->op->id == CM_OP_MS_QLINEAR_ADD)
        return eval_add(e);
    if (e->op->id == CM_OP_MS_QLINEAR_GLOBAL_AVERAGE_POOL)
        return eval_global_average(e);
    qform form = form_of(e->op->id, e->n_in);
    int n_in = form.n_plain + form.n_operands;
    bool last = channels_last(e->op->id, e->attr), flat = flat_softmax(e->op->id, e->attr);
    cm_tensor *operands, real, axes = {0}, *y = cm_eval_out(e, 0);
    const cm_tensor **in;
    void *attr;
    CM_NEW_N(e->cx, e->cx->scratch, operands, n_in + 1, cm_tensor);
    CM_NEW_N(e->cx, e->cx->scratch, in, n_in + 1, const cm_tensor *);
    CM_TRY(plain_attr(e->cx, e->op->id, e->attr, &attr));
    for (int i = 0; i < n_in; i++) {
        in[i] = i < form.n_plain ? cm_eval_in(e, i) : &operands[i];
        if (i < form.n_plain)
            continue;
        CM_TRY(dequantise(e, form.first + 3 * (i - form.n_plain), &operands[i]));
        if (last)
            CM_TRY(swap_channel(e, &operands[i], true));
        if (flat)
            flatten(&operands[i], ((const qlinear_attr *)e->attr)->axis);
    }
    if (e->op->id == CM_OP_MS_QLINEAR_REDUCE_MEAN && ((const qlinear_attr *)e->attr)->axes.n) {
        const cm_ints *list = &((const qlinear_attr *)e->attr)->axes;
        cm_tensor_shape(&axes, CM_I64, 1, &list->n);
        axes.data = (void *)list->v;
        in[n_in++] = &axes;
    }
    int64_t dims[CM_MAX_RANK], minus = -1;
    memcpy(dims, y->dims, sizeof dims);
    if (last)
        move_channel(y->rank, dims, true);
    CM_TRY(cm_eval_temp(e, CM_F32, y->rank, dims, &real));
    if (flat) {
        flatten(&real, ((const qlinear_attr *)e->attr)->axis);
        cm_delegate_set(form.as, attr, "axis", &minus);
    }
    CM_TRY(cm_delegate_eval(e, form.as, attr, n_in, in, &real));
    if (last)
        CM_TRY(swap_channel(e, &real, false));
    int64_t n = cm_tensor_elems(y);
    float scale = (float)cm_eval_f64(e, form.y_scale, 0);
    double zero = cm_eval_has(e, form.y_zero) ? cm_eval_f64(e, form.y_zero, 0) : 0;
    for (int64_t i = 0; i < n; i++) {
        double v = ((const float *)real.data)[i];
        cm_quant_store(y->dtype, &v, 1, scale, zero, (char *)y->data + i);
    }
    return CM_OK;
}

const cm_family cm_family_ms_qlinear = {.name = "ms_qlinear", .infer = infer, .eval = eval};
