/* random_steps.h -- the steps that random networks are made of: single operators, and patterns with one
 * thing changed now and then.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_TESTS_FAULT_RANDOM_STEPS_H
#define CM_TESTS_FAULT_RANDOM_STEPS_H

#include "fault/random_network.h"

/* ---- Single operators ----------------------------------------------------------------------- */

static inline cm_value *positive(maker *m, cm_value *x)
{
    return x ? OP(m, "Add", "", OP(m, "Abs", "", x), scalar(m, x, 0.5)) : NULL;
}

static inline cm_value *step_unary(maker *m)
{
    cm_value *x = pick(m, any_float);
    switch (draw(m, 12)) {
    case 0:
        return OP(m, ONE_OF(m, "Sqrt", "Reciprocal", "Log"), "", positive(m, x));
    case 1:
        return OP(m, "LeakyRelu", ONE_OF(m, "alpha=0.1", ""), x);
    case 2:
        return x ? OP(m, "Clip", "", x, scalar(m, x, chance(m, 50) ? 0 : -1), scalar(m, x, 6)) : x;
    case 3:
        return OP(m, ONE_OF(m, "Elu", "HardSigmoid", "HardSwish", "Softplus", "Softsign", "Mish"),
                  "", x);
    case 4:
        return OP(m, "Exp", "", OP(m, "Tanh", "", x));
    case 5:
        return OP(m, "Gelu", ONE_OF(m, "approximate=tanh", ""), x);
    case 6:
        return OP(m, ONE_OF(m, "Identity", "Dropout"), "", x);
    default:
        return OP(m, ONE_OF(m, "Relu", "Sigmoid", "Tanh", "Abs", "Neg", "Erf", "Relu", "Sin"), "",
                  x);
    }
}

static inline cm_value *step_binary(maker *m)
{
    cm_value *x = pick(m, numeric), *y = NULL;
    if (!x)
        return NULL;
    if (chance(m, 45))
        y = constant_for(m, x);
    else
        y = pick_like(m, x);
    switch (draw(m, 8)) {
    case 0:
        return any_float(x) ? OP(m, "Div", "", x, chance(m, 50) ? positive(m, y) : scalar(m, x, 2))
                            : NULL;
    case 1:
        return any_float(x) ? OP(m, "Pow", "", chance(m, 50) ? positive(m, x) : x,
                                 scalar(m, x, (double)(1 + draw(m, 3))))
                            : NULL;
    case 2:
        return commute(m, ONE_OF(m, "Min", "Max", "Mean", "Sum"), x, y);
    case 3:
        return OP(m, "PRelu", "", x, y);
    default:
        return commute(m, ONE_OF(m, "Add", "Sub", "Mul", "Add", "Mul"), x, y);
    }
}

static inline cm_value *step_where(maker *m)
{
    cm_value *c = pick(m, boolean), *x = pick(m, numeric);
    if (c && chance(m, 20))
        c = OP(m, ONE_OF(m, "Not", "Identity"), "", c);
    if (!c && m->n_inputs > 1) { /* compare what no rewrite can move by a rounding */
        cm_value *i = m->pool[draw(m, m->n_inputs)];
        c = numeric(i) ? keep(m, OP(m, ONE_OF(m, "Greater", "Less", "GreaterOrEqual"), "", i,
                                    scalar(m, i, 0)))
                       : NULL;
    }
    return x ? OP(m, "Where", "", c, x, chance(m, 50) ? scalar(m, x, -1) : pick_like(m, x)) : NULL;
}

static inline cm_value *step_cast(maker *m)
{
    static const int to[] = {CM_F32, CM_F32, CM_F16, CM_F32, CM_F64};
    cm_value *x = pick(m, any_float);
    x = text_op(m, "Cast", x, "to=%d", to[draw(m, 5)]);
    return chance(m, 40) ? text_op(m, "Cast", mid(m, x), "to=%d", to[draw(m, 4)]) : x;
}

static inline cm_value *transpose(maker *m, cm_value *x)
{
    int r = cm_rank(x), perm[8];
    char text[64] = "perm=";
    if (r < 2 || r > 6)
        return NULL;
    for (int i = 0; i < r; i++)
        perm[i] = i;
    for (int i = r - 1; i > 0; i--) {
        int k = chance(m, 70) ? draw(m, i + 1) : i, t = perm[i];
        perm[i] = perm[k];
        perm[k] = t;
    }
    for (int i = 0; i < r; i++)
        sprintf(text + strlen(text), i ? ",%d" : "%d", perm[i]);
    return OP(m, "Transpose", chance(m, 90) ? text : "", x);
}

