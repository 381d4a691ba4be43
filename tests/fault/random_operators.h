/* random_operators.h -- single operators with their attributes, at random.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_TESTS_FAULT_RANDOM_OPERATORS_H
#define CM_TESTS_FAULT_RANDOM_OPERATORS_H

#include "fault/random_network.h"

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

#endif
