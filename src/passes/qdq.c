/* qdq.c -- quantised values around nodes.
 * SPDX-License-Identifier: Apache-2.0 */
#include "passes/qdq.h"

static cm_value *zero_of(const cm_node *n)
{
    return n->n_in > 2 ? n->in[2] : NULL;
}

static bool is_byte(const cm_value *v)
{
    return v->type.kind == CM_TENSOR && (v->type.dtype == CM_U8 || v->type.dtype == CM_I8);
}

/* Floats are wide enough to hold what 8 bits say, and return it: half precision if it does not overflow. */
static bool holds(const cm_value *scale, const cm_value *x)
{
    double s;
    if (scale->type.kind != CM_TENSOR || scale->type.dtype != x->type.dtype)
        return false;
    return scale->type.dtype == CM_F32 ||
           (scale->type.dtype == CM_F16 && cm_splat(scale, &s) && s < 128);
}

static bool plain(const cm_node *n, const cm_value *x)
{
    return cm_int(n, "block_size") == 0 && holds(n->in[1], x);
}

bool cm_one_scale(const cm_quantised *a)
{
    return cm_volume(a->scale) == 1 && (!a->zero || cm_volume(a->zero) == 1);
}

bool cm_dequantised(const cm_value *v, cm_quantised *out)
{
    cm_node *n = cm_made_by(v, CM_OP_DEQUANTIZE_LINEAR);
    if (!n || !plain(n, n->out[0]))
        return false;
    *out = (cm_quantised){n, n->in[0], n->in[1], zero_of(n), cm_int(n, "axis")};
    return is_byte(out->q) || out->q->type.dtype == CM_I32;
}

bool cm_requantised(const cm_value *v, cm_quantised *out)
{
    cm_node *n = cm_only_reader(v);
    if (!cm_is(n, CM_OP_QUANTIZE_LINEAR) || n->in[0] != v || !plain(n, v) || !n->out[0]->n_uses)
        return false;
    *out = (cm_quantised){n, n->out[0], n->in[1], zero_of(n), cm_int(n, "axis")};
    return is_byte(out->q) && cm_one_scale(out);
}

static bool same_number(const cm_value *a, const cm_value *b)
{
    double x = 0, y = 0;
    return a == b || ((!a || cm_splat(a, &x)) && (!b || cm_splat(b, &y)) && x == y);
}

bool cm_same_quantisation(const cm_quantised *a, const cm_quantised *b)
{
    return a->q->type.dtype == b->q->type.dtype && cm_one_scale(a) && cm_one_scale(b) &&
           same_number(a->scale, b->scale) && same_number(a->zero, b->zero);
}

cm_status cm_zero_point(cm_rewriter *rw, const cm_quantised *a, cm_value **out)
{
    *out = a->zero;
    return a->zero
               ? CM_OK
               : cm_make_scalar(rw->cx, a->node->network, "zero_point", a->q->type.dtype, 0, out);
}