static inline cm_value *reshape(maker *m, cm_value *x)
{
    int64_t dims[8];
    int r = cm_rank(x), n = 0;
    if (r < 1 || r > 5)
        return NULL;
    switch (draw(m, 6)) {
    case 0:
        return OP(m, "Reshape", "", x, INTS(m, -1));
    case 1:
        return text_op(m, "Flatten", x, "axis=%d", draw(m, r + 1));
    case 2:
        return OP(m, "Unsqueeze", "", x, INTS(m, draw(m, r + 1)));
    case 3:
        return OP(m, "Squeeze", "", OP(m, "Unsqueeze", "", x, INTS(m, 0)),
                  chance(m, 80) ? INTS(m, 0) : ABSENT);
    case 4: /* split an even axis in two */
        for (int a = 0; a < r; a++) {
            if (n == a && size_of(x, a) % 2 == 0 && size_of(x, a)) {
                dims[n++] = size_of(x, a) / 2;
                dims[n++] = 2;
            } else {
                dims[n++] = 0;
            }
        }
        return n == r + 1 && dims[0] == 0 && n < 3 ? NULL
                                                   : OP(m, "Reshape", "", x, ints(m, n, dims));
    default: /* join the last two */
        if (r < 2)
            return NULL;
        for (int a = 0; a < r - 2; a++)
            dims[n++] = 0;
        dims[n++] = -1;
        return OP(m, "Reshape", "", x, ints(m, n, dims));
    }
}

static inline cm_value *step_move(maker *m)
{
    cm_value *x = pick(m, numeric), *y;
    int r = cm_rank(x);
    if (r < 1)
        return NULL;
    int a = draw(m, r);
    switch (draw(m, 12)) {
    case 0:
    case 1:
        return transpose(m, x);
    case 2:
    case 3:
        return reshape(m, x);
    case 4:
        y = chance(m, 50) ? pick_like(m, x) : x;
        return y ? make(m, "Concat",
                        a == 0   ? "axis=0"
                        : a == 1 ? "axis=1"
                                 : "axis=-1",
                        (cm_value *[]){x, y, x}, 2 + chance(m, 20))
                 : NULL;
    case 5: {
        cm_node *n =
            node(m, "Split", a == 0 ? "axis=0 num_outputs=2" : "axis=-1 num_outputs=2", &x, 1, 2);
        if (n)
            keep(m, n->out[0]);
        if (n && chance(m, 40))
            return OP(m, "Concat", a == 0 ? "axis=0" : "axis=-1", n->out[draw(m, 2)], n->out[1]);
        return n ? n->out[1] : NULL;
    }
    case 6:
        return OP(m, "Slice", "", x, INTS(m, draw(m, 2)),
                  INTS(m, chance(m, 60) ? INT64_MAX : 2 + draw(m, 3)), INTS(m, a),
                  INTS(m, 1 + chance(m, 20)));
    case 7:
        return chance(m, 50) ? OP(m, "Gather", a ? "axis=-1" : "axis=0", x, one_int(m, 0))
                             : OP(m, "Gather", a ? "axis=-1" : "axis=0", x, INTS(m, 0, -1, 0));
    case 8: {
        int64_t pads[12] = {0};
        pads[draw(m, 2 * r > 12 ? 12 : 2 * r)] = draw(m, 2);
        return r <= 6 ? OP(m, "Pad", ONE_OF(m, "", "", "mode=edge"), x, ints(m, 2 * r, pads)) : NULL;
    }
    case 9:
        return OP(m, "Expand", "", x, INTS(m, 2, 1, 1));
    case 10:
        y = transpose(m, x);
        return chance(m, 70) ? transpose(m, chance(m, 50) ? OP(m, "Neg", "", mid(m, y)) : y) : y;
    default:
        y = reshape(m, x);
        return reshape(m, mid(m, y));
    }
}

/* Sizes computed from a shape, to reshape or expand by. */
static inline cm_value *step_shape(maker *m)
{
    cm_value *x = pick(m, any_float);
    int r = cm_rank(x);
    if (r < 1)
        return NULL;
    cm_value *s = mid(m, OP(m, "Shape", "", x));
    cm_value *d = OP(m, "Gather", "", s, one_int(m, chance(m, 70) ? 0 : r - 1));
    cm_value *u = OP(m, "Unsqueeze", "", d, INTS(m, 0));
    switch (draw(m, 6)) {
    case 0:
        return OP(m, "Reshape", "", x, OP(m, "Concat", "axis=0", u, INTS(m, -1)));
    case 1:
        return OP(m, "Reshape", "", x, OP(m, "Concat", "axis=0", INTS(m, -1), u));
    case 2:
        return OP(m, "Reshape", "", transpose(m, x), s);
    case 3: {
        cm_value *e = OP(m, "Slice", "", s, INTS(m, 0), INTS(m, r - 1));
        cm_value *k = OP(m, "Mul", "", OP(m, "Slice", "", s, INTS(m, r - 1), INTS(m, r)),
                         INTS(m, 1 + draw(m, 2)));
        return OP(m, "Expand", "", x, OP(m, "Concat", "axis=0", e, k));
    }
    case 4:
        return OP(m, "Mul", "", x,
                  OP(m, "Sqrt", "", text_op(m, "Cast", d, "to=%d", x->type.dtype)));
    default:
        return OP(m, "Reshape", "", x,
                  OP(m, "Concat", "axis=0", OP(m, "Div", "", u, INTS(m, 1)), INTS(m, 1, -1)));
    }
}

static inline cm_value *step_reduce(maker *m)
{
    cm_value *x = pick(m, any_float);
    int r = cm_rank(x);
    if (r < 1)
        return NULL;
    const char *op = ONE_OF(m, "ReduceMean", "ReduceSum", "ReduceMax", "ReduceL2",
                            "ReduceSumSquare", "ReduceMean");
    const char *k = chance(m, 50) ? "keepdims=0" : "";
    return chance(m, 85) ? OP(m, op, k, x, INTS(m, chance(m, 50) ? -1 : draw(m, r)))
                         : OP(m, op, k, x);
}

