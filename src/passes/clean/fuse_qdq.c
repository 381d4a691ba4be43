/* fuse_qdq.c -- a node between DequantizeLinear and QuantizeLinear computes on the integers.
 *
 *     a = DequantizeLinear(x, @xs, @xz)
 *     b = DequantizeLinear(@w, @ws, @wz)
 *     c = Conv(a, b, DequantizeLinear(@bias, @xs*ws))
 *     y = QuantizeLinear(c, @ys, @yz)
 *  becomes
 *     y = QLinearConv(x, @xs, @xz, @w, @ws, @wz, @ys, @yz, @bias)
 *
 * MatMul becomes QLinearMatMul; Gemm, Add, Mul, Concat, Sigmoid, LeakyRelu, Softmax, AveragePool, GlobalAveragePool
 * and Where their com.microsoft forms. A MatMul or Gemm whose result is not quantised becomes MatMulIntegerToFloat. Values of 8 bits, one scale for all elements; weights may have one per output channel.
 * A bias of floats must count in whole units of the sums. Nothing is fused when somebody else reads the result before
 * it is quantised.
 *
 * needs: types, uses, folded scales; folding keeps the weights integers    keeps: types, uses
 * numerics: results may differ by one step of the output's scale, where a sum lies between two
 * SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>

#include "passes/qdq.h"
#include "passes/transposes.h"

enum { MOST_INPUTS = 3 * 64 + 2 };

/* X, then scale and zero point, in the order the integer operators want them. */
static cm_status put(cm_rewriter *rw, const cm_quantised *a, cm_value **in)
{
    in[0] = a->q;
    in[1] = a->scale;
    return cm_zero_point(rw, a, &in[2]);
}

static cm_status put_result(cm_rewriter *rw, const cm_quantised *y, cm_value **in)
{
    in[0] = y->scale;
    return cm_zero_point(rw, y, &in[1]);
}

static bool is_byte(const cm_quantised *a)
{
    return a->q->type.dtype != CM_I32;
}

/* ---- Elementwise, pools, Concat: every operand has one scale -------------------------------- */

static const struct {
    cm_op_id op, as;
} forms[] = {
    {CM_OP_ADD, CM_OP_MS_QLINEAR_ADD},
    {CM_OP_MUL, CM_OP_MS_QLINEAR_MUL},
    {CM_OP_SIGMOID, CM_OP_MS_QLINEAR_SIGMOID},
    {CM_OP_LEAKY_RELU, CM_OP_MS_QLINEAR_LEAKY_RELU},
    {CM_OP_SOFTMAX, CM_OP_MS_QLINEAR_SOFTMAX},
    {CM_OP_AVERAGE_POOL, CM_OP_MS_QLINEAR_AVERAGE_POOL},
    {CM_OP_GLOBAL_AVERAGE_POOL, CM_OP_MS_QLINEAR_GLOBAL_AVERAGE_POOL},
    {CM_OP_CONCAT, CM_OP_MS_QLINEAR_CONCAT},
};

static cm_op_id form_of(const cm_node *n)
{
    for (int i = 0; i < CM_COUNT(forms); i++)
        if (cm_is(n, forms[i].op))
            return forms[i].as;
    return CM_OP_COUNT;
}

static bool pool_fits(const cm_node *n)
{
    if (n->op->id != CM_OP_AVERAGE_POOL)
        return true;
    cm_ints d = cm_int_list(n, "dilations");
    for (int i = 0; i < d.n; i++)
        if (d.v[i] != 1)
            return false;
    return !cm_int(n, "count_overhang");
}

