/* upgrade_experimental.c -- operators that ONNX had on trial and withdrew; files still hold them.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "onnx/upgrade/upgrade.h"

/* Input i of type T and `x` as a constant: x op number. */
static cm_status with_number(cm_pending *u, const char *op, cm_value *x, float number,
                             cm_value **out)
{
    cm_value *n;
    CM_TRY(cm_up_number(u, x->type.dtype, number, &n));
    return cm_up_binary(u, op, x, n, out);
}

/* The last operation of a chain: what the node becomes. */
static cm_status finish(cm_pending *u, const char *op, cm_value *x, float number)
{
    cm_value *n;
    CM_TRY(cm_up_number(u, x->type.dtype, number, &n));
    u->op = op;
    u->n_attrs = 0;
    u->n_in = 1;
    u->in[0] = x;
    return cm_up_set_input(u, 1, n);
}

/* Affine: alpha*x + beta. Scale: scale*x. ScaledTanh: alpha*tanh(beta*x). ParametricSoftplus:
 * alpha*log(exp(beta*x) + 1). */
cm_status cm_up_affine(cm_pending *u)
{
    float alpha = 1, beta = 0;
    bool found;
    cm_value *y;
    CM_TRY(cm_up_need_input(u, 0));
    CM_TRY(cm_up_take_float(u, "alpha", &alpha, &found));
    CM_TRY(cm_up_take_float(u, "beta", &beta, &found));
    CM_TRY(with_number(u, "Mul", u->in[0], alpha, &y));
    return finish(u, "Add", y, beta);
}

cm_status cm_up_scale(cm_pending *u)
{
    float scale = 1;
    bool found;
    CM_TRY(cm_up_need_input(u, 0));
    CM_TRY(cm_up_take_float(u, "scale", &scale, &found));
    return finish(u, "Mul", u->in[0], scale);
}

cm_status cm_up_scaled_curve(cm_pending *u)
{
    bool tanh = strcmp(u->op, "ScaledTanh") == 0, found;
    float alpha = 1, beta = 1;
    cm_value *y;
    CM_TRY(cm_up_need_input(u, 0));
    CM_TRY(cm_up_take_float(u, "alpha", &alpha, &found));
    CM_TRY(cm_up_take_float(u, "beta", &beta, &found));
    CM_TRY(with_number(u, "Mul", u->in[0], beta, &y));
    CM_TRY(cm_up_unary(u, tanh ? "Tanh" : "Softplus", y, &y));
    return finish(u, "Mul", y, alpha);
}

/* ImageScaler: scale*x + bias of the channel. */
cm_status cm_up_image_scaler(cm_pending *u)
{
    float scale = 1;
    cm_floats bias = {0};
    int64_t shape[] = {1, -1, 1, 1};
    bool found, has_bias;
    cm_value *y, *b, *dims;
    CM_TRY(cm_up_need_input(u, 0));
    CM_TRY(cm_up_take_float(u, "scale", &scale, &found));
    CM_TRY(cm_up_take_floats(u, "bias", &bias, &has_bias));
    if (!has_bias || !bias.n)
        return finish(u, "Mul", u->in[0], scale);
    CM_TRY(with_number(u, "Mul", u->in[0], scale, &y));
    CM_TRY(cm_up_floats(u, bias.v, bias.n, &b));
    CM_TRY(cm_up_ints(u, shape, 4, &dims));
    CM_TRY(cm_up_binary(u, "Reshape", b, dims, &b));
    if (y->type.dtype != CM_F32)
        CM_TRY(cm_up_cast(u, b, y->type.dtype, &b));
    u->op = "Add";
    u->in[0] = y;
    return cm_up_set_input(u, 1, b);
}

/* Crop: a border off the last two dims (left, top, right, bottom), or a box of size `scale` from
 * the left top corner of the border. */
cm_status cm_up_crop(cm_pending *u)
{
    cm_ints border = {0}, scale = {0};
    bool found, boxed;
    cm_value *v;
    CM_TRY(cm_up_need_input(u, 0));
    CM_TRY(cm_up_take_ints(u, "border", &border, &found));
    CM_TRY(cm_up_take_ints(u, "scale", &scale, &boxed));
    if (border.n != 4 || (boxed && scale.n != 2))
        return cm_fail(u->im->cx, CM_ERR_MODEL, "border has %lld entries, wanted 4",
                       (long long)border.n);
    int64_t starts[] = {border.v[1], border.v[0]}, axes[] = {2, 3};
    int64_t ends[] = {border.v[3] ? -border.v[3] : INT64_MAX,
                      border.v[2] ? -border.v[2] : INT64_MAX};
    for (int i = 0; boxed && i < 2; i++)
        if (__builtin_add_overflow(starts[i], scale.v[i], &ends[i]))
            ends[i] = INT64_MAX;
    const int64_t *lists[] = {starts, ends, axes};
    u->op = "Slice";
    for (int i = 0; i < 3; i++) {
        CM_TRY(cm_up_ints(u, lists[i], 2, &v));
        CM_TRY(cm_up_set_input(u, i + 1, v));
    }
    return CM_OK;
}

/* DynamicSlice became Slice. */
cm_status cm_up_dynamic_slice(cm_pending *u)
{
    u->op = "Slice";
    return CM_OK;
}

/* ConstantFill: a shape from an attribute or an input, filled with a value. */
cm_status cm_up_constant_fill(cm_pending *u)
{
    int64_t dtype = CM_F32, as_shape = 0;
    cm_ints shape = {0}, extra = {0};
    float value = 0;
    bool found, has_shape;
    cm_value *dims, *fill, *more;
    cm_up_attr axis[] = {CM_UP_INT("axis", 0)};
    CM_TRY(cm_up_take_int(u, "dtype", &dtype, &found));
    CM_TRY(cm_up_take_int(u, "input_as_shape", &as_shape, &found));
    CM_TRY(cm_up_take_ints(u, "shape", &shape, &has_shape));
    CM_TRY(cm_up_take_ints(u, "extra_shape", &extra, &found));
    CM_TRY(cm_up_take_float(u, "value", &value, &found));
    if (!cm_dtype_valid((int)dtype) || dtype >= CM_DTYPE_COUNT)
        return cm_fail(u->im->cx, CM_ERR_MODEL, "element type %lld is unknown", (long long)dtype);
    if (has_shape)
        CM_TRY(cm_up_ints(u, shape.v, shape.n, &dims));
    else if (u->n_in < 1 || !u->in[0])
        return cm_fail(u->im->cx, CM_ERR_MODEL, "it has no shape");
    else if (as_shape)
        CM_TRY(cm_up_cast(u, u->in[0], CM_I64, &dims));
    else
        CM_TRY(cm_up_unary(u, "Shape", u->in[0], &dims));
    if (extra.n) {
        CM_TRY(cm_up_ints(u, extra.v, extra.n, &more));
        cm_value *parts[] = {dims, more};
        CM_TRY(cm_up_node(u, "Concat", parts, 2, axis, 1, &dims));
    }
    CM_TRY(cm_up_number(u, (cm_dtype)dtype, value, &fill));
    u->op = "Expand";
    CM_TRY(cm_up_set_input(u, 0, fill));
    return cm_up_set_input(u, 1, dims);
}