static inline cm_value *matmul_bias(maker *m, cm_value *x, int64_t out)
{
    int64_t k = size_of(x, -1);
    if (!k || !cm_is_float(x) || cm_rank(x) < 2)
        return NULL;
    cm_dtype t = x->type.dtype;
    cm_value *y = chance(m, 85) ? OP(m, "MatMul", "", x, WEIGHT(m, t, k, out))
                                : OP(m, "MatMul", "", x,
                                     OP(m, "Transpose", "perm=1,0", WEIGHT(m, t, out, k)));
                                if (chance(m, 60))
                                    y = commute(m, "Add", mid(m, y),
                                                chance(m, 90) ? WEIGHT(m, t, out)
                                                              : scalar(m, x, 1));
                                return y;
}

static inline cm_value *step_product(maker *m)
{
    cm_value *x = pick(m, any_float), *y;
    int64_t k = size_of(x, -1);
    switch (draw(m, 5)) {
    case 0:
        if (cm_rank(x) != 2 || !k)
            return NULL;
        return chance(m, 50)
            ? OP(m, "Gemm", ONE_OF(m, "transB=1", "transB=1 alpha=0.5", "transB=1 beta=2"), x,
                 WEIGHT(m, x->type.dtype, 3, k), WEIGHT(m, x->type.dtype, 3))
                             : OP(m, "Gemm", "", x, WEIGHT(m, x->type.dtype, k, 2));
    case 1: /* a batch of products of two computed things */
        y = pick_like(m, x ? x : m->pool[0]);
        if (cm_rank(y) < 2 || cm_rank(y) > 5)
            return NULL;
        return OP(m, "MatMul", "", x,
                  OP(m, "Transpose",
                     ((const char *[]){"perm=1,0", "perm=0,2,1", "perm=0,1,3,2",
                                       "perm=0,1,2,4,3"})[cm_rank(y) - 2],
                     y));
    case 2:
        return matmul_bias(m, matmul_bias(m, x, 3), 4);
    default:
        y = matmul_bias(m, x, 1 + draw(m, 5));
        return chance(m, 50) ? OP(m, ONE_OF(m, "Relu", "Sigmoid", "Gelu"), "", mid(m, y)) : y;
    }
}

static inline cm_value *batch_norm(maker *m, cm_value *y)
{
    int64_t c = size_of(y, 1);
    if (!c || y->type.dtype != CM_F32)
        return NULL;
    cm_value *var = OP(m, "Add", "", OP(m, "Abs", "", WEIGHT(m, CM_F32, c)), scalar(m, y, 0.5));
    return OP(m, "BatchNormalization", ONE_OF(m, "", "epsilon=0.001"), y, WEIGHT(m, CM_F32, c),
              WEIGHT(m, CM_F32, c), WEIGHT(m, CM_F32, c), var);
}

static inline cm_value *step_conv(maker *m)
{
    cm_value *x = pick(m, f32_only), *y;
    int64_t c = size_of(x, 1), out = 1 + draw(m, 4);
    int r = cm_rank(x);
    if (!c || r < 3 || r > 4)
        return NULL;
    int64_t k = chance(m, 50) ? 1 : 3;
    char attrs[64];
    snprintf(attrs, sizeof attrs, k == 3 ? (r == 4 ? "pads=1,1,1,1" : "pads=1,1") : "");
    bool deep = chance(m, 25);
    if (deep)
        sprintf(attrs + strlen(attrs), " group=%d", (int)(out = c));
    int64_t dims[4] = {out, deep ? 1 : c, k, k};
    const char *op = "Conv";
    if (!deep && chance(m, 15)) {
        op = "ConvTranspose";
        dims[0] = c;
        dims[1] = out;
    }
    cm_value *w = weight(m, CM_F32, r, dims);
    if (chance(m, 15)) /* a pad that the convolution could do itself */
        x = OP(m, "Pad", ONE_OF(m, "", "", "mode=reflect"), x,
               r == 4 ? INTS(m, 0, 0, 1, chance(m, 50), 0, 0, 1, 1) : INTS(m, 0, 0, 1, 0, 0, 1));
    y = chance(m, 50) ? OP(m, op, attrs, x, w) : OP(m, op, attrs, x, w, WEIGHT(m, CM_F32, out));
    if (chance(m, 40))
        y = batch_norm(m, mid(m, y));
    if (chance(m, 25) && y)
        y = commute(m, ONE_OF(m, "Mul", "Add"), mid(m, y),
                    r == 4 ? WEIGHT(m, CM_F32, size_of(y, 1) ? size_of(y, 1) : 1, 1, 1)
                           : constant_for(m, y));
    if (chance(m, 30) && y)
        y = commute(m, "Add", mid(m, y), pick_like(m, y));
    return chance(m, 60) ? OP(m, ONE_OF(m, "Relu", "Sigmoid", "HardSwish", "Relu"), "", y) : y;
}

