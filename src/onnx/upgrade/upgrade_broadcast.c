/* upgrade_broadcast.c -- how shapes were brought together before numpy's rule: attributes
 * `broadcast` and `axis`, slopes along channels, softmax over flattened dims.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "onnx/upgrade/upgrade.h"

/* Input 1 with `n` dims of size 1 appended to its shape. */
static cm_status append_ones(cm_pending *u, int n)
{
    int rank = cm_up_rank(u, 1);
    int64_t axes[CM_MAX_RANK];
    cm_value *v;
    if (n <= 0)
        return CM_OK;
    if (rank + n > CM_MAX_RANK)
        return cm_fail(u->im->cx, CM_ERR_MODEL, "rank %d is over %d", rank + n, CM_MAX_RANK);
    for (int i = 0; i < n; i++)
        axes[i] = rank + i;
    CM_TRY(cm_up_ints(u, axes, n, &v));
    return cm_up_binary(u, "Unsqueeze", u->in[1], v, &u->in[1]);
}

/* Add, Mul, And, Less ... up to 6: B's dims stand against A's from `axis` on, else at A's end. */
cm_status cm_up_broadcast(cm_pending *u)
{
    int64_t axis = 0, broadcast = 0;
    bool has_axis, found;
    CM_TRY(cm_up_take_int(u, "axis", &axis, &has_axis));
    CM_TRY(cm_up_take_int(u, "broadcast", &broadcast, &found));
    if (!has_axis || !broadcast)
        return CM_OK;
    CM_TRY(cm_up_need_input(u, 0));
    CM_TRY(cm_up_need_input(u, 1));
    int a = cm_up_rank(u, 0), b = cm_up_rank(u, 1);
    if (a < 0 || b < 0)
        return cm_fail(u->im->cx, CM_ERR_UNSUPPORTED, "axis %lld with inputs of unknown rank",
                       (long long)axis);
    if (axis < 0)
        axis += a;
    if (axis < 0 || axis + b > a) {
        if (b == 1 && u->in[1]->type.dims[0] == 1)
            return CM_OK;
        return cm_fail(u->im->cx, CM_ERR_MODEL, "axis %lld does not fit ranks %d and %d",
                       (long long)axis, a, b);
    }
    return append_ones(u, a - (int)axis - b);
}

/* PRelu up to 6: a slope of one dim stands for channels, dim 1. */
cm_status cm_up_prelu(cm_pending *u)
{
    int x = cm_up_rank(u, 0), slope = cm_up_rank(u, 1);
    if (slope != 1 || x < 2 || u->in[1]->type.dims[0] == 1)
        return CM_OK;
    return append_ones(u, x - 2);
}

/* Gemm up to 6: `broadcast` allowed what is always allowed now. */
cm_status cm_up_gemm(cm_pending *u)
{
    cm_up_drop(u, "broadcast");
    return CM_OK;
}

/* Concat-1: the axis is 1 when not given. */
cm_status cm_up_concat(cm_pending *u)
{
    return cm_onnx_find_attr(u, "axis") ? CM_OK : cm_up_set_int(u, "axis", 1);
}

/* Selu-1 rounded its constants to five digits. */
cm_status cm_up_selu(cm_pending *u)
{
    if (!cm_onnx_find_attr(u, "alpha"))
        CM_TRY(cm_up_set_float(u, "alpha", 1.6732f));
    return cm_onnx_find_attr(u, "gamma") ? CM_OK : cm_up_set_float(u, "gamma", 1.0507f);
}

/* Softmax, LogSoftmax, Hardmax up to 12 work on a matrix: dims before `axis` (default 1) by the
 * rest.
 *     x -- Flatten(axis) -- Softmax(-1) -- Reshape(Shape(x)) -- y
 * which is plain Softmax(-1) where the axis is the last. */
cm_status cm_up_softmax(cm_pending *u)
{
    int64_t axis = 1;
    bool found;
    int rank = cm_up_rank(u, 0);
    CM_TRY(cm_up_need_input(u, 0));
    CM_TRY(cm_up_take_int(u, "axis", &axis, &found));
    if (rank >= 0 && (axis < -rank || axis > rank || (axis == rank && rank != 1)))
        return cm_fail(u->im->cx, CM_ERR_MODEL, "axis %lld is out of range for rank %d",
                       (long long)axis, rank);
    if (rank > 0 && (axis == rank - 1 || axis == -1))
        return cm_up_set_int(u, "axis", -1);
    cm_value *flat, *y, *shape, *x = u->in[0];
    cm_up_attr at[] = {CM_UP_INT("axis", axis)}, last[] = {CM_UP_INT("axis", -1)};
    CM_TRY(cm_up_node(u, "Flatten", &x, 1, at, 1, &flat));
    CM_TRY(cm_up_node(u, u->op, &flat, 1, last, 1, &y));
    CM_TRY(cm_up_unary(u, "Shape", x, &shape));
    u->op = "Reshape";
    CM_TRY(cm_up_set_input(u, 0, y));
    CM_TRY(cm_up_set_input(u, 1, shape));
    return cm_up_set_int(u, "allowzero", 1);
}