/* Copy the attributes that both operators have. */
static cm_status same_attrs(cm_rewriter *rw, const cm_node *n, cm_op_id as, void **out)
{
    static const char *const names[] = {
        "alpha",  "axis",      "auto_pad",     "ceil_mode", "count_include_pad",
        "group",  "dilations", "kernel_shape", "pads",      "strides",
        "transA", "transB"};
    const cm_attr_desc *to = cm_op_builtin(as)->attrs;
    CM_TRY(cm_new_attr(rw->cx, n->network, as, out));
    for (int i = 0; i < CM_COUNT(names); i++) {
        const cm_attr_field *f = cm_attr_find(n->op->attrs, names[i]),
                            *t = cm_attr_find(to, names[i]);
        if (f && t && cm_attr_has(n->op->attrs, n->attr, names[i]))
            cm_attr_set(to, *out, t, cm_attr_get(n->attr, f));
    }
    if (as == CM_OP_MS_QLINEAR_SOFTMAX)
        return cm_attr_put_int(rw->cx, as, *out, "opset", 13);
    return CM_OK;
}

static cm_status finish(cm_rewriter *rw, cm_node *n, const cm_quantised *y, cm_op_id as,
                        cm_value **in, int n_in)
{
    void *attr;
    cm_node *made;
    CM_TRY(same_attrs(rw, n, as, &attr));
    CM_TRY(cm_make_with(rw, y->node, as, attr, n, in, n_in, 1, &made));
    return cm_replace(rw, y->node, made->out[0], made);
}

static cm_status fuse_plain(cm_rewriter *rw, cm_node *n, cm_op_id as, const cm_quantised *y)
{
    cm_value *in[MOST_INPUTS];
    cm_quantised x;
    bool concat = as == CM_OP_MS_QLINEAR_CONCAT;
    int at = concat ? 2 : 0;
    if (3 * n->n_in + 2 > MOST_INPUTS || !pool_fits(n))
        return CM_OK;
    for (int i = 0; i < n->n_in; i++)
        if (!n->in[i] || !cm_dequantised(n->in[i], &x) || !cm_one_scale(&x) ||
            x.q->type.dtype != y->q->type.dtype)
            return CM_OK;
    if (!cm_rewrite(rw, n))
        return CM_OK;
    for (int i = 0; i < n->n_in; i++, at += 3) {
        if (cm_dequantised(n->in[i], &x))
            CM_TRY(put(rw, &x, in + at));
    }
    CM_TRY(put_result(rw, y, concat ? in : in + at));
    return finish(rw, n, y, as, in, concat ? at : at + 2);
}

/* The condition comes first, and is not quantised. */
static cm_status fuse_where(cm_rewriter *rw, cm_node *n, const cm_quantised *y)
{
    cm_value *in[9] = {n->in[0]};
    cm_quantised a, b;
    if (!cm_dequantised(n->in[1], &a) || !cm_one_scale(&a) || !cm_dequantised(n->in[2], &b) ||
        !cm_one_scale(&b) || a.q->type.dtype != y->q->type.dtype ||
        b.q->type.dtype != y->q->type.dtype)
        return CM_OK;
    if (!cm_rewrite(rw, n))
        return CM_OK;
    CM_TRY(put(rw, &a, in + 1));
    CM_TRY(put(rw, &b, in + 4));
    CM_TRY(put_result(rw, y, in + 7));
    return finish(rw, n, y, CM_OP_MS_QLINEAR_WHERE, in, 9);
}

/* ---- Products and convolutions -------------------------------------------------------------- */

/* One scale, or one per output channel: axis 0 of a convolution's weights, the last of a matrix. */
static bool weights_fit(const cm_node *n, const cm_quantised *w)
{
    int rank = cm_rank(w->q);
    int64_t axis = w->axis < 0 ? w->axis + rank : w->axis;
    if (!is_byte(w))
        return false;
    if (cm_one_scale(w))
        return true;
    int64_t wanted = n->op->id == CM_OP_CONV                          ? 0
                     : n->op->id == CM_OP_GEMM && cm_int(n, "transB") ? 0
                                                                      : 1;
    return (n->op->id == CM_OP_CONV || rank == 2) && axis == wanted && cm_rank(w->scale) == 1;
}