static inline cm_value *step_pool(maker *m)
{
    cm_value *x = pick(m, f32_only);
    int r = cm_rank(x);
    if (r < 3 || r > 4)
        return NULL;
    switch (draw(m, 5)) {
    case 0:
        return OP(m, ONE_OF(m, "GlobalAveragePool", "GlobalMaxPool"), "", x);
    case 1:
        return batch_norm(m, x);
    case 2:
        return !size_of(x, 1)
                   ? NULL
                   : OP(m, "InstanceNormalization", "", x, WEIGHT(m, CM_F32, size_of(x, 1)),
                        WEIGHT(m, CM_F32, size_of(x, 1)));
    default:
        return OP(m, ONE_OF(m, "MaxPool", "AveragePool"),
                  r == 4 ? ONE_OF(m, "kernel_shape=2,2", "kernel_shape=1,1",
                                  "kernel_shape=2,2 pads=1,1,0,0 count_include_pad=0")
                         : "kernel_shape=2",
                  x);
    }
}

static inline cm_value *step_normal(maker *m)
{
    cm_value *x = pick(m, any_float);
    int64_t c = size_of(x, -1);
    switch (draw(m, 4)) {
    case 0:
        return c ? OP(m, "LayerNormalization", "", x, WEIGHT(m, x->type.dtype, c),
                      WEIGHT(m, x->type.dtype, c))
                 : NULL;
    case 1:
        return OP(m, "LogSoftmax", "", x);
    default:
        return OP(m, "Softmax", ONE_OF(m, "", "", "axis=1", "axis=0"), x);
    }
}

/* ---- Patterns ------------------------------------------------------------------------------- */

static inline cm_value *pattern_layer_norm(maker *m)
{
    cm_value *x = pick(m, any_float), *x0 = x;
    int r = cm_rank(x);
    if (r < 1)
        return NULL;
    bool casts = chance(m, 25);
    if (casts)
        x = mid(m, text_op(m, "Cast", x, "to=%d", CM_F32));
    int64_t axis = chance(m, 80) ? -1 : draw(m, r), axis2 = chance(m, 92) ? axis : 0;
    const char *keepdims = chance(m, 95) ? "" : "keepdims=0";
    bool rms = chance(m, 35);
    cm_value *mean = mid(m, OP(m, "ReduceMean", keepdims, x, INTS(m, axis)));
    cm_value *d =
        rms ? x : mid(m, chance(m, 95) ? OP(m, "Sub", "", x, mean) : OP(m, "Sub", "", mean, x));
    if (!d)
        return NULL;
    cm_value *two = scalar(m, d, chance(m, 95) ? 2 : 4);
    cm_value *sq = mid(m, chance(m, 60) ? OP(m, "Pow", "", d, two) : OP(m, "Mul", "", d, d));
    cm_value *var =
        mid(m, OP(m, "ReduceMean", chance(m, 97) ? "" : "keepdims=0", sq, INTS(m, axis2)));
    static const double epsilons[] = {1e-3, 1e-2, 0.05, 0.1};
    bool narrow =
        casts || x->type.dtype == CM_F16; /* of what is nearly constant, roundings remain */
    cm_value *e = commute(m, "Add", var, scalar(m, d, epsilons[narrow ? 3 : draw(m, 4)]));
    cm_value *s =
        mid(m, chance(m, 90) ? OP(m, "Sqrt", "", e) : OP(m, "Pow", "", e, scalar(m, d, 0.5)));
    cm_value *y = chance(m, 60) ? OP(m, "Div", "", d, s)
                                : commute(m, "Mul", d,
                                          chance(m, 50) ? OP(m, "Reciprocal", "", s)
                                                        : OP(m, "Div", "", scalar(m, d, 1), s));
                                if (casts)
                                    y = text_op(m, "Cast", mid(m, y), "to=%d",
                                                chance(m, 80) ? (int)x0->type.dtype : CM_F16);
                                if (y && chance(m, 80))
                                    y = commute(m, "Mul", mid(m, y), constant_for(m, y));
                                if (y && !rms && chance(m, 80))
                                    y = commute(m, "Add", mid(m, y), constant_for(m, y));
                                return y;
}

static inline cm_value *pattern_gelu(maker *m)
{
    cm_value *x = pick(m, any_float);
    if (!x)
        return NULL;
    cm_value *half = scalar(m, x, chance(m, 95) ? 0.5 : 0.25), *t;
    if (chance(m, 50)) {
        t = chance(m, 60)
            ? OP(m, "Div", "", x, scalar(m, x, chance(m, 95) ? 1.4142135381698608 : 1.5))
                          : commute(m, "Mul", x, scalar(m, x, 0.7071067690849304));
                          t = OP(m, "Erf", "", mid(m, t));
    } else {
        cm_value *cube = chance(m, 50) ? OP(m, "Pow", "", x, scalar(m, x, 3))
                                       : OP(m, "Mul", "", x, OP(m, "Mul", "", x, x));
                                       t = commute(m, "Mul", mid(m, cube),
                                                   scalar(m, x, chance(m, 95) ? 0.044715 : 0.05));
                                       t = commute(m, "Mul", commute(m, "Add", x, t),
                                                   scalar(m, x, 0.7978845608));
                                       t = OP(m, "Tanh", "", mid(m, t));
    }
    t = mid(m, commute(m, "Add", t, scalar(m, x, chance(m, 97) ? 1 : 2)));
    switch (draw(m, 3)) {
    case 0:
        return commute(m, "Mul", commute(m, "Mul", x, t), half);
    case 1:
        return commute(m, "Mul", mid(m, commute(m, "Mul", x, half)), t);
    default:
        return commute(m, "Mul", x, commute(m, "Mul", t, half));
    }
}

