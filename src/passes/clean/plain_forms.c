/* plain_forms.c -- operators without kernels that are a few plain ones; for a plan only.
 *
 *     y = Hardmax(x) {axis=1}
 *  becomes
 *     i = ArgMax(x) {axis=1}
 *     y = Cast(Equal(i, @0..n-1))
 *
 * also SwiGLU, Dropout that drops nothing but whose mask is read, and QLinearMatMul with scales of 16 bits, which are widened.
 * Hardmax wants its axis to have a known size.
 *
 * needs: types    keeps: types, uses
 * SPDX-License-Identifier: Apache-2.0
 */
#include "passes/chain.h"

static bool is_hardmax(const cm_node *n)
{
    enum { MOST = 1 << 24 };
    int rank = cm_is(n, CM_OP_HARDMAX) ? cm_rank(n->in[0]) : -1;
    if (rank < 1)
        return false;
    int64_t axis = cm_int(n, "axis");
    cm_dim d = n->in[0]->type.dims[axis + (axis < 0 ? rank : 0)];
    return cm_dim_is_size(d) && d > 0 && d <= MOST;
}

/* 0, 1, ... along an axis of x. */
static cm_value *places(cm_chain *c, const cm_value *x, int axis)
{
    int64_t dims[CM_MAX_RANK], n = x->type.dims[axis];
    int rank = cm_rank(x) - axis;
    int64_t *v = cm_new_n(c->rw->cx->scratch, n, int64_t);
    cm_value *out = NULL;
    if (!v) {
        c->st = cm_fail_memory(c->rw->cx);
        return NULL;
    }
    for (int64_t i = 0; i < n; i++)
        v[i] = i;
    for (int i = 0; i < rank; i++)
        dims[i] = i ? 1 : n;
    if (c->st == CM_OK)
        c->st = cm_make_const_i64(c->rw->cx, c->at->network, NULL, rank, dims, v, &out);
    return out;
}

static void expand_hardmax(cm_chain *c)
{
    const cm_node *n = c->at;
    int64_t axis = cm_int(n, "axis");
    axis += axis < 0 ? cm_rank(n->in[0]) : 0;
    void *attr = cm_chain_attr(c, CM_OP_ARG_MAX);
    cm_chain_int(c, CM_OP_ARG_MAX, attr, "axis", axis);
    cm_value *best = CM_THEN(c, CM_OP_ARG_MAX, attr, n->in[0]);
    cm_value *v = CM_THEN(c, CM_OP_EQUAL, NULL, places(c, n->in[0], (int)axis), best);
    cm_chain_end(c, 0, v);
}

static bool is_swiglu(const cm_node *n)
{
    return cm_is(n, CM_OP_SWIGLU) && cm_is_float(n->in[0]);
}

static void expand_swiglu(cm_chain *c)
{
    const cm_node *n = c->at;
    void *attr = cm_chain_attr(c, CM_OP_SWISH);
    if (c->st == CM_OK)
        c->st = cm_attr_put_float(c->rw->cx, CM_OP_SWISH, attr, "alpha", cm_float(n, "alpha"));
    cm_value *gate = CM_THEN(c, CM_OP_SWISH, attr, cm_chain_widen(c, n->in[0]));
    cm_chain_end(c, 0, CM_THEN(c, CM_OP_MUL, NULL, gate, cm_chain_widen(c, n->in[1])));
}

static bool is_idle_dropout(const cm_node *n)
{
    double training;
    if (!cm_is(n, CM_OP_DROPOUT) || n->n_out < 2 || !n->out[1] || !n->out[1]->n_uses)
        return false;
    return n->n_in < 3 || !n->in[2] || (cm_splat(n->in[2], &training) && training == 0);
}

static void expand_dropout(cm_chain *c)
{
    const cm_node *n = c->at;
    cm_value *sizes = CM_THEN(c, CM_OP_SHAPE, NULL, n->in[0]), *kept = NULL;
    if (c->st == CM_OK)
        c->st =
            cm_make_const_f64(c->rw->cx, n->network, NULL, CM_BOOL, 0, NULL, (double[]){1}, &kept);
    if (n->out[0])
        cm_chain_end(c, 0, CM_THEN(c, CM_OP_IDENTITY, NULL, n->in[0]));
    cm_chain_end(c, 1, CM_THEN(c, CM_OP_EXPAND, NULL, kept, sizes));
}

static bool is_half(const cm_value *v)
{
    return v && (v->type.dtype == CM_F16 || v->type.dtype == CM_BF16);
}

/* Scales are inputs 1, 4 and 6. */
static bool is_short_scaled(const cm_node *n)
{
    return cm_is(n, CM_OP_QLINEAR_MATMUL) && n->n_in == 8 &&
           (is_half(n->in[1]) || is_half(n->in[4]) || is_half(n->in[6]));
}

static void widen_scales(cm_chain *c)
{
    cm_value *in[8];
    for (int i = 0; i < 8; i++)
        in[i] = cm_chain_widen(c, c->at->in[i]);
    cm_chain_end(c, 0, cm_chain_make(c, CM_OP_QLINEAR_MATMUL, NULL, 8, in));
}

CM_PASS(plain_forms)
{
    static const cm_chain_form forms[] = {{is_hardmax, expand_hardmax},
                                          {is_swiglu, expand_swiglu},
                                          {is_idle_dropout, expand_dropout},
                                          {is_short_scaled, widen_scales}};
    return cm_chain_rewrite(rw, g, forms, CM_COUNT(forms));
}
