/* merge_casts.c -- one cast for two in a row.
 *
 *     a = Cast(x) {to=f32}            x: f16
 *     y = Cast(a) {to=f16}
 *  becomes
 *     y = Cast(x) {to=f16}            which `identity` drops
 *
 * Only when the middle type holds every value of the first exactly, so that nothing is lost by
 * leaving it out.
 *
 * needs: types, uses    keeps: types, uses
 * SPDX-License-Identifier: Apache-2.0
 */
#include "passes/match.h"

/* Does every value of `a` exist in `b`? */
static bool holds(cm_dtype a, cm_dtype b)
{
    const cm_dtype_info *x = cm_dtype_get(a), *y = cm_dtype_get(b);
    if (a == b)
        return true;
    if (a == CM_BOOL)
        return y->kind == CM_KIND_INT || y->kind == CM_KIND_UINT || b == CM_F32 || b == CM_F64;
    if (x->kind == CM_KIND_FLOAT && y->kind == CM_KIND_FLOAT)
        return b == CM_F64 || (b == CM_F32 && a != CM_F64);
    if (x->kind == CM_KIND_UINT && y->kind == CM_KIND_UINT)
        return x->bits <= y->bits;
    if (x->kind == CM_KIND_UINT && y->kind == CM_KIND_INT)
        return x->bits < y->bits;
    if (x->kind == CM_KIND_INT && y->kind == CM_KIND_INT)
        return x->bits <= y->bits;
    if ((x->kind == CM_KIND_INT || x->kind == CM_KIND_UINT) && y->kind == CM_KIND_FLOAT)
        return (b == CM_F64 && x->bits <= 32) || (b == CM_F32 && x->bits <= 16);
    return false;
}

static bool plain(const cm_node *n) /* the default way of rounding and saturating */
{
    return !cm_given(n, "saturate") && !cm_given(n, "round_mode");
}

CM_PASS(merge_casts)
{
    CM_FOR_NODES (n, g) {
        if (!cm_is(n, CM_OP_CAST) || !n->out[0]->n_uses)
            continue;
        cm_node *p = cm_made_by(n->in[0], CM_OP_CAST);
        if (!p || !plain(p) || !holds(p->in[0]->type.dtype, p->out[0]->type.dtype))
            continue;
        if (!cm_rewrite(rw, n))
            return CM_OK;
        CM_TRY(cm_node_set_input(rw->cx, n, 0, p->in[0]));
        CM_TRY(cm_node_infer(rw->cx, n));
    }
    return CM_OK;
}