static inline cm_value *pattern_gate(maker *m)
{
    cm_value *x = pick(m, any_float), *s;
    if (!x)
        return NULL;
    switch (draw(m, 6)) {
    case 0:
        return commute(
            m, "Mul", x,
            OP(m, "HardSigmoid", ONE_OF(m, "alpha=0.16666667163372", "alpha=0.2 beta=0.5"), x));
    case 1:
        return commute(m, "Mul", x, OP(m, "Tanh", "", OP(m, "Softplus", "", x)));
    case 2: /* hard swish in pieces */
        s = OP(m, "Clip", "", commute(m, "Add", x, scalar(m, x, 3)), scalar(m, x, 0),
               scalar(m, x, 6));
        return chance(m, 50) ? OP(m, "Div", "", commute(m, "Mul", x, s), scalar(m, x, 6))
                             : commute(m, "Mul", x, OP(m, "Div", "", mid(m, s), scalar(m, x, 6)));
    case 3: /* SwiGLU: halves of one product */
    {
        cm_value *y = size_of(x, -1) ? matmul_bias(m, x, 4) : NULL;
        cm_node *n = y ? node(m, "Split", "axis=-1 num_outputs=2", &y, 1, 2) : NULL;
        return n ? commute(m, "Mul", n->out[1],
                           OP(m, "Mul", "", n->out[0], OP(m, "Sigmoid", "", n->out[0])))
                 : NULL;
    }
    case 4:
        return commute(m, "Mul", x,
                       OP(m, "Sigmoid", "", commute(m, "Mul", x, scalar(m, x, 1.702))));
    default:
        s = OP(m, "Sigmoid", "", chance(m, 92) ? x : pick_like(m, x));
        return commute(m, "Mul", x, mid(m, s));
    }
}

static inline cm_value *pattern_softmax(maker *m)
{
    cm_value *x = pick(m, any_float);
    int r = cm_rank(x);
    if (r < 1)
        return NULL;
    int64_t a = chance(m, 80) ? -1 : draw(m, r), b = chance(m, 93) ? a : 0;
    cm_value *top = OP(m, "ReduceMax", "", x, INTS(m, a));
    cm_value *e = mid(m, OP(m, "Exp", "", OP(m, "Sub", "", x, top)));
    return OP(m, "Div", "", e, OP(m, "ReduceSum", "", e, INTS(m, b)));
}

static inline cm_value *heads(maker *m, cm_value *x, bool transposed)
{
    cm_value *h =
        OP(m, "Reshape", "", x, chance(m, 80) ? INTS(m, 0, 0, 2, 2) : INTS(m, 0, -1, 2, 2));
    return OP(m, "Transpose", transposed ? "perm=0,2,3,1" : "perm=0,2,1,3", mid(m, h));
}

/* Q, K, V from one thing; scaled, masked, softmax; back. */
static inline cm_value *pattern_attention(maker *m)
{
    cm_value *x = NULL, *q, *k, *v;
    for (int i = 0; i < 10 && (cm_rank(x) != 3 || !size_of(x, -1)); i++)
        x = pick(m, any_float);
    if (cm_rank(x) != 3)
        return NULL;
    if (chance(m, 40)) { /* one product, split in three */
        cm_value *all = matmul_bias(m, x, 12);
        cm_node *n = all ? node(m, "Split", "axis=-1 num_outputs=3", &all, 1, 3) : NULL;
        if (!n)
            return NULL;
        q = n->out[0];
        k = n->out[1];
        v = n->out[chance(m, 95) ? 2 : 0];
    } else {
        q = matmul_bias(m, x, 4);
        k = matmul_bias(m, chance(m, 90) ? x : pick_like(m, x), 4);
        v = matmul_bias(m, x, chance(m, 90) ? 4 : 8);
    }
    q = heads(m, q, false);
    if (q && chance(m, 30))
        q = commute(m, "Mul", q, scalar(m, q, 0.70710678));
    bool direct = chance(m, 60);
    k = heads(m, k, direct);
    if (!direct)
        k = OP(m, "Transpose", chance(m, 95) ? "perm=0,1,3,2" : "perm=0,1,2,3", mid(m, k));
    cm_value *s = mid(m, OP(m, "MatMul", "", q, k));
    if (s && chance(m, 60))
        s = chance(m, 60) ? OP(m, "Div", "", s, scalar(m, s, 1.4142135))
                          : commute(m, "Mul", s, scalar(m, s, 0.70710678));
                          if (s && chance(m, 25))
                              s = commute(m, "Add", mid(m, s), constant_for(m, s));
                          cm_value *p =
                              mid(m, OP(m, "Softmax", chance(m, 95) ? "axis=-1" : "axis=1", s));
                          cm_value *o = OP(m, "MatMul", "", p, heads(m, v, false));
                          if (chance(m, 5))
                              return o;
                          o = OP(m, "Transpose", "perm=0,2,1,3", mid(m, o));
                          return OP(m, "Reshape", "", o, INTS(m, 0, 0, -1));
}

