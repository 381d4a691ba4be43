/* drop_qdq.c -- quantised values are moved as they are.
 *
 *     d = DequantizeLinear(q, @s, @z)
 *     t = Transpose(d)                  (also Reshape, Slice, MaxPool, Concat, Resize to the nearest ...)
 *     y = QuantizeLinear(t, @s, @z)
 *  becomes
 *     y = Transpose(q)
 *
 * Fires when the scale and the zero point are the same before and after, one for all elements. QuantizeLinear directly
 * after DequantizeLinear goes too, and so does a Relu or Clip whose bounds are those of the integers anyway. ArgMax and
 * ArgMin read the integers: they are in the same order.
 *
 * needs: types, uses, folded scales    keeps: types, uses
 * SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>

#include "passes/qdq.h"

enum { MOST_INPUTS = 64 };

static bool moves(const cm_node *n)
{
    if (n->epilogue.program || n->n_out < 1 || !n->out[0] || !cm_one_output(n))
        return false;
    switch (n->op->id) {
    case CM_OP_RESHAPE:
    case CM_OP_FLATTEN:
    case CM_OP_SQUEEZE:
    case CM_OP_UNSQUEEZE:
    case CM_OP_TRANSPOSE:
    case CM_OP_SLICE:
    case CM_OP_GATHER:
    case CM_OP_MAX_POOL:
    case CM_OP_DEPTH_TO_SPACE:
    case CM_OP_SPACE_TO_DEPTH:
    case CM_OP_EXPAND:
    case CM_OP_TILE:
    case CM_OP_REDUCE_MAX:
    case CM_OP_REDUCE_MIN:
        return true;
    case CM_OP_RESIZE:
        return cm_string_is(n, "mode", "nearest") &&
               !cm_string_is(n, "coordinate_transformation_mode", "tf_crop_and_resize");
    case CM_OP_CONCAT:
        return n->n_in <= MOST_INPUTS;
    default:
        return false;
    }
}

static cm_status move(cm_rewriter *rw, cm_node *n)
{
    cm_quantised y, x;
    cm_value *in[MOST_INPUTS];
    int n_data = n->op->id == CM_OP_CONCAT ? n->n_in : 1;
    if (n->n_in > MOST_INPUTS || !cm_requantised(n->out[0], &y))
        return CM_OK;
    for (int i = 0; i < n->n_in; i++) {
        in[i] = n->in[i];
        if (i >= n_data)
            continue;
        if (!cm_dequantised(n->in[i], &x) || !cm_same_quantisation(&x, &y))
            return CM_OK;
        in[i] = x.q;
    }
    if (!cm_rewrite(rw, n))
        return CM_OK;
    cm_node *m;
    void *attr;
    CM_TRY(cm_attr_copy(rw->cx, n->network->arena, n->op->attrs, n->attr, &attr));
    CM_TRY(cm_make_with(rw, y.node, n->op->id, attr, n, in, n->n_in, 1, &m));
    return cm_replace(rw, y.node, m->out[0], m);
}

/* Of a QuantizeLinear: what x becomes. */
static double quantise(double x, double scale, double zero, double low, double high)
{
    return fmin(fmax(rint(x / scale) + zero, low), high);
}

static bool bounds(const cm_node *n, double *low, double *high)
{
    *low = cm_is(n, CM_OP_RELU) ? 0 : -INFINITY;
    *high = INFINITY;
    if (cm_is(n, CM_OP_RELU))
        return true;
    if (!cm_is(n, CM_OP_CLIP) || (n->n_in > 1 && n->in[1] && !cm_splat(n->in[1], low)))
        return false;
    return n->n_in < 3 || !n->in[2] || cm_splat(n->in[2], high);
}

/* Relu or Clip in front of a QuantizeLinear that saturates there anyway. */
static bool saturates(const cm_node *n)
{
    double low, high, scale, zero = 0;
    cm_quantised y;
    if (!bounds(n, &low, &high) || !cm_requantised(n->out[0], &y) || !cm_splat(y.scale, &scale) ||
        !(scale > 0) || (y.zero && !cm_splat(y.zero, &zero)))
        return false;
    double least = y.q->type.dtype == CM_U8 ? 0 : -128, most = least + 255;
    return quantise(low, scale, zero, least, most) == least &&
           quantise(high, scale, zero, least, most) == most;
}

/* n quantises what was just dequantised alike. */
static bool undoes(const cm_node *n, cm_quantised *x)
{
    cm_quantised y;
    return cm_is(n, CM_OP_QUANTIZE_LINEAR) && n->out[0]->n_uses && cm_dequantised(n->in[0], x) &&
           cm_int(n, "block_size") == 0 &&
           (y = (cm_quantised){.q = n->out[0],
                               .scale = n->in[1],
                               .zero = n->n_in > 2 ? n->in[2] : NULL},
            cm_same_quantisation(x, &y));
}

/* n looks for the place of the largest or smallest of what was dequantised with one positive scale. */
static bool asks_order(const cm_node *n, cm_quantised *x)
{
    double scale;
    return (cm_is(n, CM_OP_ARG_MAX) || cm_is(n, CM_OP_ARG_MIN)) && cm_dequantised(n->in[0], x) &&
           cm_one_scale(x) && cm_splat(x->scale, &scale) && scale > 0;
}

static cm_status order_integers(cm_rewriter *rw, cm_node *n, const cm_quantised *x)
{
    cm_node *m;
    void *attr;
    CM_TRY(cm_attr_copy(rw->cx, n->network->arena, n->op->attrs, n->attr, &attr));
    CM_TRY(cm_make_with(rw, n, n->op->id, attr, n, (cm_value *[]){x->q}, 1, 1, &m));
    CM_TRY(cm_replace(rw, n, m->out[0], m));
    cm_drop_if_dead(n);
    return CM_OK;
}

CM_PASS(drop_qdq)
{
    CM_FOR_NODES (n, g) {
        cm_quantised x;
        if (rw->n_rewrites >= rw->limit)
            return CM_OK;
        if (n->n_out < 1 || !n->out[0] || !n->out[0]->n_uses)
            continue;
        if (moves(n)) {
            CM_TRY(move(rw, n));
        } else if (saturates(n)) {
            if (!cm_rewrite(rw, n))
                return CM_OK;
            CM_TRY(cm_replace(rw, n, n->in[0], n->in[0]->producer));
            cm_drop_if_dead(n);
        } else if (undoes(n, &x)) {
            if (!cm_rewrite(rw, n))
                return CM_OK;
            CM_TRY(cm_replace(rw, n, x.q, NULL));
            cm_drop_if_dead(n);
        } else if (asks_order(n, &x)) {
            if (!cm_rewrite(rw, n))
                return CM_OK;
            CM_TRY(order_integers(rw, n, &x));
        }
    }
    return CM_OK;
}
