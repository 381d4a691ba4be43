/* qconv.c -- convolutions of quantised tensors as problems.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops/problem.h"
#include "ops/problems/channels.h"

bool cm_problem_qconv(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p);
bool cm_problem_conv(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p);

static const cm_qconv integer = {.mode = CM_QSUMS,
                                 .x = 0,
                                 .w = 1,
                                 .x_zero = 2,
                                 .w_zero = 3,
                                 .x_scale = -1,
                                 .w_scale = -1,
                                 .y_scale = -1,
                                 .y_zero = -1,
                                 .sums = -1};
static const cm_qconv linear = {.mode = CM_QBYTES,
                                .x = 0,
                                .x_scale = 1,
                                .x_zero = 2,
                                .w = 3,
                                .w_scale = 4,
                                .w_zero = 5,
                                .y_scale = 6,
                                .y_zero = 7,
                                .sums = 8};

/* -1 where it is absent; false: a type or a size that tactics do not take. */
static bool check(const cm_problem *p, int *input, cm_dtype dtype, int64_t channels)
{
    if (*input >= 0 && !cm_problem_has(p, *input))
        *input = -1;
    if (*input < 0)
        return true;
    int64_t n = cm_tensor_elems(p->in[*input]);
    return (dtype == CM_NO_DTYPE || p->in[*input]->dtype == dtype) && (n == 1 || n == channels) &&
           cm_tensor_is_dense(p->in[*input]);
}

/* Sums with the bias must stay within 32 bits. */
static bool sums_fit(const cm_qconv *q, const cm_problem *p)
{
    const cm_conv *c = &q->conv;
    int64_t k = c->c_in / c->groups * c->kernel[0] * c->kernel[1] * c->kernel[2];
    if (k > INT32_MAX / 255 / 255)
        return false;
    if (q->sums < 0)
        return true;
    const cm_tensor *t = p->in[q->sums];
    int64_t room = INT32_MAX - k * 255 * 255;
    if (!t->data || cm_tensor_elems(t) != c->c_out)
        return false;
    for (int64_t i = 0; i < c->c_out; i++) {
        int64_t v = ((const int32_t *)t->data)[i];
        if (v > room || v < -room)
            return false;
    }
    return true;
}

bool cm_problem_qconv(cm_arena *arena, const cm_op *op, const void *attr, cm_problem *p)
{
    cm_qconv q = op->id == CM_OP_CONV_INTEGER ? integer : linear;
    if (!cm_problem_wants(p, 0))
        return false;
    bool last = op->id == CM_OP_MS_QLINEAR_CONV && cm_attr_int(op, attr, "channels_last") != 0;
    cm_tensor x = last ? cm_channels_second(p->in[q.x]) : *p->in[q.x];
    cm_tensor y = last ? cm_channels_second(p->out[0]) : *p->out[0];
    const cm_tensor *in[2] = {&x, p->in[q.w]}, *out[1] = {&y};
    cm_problem real = {.n_in = 2, .in = in, .n_out = 1, .out = out};
    if (!cm_problem_conv(arena, op, attr, &real))
        return false;
    q.conv = real.as.conv;
    int64_t c = q.conv.c_out;
    if (!check(p, &q.x_zero, CM_NO_DTYPE, 1) || !check(p, &q.y_zero, CM_NO_DTYPE, 1) ||
        !check(p, &q.x_scale, CM_F32, 1) || !check(p, &q.y_scale, CM_F32, 1) ||
        !check(p, &q.w_scale, CM_F32, c) || !check(p, &q.w_zero, CM_NO_DTYPE, c) ||
        !check(p, &q.sums, CM_I32, c) || !sums_fit(&q, p))
        return false;
    q.conv.bias = q.sums >= 0;
    q.x_last = cm_channels_last(&x);
    q.y_last = cm_channels_last(&y);
    q.strided = (!q.x_last && !cm_tensor_is_dense(&x)) || (!q.y_last && !cm_tensor_is_dense(&y));
    if (q.mode == CM_QBYTES && y.dtype != CM_U8 && y.dtype != CM_I8)
        return false;
    p->as.qconv = q;
    return true;
}