static inline cm_value *pattern_residual(maker *m)
{
    cm_value *x = pick(m, f32_only);
    int64_t c = size_of(x, -1);
    if (!c || cm_rank(x) < 2)
        return NULL;
    cm_value *y = commute(m, "Add", x, matmul_bias(m, x, c));
    if (y && chance(m, 60))
        y = OP(m, "LayerNormalization", chance(m, 80) ? "" : "axis=-2", mid(m, y),
               WEIGHT(m, CM_F32, c), WEIGHT(m, CM_F32, c));
    return y;
}

/* The same thing twice, or twice almost. */
static inline cm_value *pattern_twice(maker *m)
{
    cm_value *x = pick(m, f32_only);
    if (!x)
        return NULL;
    const char *op = ONE_OF(m, "Softmax", "Relu", "Tanh", "LeakyRelu");
    cm_value *a = OP(m, op, "", x);
    cm_value *b = OP(m, op, strcmp(op, "Softmax") || chance(m, 50) ? "" : "axis=0", x);
    return commute(m, ONE_OF(m, "Add", "Mul", "Sub"), mid(m, a), b);
}

static inline cm_value *pattern_algebra(maker *m)
{
    static const double numbers[] = {0, 1, 2, -1, 0.5};
    cm_value *x = pick(m, any_float);
    for (int i = 0; x && i < 2 + draw(m, 3); i++)
        x = mid(m, chance(m, 20) ? OP(m, "Div", "", x, scalar(m, x, numbers[1 + draw(m, 4)]))
                                 : commute(m, ONE_OF(m, "Add", "Mul", "Sub"), x,
                                           scalar(m, x, numbers[1 + draw(m, 4)])));
    return x && chance(m, 30) ? OP(m, "Add", "", x, scalar(m, x, 0)) : x;
}

/* A tensor through eight bits and back, with the scale and zero point of constants. */
static inline cm_value *through_bytes(maker *m, cm_value *x, cm_dtype t, double scale)
{
    cm_value *zero = NULL, *s = NULL;
    if (!x || x->type.dtype != CM_F32 ||
        cm_make_scalar(m->cx, m->g, NULL, CM_F32, scale, &s) != CM_OK ||
        cm_make_scalar(m->cx, m->g, NULL, t, t == CM_U8 ? 128 : 0, &zero) != CM_OK)
        return NULL;
    cm_value *q = OP(m, "QuantizeLinear", "", x, s, zero);
    return OP(m, "DequantizeLinear", "", mid(m, q), s, zero);
}

static inline cm_value *pattern_quantised(maker *m)
{
    cm_value *x = pick(m, f32_only), *y;
    int64_t k = size_of(x, -1), c = size_of(x, 1);
    cm_dtype t = chance(m, 50) ? CM_U8 : CM_I8;
    cm_value *a = through_bytes(m, x, t, 0.037);
    switch (draw(m, 4)) {
    case 0:
        y = k && cm_rank(x) >= 2
            ? OP(m, "MatMul", "", a, through_bytes(m, WEIGHT(m, CM_F32, k, 3), CM_I8, 0.013))
                : NULL;
                break;
    case 1:
        y = c && cm_rank(x) == 4
            ? OP(m, "Conv", "", a, through_bytes(m, WEIGHT(m, CM_F32, 2, c, 1, 1), CM_I8, 0.013))
                : NULL;
                break;
    case 2:
        y = OP(m, "Add", "", a, through_bytes(m, pick_like(m, x ? x : m->pool[0]), t, 0.041));
        break;
    default:
        y = OP(m, ONE_OF(m, "Relu", "Sigmoid", "Identity"), "", a);
    }
    return chance(m, 60) ? through_bytes(m, mid(m, y), t, 0.093) : y;
}

/* Rows over their length; groups of channels; halves turned and put back. */
static inline cm_value *pattern_norms(maker *m)
{
    cm_value *x = pick(m, f32_only), *n;
    int64_t c = size_of(x, 1), k = size_of(x, -1);
    if (!x)
        return NULL;
    switch (draw(m, 4)) {
    case 0:
        n = OP(m, "ReduceL2", "", x, INTS(m, chance(m, 80) ? -1 : 0));
        n = chance(m, 50) ? OP(m, "Clip", "", n, scalar(m, x, 1e-3), ABSENT)
                          : commute(m, "Add", n, scalar(m, x, 0.1));
                          return OP(m, "Div", "", x, mid(m, n));
    case 1:
        if (cm_rank(x) != 4 || c % 2 || !c)
            return NULL;
        n = OP(m, "Reshape", "", x, INTS(m, 0, 2, -1));
        n = OP(m, "InstanceNormalization", "epsilon=0.01", n,
               chance(m, 90) ? OP(m, "Div", "", WEIGHT(m, CM_F32, 2), WEIGHT(m, CM_F32, 2))
                             : ABSENT,
               WEIGHT(m, CM_F32, 2));
        n = OP(m, "Reshape", "", mid(m, n), OP(m, "Shape", "", x));
        n = commute(m, "Mul", n, WEIGHT(m, CM_F32, c, 1, 1));
        return commute(m, "Add", mid(m, n), WEIGHT(m, CM_F32, c, 1, 1));
    case 2: {
        cm_node *h = k && k % 2 == 0 ? node(m, "Split", "axis=-1 num_outputs=2", &x, 1, 2) : NULL;
        if (!h)
            return NULL;
        n = OP(m, "Concat", "axis=-1", OP(m, "Neg", "", h->out[1]), h->out[0]);
        n = commute(m, "Mul", mid(m, n), WEIGHT(m, CM_F32, k));
        return commute(m, "Add", commute(m, "Mul", x, WEIGHT(m, CM_F32, k)), n);
    }
    default:
        return k ? OP(m, "com.microsoft.SkipLayerNormalization", "epsilon=0.01", x, pick_like(m, x),
                      WEIGHT(m, CM_F32, k), WEIGHT(m, CM_F32, k))
                 : NULL;
    }
}

