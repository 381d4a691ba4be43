/* random_patterns.h -- what the optimiser looks for, and what almost looks like it.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_TESTS_FAULT_RANDOM_PATTERNS_H
#define CM_TESTS_FAULT_RANDOM_PATTERNS_H

#include "fault/random_operators.h"

/* ---- Composites in their pieces ------------------------------------------------------------- */

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

/* ---- Work on axes, transposed around -------------------------------------------------------- */

static inline cm_value *axis_op(maker *m, cm_value *x)
{
    int r = cm_rank(x), a = r > 0 ? draw(m, r) : 0;
    const char *keep_axis = ONE_OF(m, "keepdims=0", "keepdims=1");
    int64_t pads[12] = {0}, repeats[6] = {1, 1, 1, 1, 1, 1};
    if (r < 1 || r > 6)
        return NULL;
    switch (draw(m, 9)) {
    case 0:
        return OP(m, ONE_OF(m, "ReduceMean", "ReduceSum", "ReduceMax", "ReduceL2"), keep_axis, x,
                  INTS(m, a));
    case 1:
        return OP(m, ONE_OF(m, "ReduceMin", "ReduceSum", "ReduceL1"), keep_axis, x,
                  a ? INTS(m, a, 0) : ABSENT);
    case 2:
        return text_op(m, ONE_OF(m, "ArgMax", "ArgMin"), x,
                       chance(m, 50) ? "axis=%d keepdims=0" : "axis=%d", a - r);
    case 3:
        pads[a] = draw(m, 2);
        pads[r + draw(m, r)] = draw(m, 3);
        return OP(m, "Pad", ONE_OF(m, "", "mode=edge"), x, ints(m, 2 * r, pads));
    case 4:
        return OP(m, "Slice", "", x, INTS(m, draw(m, 2)), INTS(m, 1 + draw(m, 3)),
                  chance(m, 70) ? INTS(m, a) : ABSENT);
    case 5:
        repeats[a] = 2;
        return OP(m, "Tile", "", x, ints(m, r, repeats));
    case 6:
        return make(m, "Gather",
                    a == 0   ? "axis=0"
                    : a == 1 ? "axis=1"
                             : "axis=-1",
                    (cm_value *[]){x, chance(m, 50) ? one_int(m, 0) : INTS(m, 0, -1)}, 2);
    case 7:
        return OP(m, "CumSum", ONE_OF(m, "", "reverse=1"), x, one_int(m, a));
    default: {
        cm_node *n =
            node(m, "Split", a == 0 ? "axis=0 num_outputs=2" : "axis=-1 num_outputs=2", &x, 1, 2);
        return n ? OP(m, "Mul", "", n->out[0], OP(m, "Sigmoid", "", n->out[1])) : NULL;
    }
    }
}

static inline cm_value *pattern_axes(maker *m)
{
    cm_value *x = transpose(m, pick(m, any_float));
    for (int i = 0, n = 1 + draw(m, 3); i < n && x; i++)
        x = chance(m, 30) ? OP(m, ONE_OF(m, "Relu", "Neg", "Abs"), "", mid(m, x))
                          : axis_op(m, mid(m, x));
                          if (x && chance(m, 30) && cm_is_float(x) && size_of(x, -1))
                              x = OP(m, "Add", "", x, WEIGHT(m, x->type.dtype, size_of(x, -1)));
                          return chance(m, 70) ? transpose(m, x) : x;
}

/* Slices of slices, from either end and in either direction; every second pixel as channels. */
static inline cm_value *pattern_slices(maker *m)
{
    cm_value *x = pick(m, numeric), *part[4];
    int r = cm_rank(x);
    if (r < 1)
        return NULL;
    if (r == 4 && chance(m, 60)) {
        int first = draw(m, 4);
        for (int i = 0; i < 4; i++) {
            int k = (first + (chance(m, 90) ? i : draw(m, 4))) % 4;
            part[i] = OP(m, "Slice", "", x, INTS(m, k / 2, k % 2), INTS(m, INT64_MAX, INT64_MAX),
                         INTS(m, 2, 3), INTS(m, 2, 2));
        }
        return make(m, "Concat", "axis=1", part, 4);
    }
    for (int i = 0, n = 2 + chance(m, 30); i < n && x; i++) {
        bool back = chance(m, 20);
        static const int64_t starts[2][3] = {{0, 1, -3}, {-1, -2, 3}};
        static const int64_t ends[2][3] = {{INT64_MAX, -1, 3}, {0, INT64_MIN, -4}};
        int64_t start = starts[back][draw(m, 3)], end = ends[back][draw(m, 3)];
        int64_t step = 1 + chance(m, 40);
        x = OP(m, "Slice", "", mid(m, x), INTS(m, start), INTS(m, end), INTS(m, draw(m, r)),
               INTS(m, back ? -step : step));
    }
    return x;
}

/* Moved while it is quantised, or between. */
static inline cm_value *pattern_moved(maker *m)
{
    cm_value *x = pick(m, f32_only);
    cm_dtype t = chance(m, 50) ? CM_U8 : CM_I8;
    if (chance(m, 50))
        x = through_bytes(m, x, t, 0.031);
    x = chance(m, 60) ? transpose(m, mid(m, x)) : reshape(m, mid(m, x));
    if (chance(m, 30))
        x = axis_op(m, x);
    return through_bytes(m, x, t, chance(m, 60) ? 0.031 : 0.047);
}

/* A softmax of several axes: flattened around it, or in its pieces. */
static inline cm_value *pattern_flat_softmax(maker *m)
{
    cm_value *x = pick(m, any_float);
    int r = cm_rank(x);
    if (r < 2)
        return NULL;
    if (chance(m, 50)) {
        cm_value *f = text_op(m, "Flatten", x, "axis=%d", draw(m, r));
        return OP(m, "Reshape", "", OP(m, ONE_OF(m, "Softmax", "LogSoftmax"), "", mid(m, f)),
                  OP(m, "Shape", "", x));
    }
    cm_value *axes = INTS(m, r - 2, chance(m, 80) ? r - 1 : 0);
    cm_value *e = OP(m, "Exp", "", OP(m, "Sub", "", x, OP(m, "ReduceMax", "", x, axes)));
    return OP(m, "Div", "", e, OP(m, "ReduceSum", "", mid(m, e), axes));
}

#endif
