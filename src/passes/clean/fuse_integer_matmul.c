/* fuse_integer_matmul.c -- a product of integers and the factor that makes floats of it.
 *
 *     q, s, z = DynamicQuantizeLinear(x)
 *     p = MatMulInteger(q, @b, z, @bz)
 *     f = Cast(p) {to=float}
 *     m = Mul(s, @bs)
 *     y = Mul(f, m)
 *  becomes
 *     y = com.microsoft.DynamicQuantizeMatMul(x, @b, @bs, @bz)
 *
 * and com.microsoft.MatMulIntegerToFloat where x was quantised otherwise, or somebody else reads the integers. The
 * factor of the left side is one number, that of the right side one number or a vector along the columns. A vector
 * whose length is not surely theirs is one too: where there is one column, both forms repeat it.
 *
 * needs: types, uses    keeps: types, uses
 * SPDX-License-Identifier: Apache-2.0
 */
#include "passes/match.h"

typedef struct {
    cm_node *product, *cast, *factor;
    cm_value *a_scale, *b_scale;
} match;

/* One number, or a vector along the product's columns. */
static bool is_column(const cm_value *v, const cm_node *product)
{
    return (cm_rank(v) <= 1 && cm_volume(v) == 1) ||
           (cm_rank(v) == 1 && cm_rank(product->in[1]) >= 2);
}

/* y = Mul(Cast(MatMulInteger), factor), the factor a product of both scales or a constant. */
static bool find(const cm_node *n, match *m)
{
    for (int i = 0; i < 2; i++) {
        *m = (match){.cast = cm_made_by(n->in[i], CM_OP_CAST)};
        m->product = m->cast ? cm_made_by(m->cast->in[0], CM_OP_MATMUL_INTEGER) : NULL;
        if (!m->product || !cm_sole_use(n->in[i]) || !cm_sole_use(m->cast->in[0]) ||
            n->in[i]->type.dtype != CM_F32 || cm_rank(n->in[i]) != cm_rank(n->out[0]))
            continue;
        m->factor = cm_made_by(n->in[1 - i], CM_OP_MUL);
        for (int k = 0; m->factor && k < 2; k++) {
            m->a_scale = m->factor->in[k];
            m->b_scale = m->factor->in[1 - k];
            const cm_node *d = m->a_scale->producer;
            bool dynamic =
                cm_is(d, CM_OP_DYNAMIC_QUANTIZE_LINEAR) && d->out[0] == m->product->in[0];
            if (cm_volume(m->a_scale) == 1 && is_column(m->b_scale, m->product) &&
                (dynamic || k == 1 || !cm_is(m->b_scale->producer, CM_OP_DYNAMIC_QUANTIZE_LINEAR)))
                return true;
        }
        m->factor = NULL;
        m->a_scale = NULL;
        m->b_scale = n->in[1 - i];
        if (is_column(m->b_scale, m->product))
            return true;
    }
    return false;
}

static cm_value *input(const cm_node *n, int i)
{
    return i < n->n_in ? n->in[i] : NULL;
}

/* The left side is quantised on the way, for this product alone. */
static cm_node *quantiser(const match *m)
{
    cm_node *d = cm_made_by(m->product->in[0], CM_OP_DYNAMIC_QUANTIZE_LINEAR);
    bool fits = d && m->a_scale == d->out[1] && input(m->product, 2) == d->out[2] &&
                cm_sole_use(d->out[0]) && cm_sole_use(d->out[2]);
    return fits ? d : NULL;
}

static cm_status fuse(cm_rewriter *rw, cm_node *n, const match *m)
{
    cm_node *y, *d = quantiser(m);
    cm_value *one = m->a_scale, *zb = input(m->product, 3);
    if (d) {
        cm_value *in[4] = {d->in[0], m->product->in[1], m->b_scale, zb};
        CM_TRY(cm_make(rw, n, CM_OP_MS_DYNAMIC_QUANTIZE_MATMUL, m->product, in, zb ? 4 : 3, 1, &y));
        CM_TRY(cm_node_add_from(rw->cx, y, d));
    } else {
        if (!one)
            CM_TRY(cm_make_scalar(rw->cx, n->network, "one", CM_F32, 1, &one));
        cm_value *in[6] = {m->product->in[0], m->product->in[1],    one,
                           m->b_scale,        input(m->product, 2), zb};
        int n_in = in[5] ? 6 : in[4] ? 5 : 4;
        CM_TRY(cm_make(rw, n, CM_OP_MS_MATMUL_INTEGER_TO_FLOAT, m->product, in, n_in, 1, &y));
    }
    CM_TRY(cm_node_add_from(rw->cx, y, m->cast));
    if (m->factor)
        CM_TRY(cm_node_add_from(rw->cx, y, m->factor));
    CM_TRY(cm_replace(rw, n, y->out[0], y));
    cm_drop_if_dead(n);
    return CM_OK;
}

CM_PASS(fuse_integer_matmul)
{
    CM_FOR_NODES (n, g) {
        match m;
        if (!cm_is(n, CM_OP_MUL) || !n->out[0]->n_uses || !find(n, &m))
            continue;
        if (!cm_rewrite(rw, n))
            return CM_OK;
        CM_TRY(fuse(rw, n, &m));
    }
    return CM_OK;
}