/* Operators that others fused already. */
static inline cm_value *pattern_fused(maker *m)
{
    cm_value *x = pick(m, f32_only);
    int64_t c = size_of(x, 1), k = size_of(x, -1);
    switch (draw(m, 5)) {
    case 0:
        return k && cm_rank(x) >= 2
            ? OP(m, "com.microsoft.FusedMatMul",
                 ONE_OF(m, "alpha=0.5", "transB=1 alpha=2", "transB=1"), x,
                 chance(m, 50) ? WEIGHT(m, CM_F32, 4, k) : WEIGHT(m, CM_F32, k, 4))
                   : NULL;
    case 1:
        return c && cm_rank(x) == 4
            ? OP(m, "com.microsoft.FusedConv", ONE_OF(m, "activation=Relu", "activation=Tanh"), x,
                 WEIGHT(m, CM_F32, 2, c, 1, 1), WEIGHT(m, CM_F32, 2))
                   : NULL;
    case 2:
        return c && cm_rank(x) == 4
            ? OP(m, "Conv",
                 ONE_OF(m, "auto_pad=SAME_UPPER", "auto_pad=SAME_LOWER strides=2,2",
                        "auto_pad=VALID"),
                 x, WEIGHT(m, CM_F32, 2, c, 2, 2))
                   : NULL;
    case 3:
        return OP(
            m, ONE_OF(m, "com.microsoft.QuickGelu", "com.microsoft.Gelu", "com.microsoft.FastGelu"),
            "", x);
    default: {
        cm_node *q = x ? node(m, "DynamicQuantizeLinear", "", &x, 1, 3) : NULL;
        cm_value *w = NULL;
        int64_t dims[2] = {k, 3};
        double v[64 * 3];
        if (!q || !k || cm_rank(x) < 2)
            return NULL;
        for (int i = 0; i < k * 3; i++)
            v[i] = draw(m, 255) - 127;
        if (cm_make_const_f64(m->cx, m->g, NULL, CM_I8, 2, dims, v, &w) != CM_OK)
            abort();
        cm_value *y = OP(m, "MatMulInteger", "", q->out[0], w, q->out[2]);
        y = text_op(m, "Cast", mid(m, y), "to=%d", CM_F32);
        return commute(m, "Mul", y, commute(m, "Mul", q->out[1], scalar(m, x, 0.01)));
    }
    }
}

/* ---- Networks in nodes ---------------------------------------------------------------------- */

static cm_value *random_step(maker *m);

static inline cm_network *nested(maker *m)
{
    cm_network *g;
    if (cm_network_nested(m->cx, m->g, "inner", &g) != CM_OK)
        abort();
    return g;
}

/* v after a few steps that keep its type. */
static inline cm_value *same_type_steps(maker *m, cm_value *v)
{
    for (int i = 0, k = 1 + draw(m, 3); i < k; i++) {
        cm_value *y = chance(m, 50) ? OP(m, ONE_OF(m, "Relu", "Tanh", "Neg", "Identity"), "", v)
                                    : OP(m, ONE_OF(m, "Add", "Mul"), "", v, scalar(m, v, 0.5));
                                    if (y && cm_same_shape(y, v))
                                        v = y;
    }
    return v;
}

static inline cm_value *step_if(maker *m)
{
    cm_network *outer = m->g, *subs[2];
    cm_value *v = pick(m, any_float), *c = NULL, *in;
    cm_node *n;
    for (int i = 0; i < m->n && !c; i++)
        if (boolean(m->pool[i]) && cm_rank(m->pool[i]) == 0)
            c = m->pool[i];
    if (!c && chance(m, 50) && cm_make_scalar(m->cx, m->g, NULL, CM_BOOL, draw(m, 2), &c) != CM_OK)
        abort();
    if (!v || !c || m->depth > 1)
        return NULL;
    m->depth++;
    for (int i = 0; i < 2; i++) {
        int before = m->n;
        m->g = subs[i] = nested(m);
        m->g->outer = outer;
        if (chance(m, 40))
            random_step(m);
        in = same_type_steps(m, v);
        if (in == v)
            in = OP(m, "Identity", "", v);
        if (!in || cm_network_add_output(m->cx, m->g, in, NULL) != CM_OK)
            abort();
        m->n = before; /* nothing outside sees inside */
        m->g = outer;
    }
    m->depth--;
    if (cm_network_add_node(m->cx, outer, NULL, cm_op_builtin(CM_OP_IF), NULL, NULL, &c, 1, NULL, 1,
                            &n) != CM_OK ||
        cm_node_set_subs(m->cx, n, subs, 2) != CM_OK || cm_node_infer(m->cx, n) != CM_OK)
        abort();
    return n->out[0];
}