/* Does the bias, an int32 with a scale, count in the unit of the sums? */
static bool bias_counts(const cm_ctx *cx, const cm_quantised *b, const double *unit, int64_t n)
{
    double x;
    (void)cx;
    if (b->q->type.dtype != CM_I32 || !cm_is_const(b->scale) ||
        (b->zero && !cm_is_number(b->zero, 0, 0)))
        return false;
    int64_t k = cm_volume(b->scale);
    if (k != 1 && k != n)
        return false;
    for (int64_t i = 0; i < n; i++) {
        x = cm_get_f64(b->scale->constant->dtype, b->scale->constant->data, k == 1 ? 0 : i);
        if (fabs(x - unit[i]) > 1e-5 * fabs(unit[i]))
            return false;
    }
    return true;
}

/* Scale of the sums per channel: x's times the weights'. */
static cm_status units(cm_ctx *cx, const cm_quantised *x, const cm_quantised *w, int64_t channels,
                       double **out)
{
    const double *ws;
    double xs = 0;
    int64_t k;
    CM_NEW_N(cx, cx->scratch, *out, channels, double);
    if (!cm_splat(x->scale, &xs) || !cm_is_const(w->scale)) {
        *out = NULL;
        return CM_OK;
    }
    CM_TRY(cm_const_f64(cx, w->scale, &ws, &k));
    for (int64_t i = 0; i < channels; i++)
        (*out)[i] = xs * ws[k == channels ? i : 0];
    return CM_OK;
}

/* The bias as int32 in *out: NULL when there is none. *fits: it can be. */
static cm_status find_bias(cm_rewriter *rw, const cm_node *n, const cm_quantised *x,
                           const cm_quantised *w, int64_t channels, cm_value **out, double **values,
                           bool *fits)
{
    cm_value *b = n->n_in > 2 ? n->in[2] : NULL;
    cm_quantised q;
    double *unit;
    const double *v;
    int64_t k;
    *out = NULL;
    *values = NULL;
    *fits = !b;
    if (!b || channels < 0 || cm_rank(b) != 1 || b->type.dims[0] != channels)
        return CM_OK;
    CM_TRY(units(rw->cx, x, w, channels, &unit));
    if (!unit)
        return CM_OK;
    if (cm_dequantised(b, &q)) {
        *fits = bias_counts(rw->cx, &q, unit, channels);
        *out = q.q;
        return CM_OK;
    }
    if (!cm_is_const(b))
        return CM_OK;
    CM_TRY(cm_const_f64(rw->cx, b, &v, &k));
    CM_NEW_N(rw->cx, rw->cx->scratch, *values, channels, double);
    *fits = true;
    for (int64_t i = 0; i < channels; i++) {
        (*values)[i] = rint(v[i] / unit[i]);
        *fits = *fits && fabs((*values)[i]) < 1 << 30 && fabs((*values)[i] - v[i] / unit[i]) < 1e-4;
    }
    return CM_OK;
}

static cm_status fuse_product(cm_rewriter *rw, cm_node *n, const cm_quantised *y)
{
    cm_quantised x, w;
    cm_value *in[9] = {NULL}, *bias;
    double *values;
    bool fits, gemm = n->op->id == CM_OP_GEMM, conv = n->op->id == CM_OP_CONV;
    if (!cm_dequantised(n->in[0], &x) || !is_byte(&x) || !cm_one_scale(&x) ||
        !cm_dequantised(n->in[1], &w) || !weights_fit(n, &w) ||
        (gemm && (cm_float(n, "alpha") != 1 || cm_float(n, "beta") != 1)))
        return CM_OK;
    int rank = cm_rank(w.q);
    bool first = conv || (gemm && cm_int(n, "transB"));
    int64_t channels = rank < 1 ? -1 : w.q->type.dims[first ? 0 : rank - 1];
    CM_TRY(find_bias(rw, n, &x, &w, channels, &bias, &values, &fits));
    if (!fits) {
        cm_near(rw, n, "%s not computed on integers: its bias does not count in their unit",
                n->op->name);
        return CM_OK;
    }
    if (!cm_rewrite(rw, n))
        return CM_OK;
    if (values)
        CM_TRY(cm_make_const_f64(rw->cx, n->network, "bias", CM_I32, 1, &channels, values, &bias));
    CM_TRY(put(rw, &x, in));
    CM_TRY(put(rw, &w, in + 3));
    if (gemm) {
        in[6] = bias;
        CM_TRY(put_result(rw, y, in + 7));
        return finish(rw, n, y, CM_OP_MS_QGEMM, in, 9);
    }
    CM_TRY(put_result(rw, y, in + 6));
    in[8] = bias;
    return finish(rw, n, y, conv ? CM_OP_QLINEAR_CONV : CM_OP_QLINEAR_MATMUL, in, bias ? 9 : 8);
}