static inline cm_value *step_loop(maker *m)
{
    cm_network *outer = m->g, *body;
    cm_value *v = pick(m, any_float), *i, *go, *x, *y;
    cm_node *n;
    if (cm_rank(v) < 0 || m->depth > 0)
        return NULL;
    int before = m->n;
    cm_type count = cm_type_tensor(CM_I64, 0, NULL), flag = cm_type_tensor(CM_BOOL, 0, NULL);
    cm_value *in[3] = {one_int(m, 1 + draw(m, 3)), NULL, v};
    m->depth++;
    m->g = body = nested(m);
    if (cm_network_add_input(m->cx, body, "i", &count, &i) != CM_OK ||
        cm_network_add_input(m->cx, body, "go", &flag, &go) != CM_OK ||
        cm_network_add_input(m->cx, body, "x", &v->type, &x) != CM_OK)
        abort();
    keep(m, x);
    if (chance(m, 50))
        random_step(m);
    y = same_type_steps(m, x);
    go = OP(m, "Identity", "", go);
    if (cm_network_add_output(m->cx, body, go, NULL) != CM_OK ||
        cm_network_add_output(m->cx, body, y, NULL) != CM_OK)
        abort();
    m->n = before;
    m->g = outer;
    m->depth--;
    if (cm_network_add_node(m->cx, outer, NULL, cm_op_builtin(CM_OP_LOOP), NULL, NULL, in, 3, NULL,
                            1, &n) != CM_OK ||
        cm_node_set_subs(m->cx, n, &body, 1) != CM_OK || cm_node_infer(m->cx, n) != CM_OK)
        abort();
    return n->out[0];
}

/* ---- All of it ------------------------------------------------------------------------------ */

static cm_value *random_step(maker *m)
{
    static cm_value *(*const steps[])(maker *) = {
        step_unary,         step_unary,    step_binary,     step_binary,       step_binary,
        step_where,         step_cast,     step_move,       step_move,         step_move,
        step_shape,         step_reduce,   step_product,    step_product,      step_conv,
        step_conv,          step_pool,     step_normal,     step_if,           step_loop,
        pattern_layer_norm, pattern_gelu,  pattern_gate,    pattern_softmax,   pattern_attention,
        pattern_residual,   pattern_twice, pattern_algebra, pattern_quantised, pattern_norms,
        pattern_fused,
    };
    return keep(m, steps[draw(m, CM_COUNT(steps))](m));
}

static inline void random_inputs(maker *m)
{
    static const int64_t sizes[] = {1, 2, 3, 4, 4, 6, 8};
    static const cm_dtype types[] = {CM_F32, CM_F32, CM_F32, CM_F32, CM_F32, CM_F16, CM_I64};
    m->rank = 1 + draw(m, 4);
    bool symbols = chance(m, 50);
    for (int a = 0; a < m->rank; a++) {
        m->dims[a] = sizes[draw(m, CM_COUNT(sizes))];
        if (symbols && chance(m, a == 0 ? 70 : 20))
            m->dims[a] = cm_dim_symbol(m->g->dims, a == 0 ? "b" : a == 1 ? "s" : "t", CM_DIM_SIZE);
    }
    int n = 1 + draw(m, 3);
    for (int i = 0; i < n; i++) {
        cm_type t = cm_type_tensor(types[draw(m, CM_COUNT(types))], m->rank, m->dims);
        for (int a = 0; i > 0 && a < m->rank; a++)
            if (chance(m, 12))
                t.dims[a] = 1;
        cm_value *v;
        char name[16];
        snprintf(name, sizeof name, "in%d", i);
        if (cm_network_add_input(m->cx, m->g, name, &t, &v) != CM_OK)
            abort();
        keep(m, v);
    }
    if (chance(m, 30)) {
        cm_type t = cm_type_tensor(CM_BOOL, 0, NULL);
        cm_value *v;
        if (cm_network_add_input(m->cx, m->g, "flag", &t, &v) != CM_OK)
            abort();
        keep(m, v);
    }
    m->n_inputs = m->n;
}

/* The network of that seed, typed. */
static inline cm_network *random_network(cm_ctx *cx, cm_arena *arena, uint64_t seed)
{
    maker m = {.cx = cx, .state = seed * 0x632be59bd9b4e019u + 1};
    if (cm_network_create(cx, arena, "random", &m.g) != CM_OK)
        abort();
    random_inputs(&m);
    for (int i = 0, n = 2 + draw(&m, 14); i < n; i++)
        random_step(&m);
    int made = 0;
    for (int i = m.n - 1; i >= m.n_inputs && made < 6; i--)
        if (m.pool[i]->n_uses == 0 ? chance(&m, 85) : chance(&m, 6)) {
            char name[16];
            snprintf(name, sizeof name, "out%d", made++);
            if (cm_network_add_output(cx, m.g, m.pool[i], name) != CM_OK)
                abort();
        }
    if (!made && cm_network_add_output(cx, m.g, m.pool[m.n - 1], "out0") != CM_OK)
        abort();
    return m.g;
}

#endif