/* The constant matrix the other way round; folding computes it. */
static cm_status turned(cm_rewriter *rw, cm_node *n, cm_value **w)
{
    cm_node *t;
    CM_TRY(cm_make_transpose(rw, n, *w, (int64_t[]){1, 0}, 2, n, &t));
    *w = t->out[0];
    return CM_OK;
}

/* A product of integers whose result is read as floats. */
static cm_status fuse_to_float(cm_rewriter *rw, cm_node *n)
{
    cm_quantised x, w;
    bool gemm = cm_is(n, CM_OP_GEMM), trans = gemm && cm_int(n, "transB");
    cm_value *in[7], *bias = gemm && n->n_in > 2 ? n->in[2] : NULL;
    cm_node *y;
    if (!cm_dequantised(n->in[0], &x) || !is_byte(&x) || !cm_one_scale(&x) ||
        !cm_dequantised(n->in[1], &w) || !weights_fit(n, &w) || cm_rank(w.q) != 2 ||
        cm_rank(x.q) < 2 || n->out[0]->type.dtype != CM_F32 ||
        (gemm && (cm_float(n, "alpha") != 1 || cm_float(n, "beta") != 1 || cm_int(n, "transA"))) ||
        (trans && !cm_is_const(w.q)))
        return CM_OK;
    if (bias && (cm_rank(bias) != 1 || bias->type.dims[0] != n->out[0]->type.dims[1]))
        return CM_OK;
    if (!cm_rewrite(rw, n))
        return CM_OK;
    if (trans)
        CM_TRY(turned(rw, n, &w.q));
    in[0] = x.q;
    in[1] = w.q;
    in[2] = x.scale;
    in[3] = w.scale;
    CM_TRY(cm_zero_point(rw, &x, &in[4]));
    in[5] = w.zero;
    in[6] = bias;
    int n_in = bias ? 7 : w.zero ? 6 : 5;
    CM_TRY(cm_make(rw, n, CM_OP_MS_MATMUL_INTEGER_TO_FLOAT, n, in, n_in, 1, &y));
    return cm_replace(rw, n, y->out[0], y);
}

CM_PASS(fuse_qdq)
{
    CM_FOR_NODES (n, g) {
        cm_quantised y;
        if (rw->n_rewrites >= rw->limit)
            return CM_OK;
        cm_op_id as = form_of(n);
        bool product = cm_is(n, CM_OP_CONV) || cm_is(n, CM_OP_MATMUL) || cm_is(n, CM_OP_GEMM);
        if (as == CM_OP_COUNT && !product && !cm_is(n, CM_OP_WHERE))
            continue;
        if (cm_requantised(n->out[0], &y) && y.scale->type.dtype == CM_F32) {
            cm_arena_mark mark = cm_arena_save(rw->cx->scratch);
            CM_TRY(product                 ? fuse_product(rw, n, &y)
                   : cm_is(n, CM_OP_WHERE) ? fuse_where(rw, n, &y)
                                           : fuse_plain(rw, n, as, &y));
            cm_arena_restore(rw->cx->scratch, mark);
        }
        if (product && n->out[0]->n_uses && !cm_is(n, CM_OP_CONV))
            CM_TRY(fuse_to_float(rw, n));
    }
    return CM_OK;
}
