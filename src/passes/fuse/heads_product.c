/* heads_product.c -- a product that lays its heads out as the next product wants them.
 *
 *     q = Reshape(Add(MatMul(x, @w), @b))         [b, t, h, d]
 *     t = Transpose(q) {perm=[0,2,1,3]}
 *     s = MatMul(t, @p)
 *  becomes
 *     t = Add(MatMul(Unsqueeze(x, 1), @w'), @b')  @w': [h, n, d], one matrix for each head
 *     s = MatMul(t, @p)
 *
 * Fires when nothing but such Transposes reads the heads and one of them is multiplied by a constant: that is
 * no attention, which would read the heads where they lie.
 *
 * needs: types, uses; runs before fuse_attention    keeps: types, uses
 * SPDX-License-Identifier: Apache-2.0
 */
#include "passes/linear.h"
#include "passes/transposes.h"

static const int64_t HEADS_FIRST[] = {0, 2, 1, 3};

static bool meets_constant(const cm_value *v)
{
    for (const cm_use *u = v->uses; u; u = u->next)
        if (cm_is(u->node, CM_OP_MATMUL) && u->index == 0 && cm_is_const(u->node->in[1]))
            return true;
    return false;
}

/* Do only Transposes to heads first read r, and a product with a constant one of those? */
static bool wants_heads_first(const cm_value *r)
{
    bool any = false;
    for (const cm_use *u = r->uses; u; u = u->next) {
        int64_t perm[CM_MAX_RANK];
        if (!cm_is(u->node, CM_OP_TRANSPOSE) || u->node->network != r->network ||
            !cm_perm(u->node, perm) || !cm_perm_equal(perm, HEADS_FIRST, 4))
            return false;
        any |= meets_constant(u->node->out[0]);
    }
    return any;
}

static bool find(const cm_node *n, cm_linear *l)
{
    if (!cm_is(n, CM_OP_RESHAPE) || cm_rank(n->out[0]) != 4 || cm_rank(n->in[0]) != 3 ||
        !cm_is_float(n->out[0]) || !n->out[0]->n_uses || !wants_heads_first(n->out[0]) ||
        !cm_linear_find(n->in[0], l))
        return false;
    const cm_dim *a = n->in[0]->type.dims, *b = n->out[0]->type.dims;
    return l->node->op->id == CM_OP_MATMUL && !l->weights->constant->packed && a[0] == b[0] &&
           a[1] == b[1] && cm_dim_is_size(b[2]) && cm_dim_is_size(b[3]) &&
           cm_rank(l->node->in[0]) == 3;
}

/* [rows, heads*size] as [heads, rows, size]. */
static cm_status by_head(cm_rewriter *rw, const cm_node *n, const cm_value *like, const double *v,
                         int64_t rows, cm_value **out)
{
    int64_t heads = n->out[0]->type.dims[2], size = n->out[0]->type.dims[3];
    int64_t dims[] = {heads, rows, size};
    double *w;
    CM_NEW_N(rw->cx, rw->cx->scratch, w, heads * rows * size, double);
    for (int64_t h = 0; h < heads; h++)
        for (int64_t i = 0; i < rows; i++)
            for (int64_t k = 0; k < size; k++)
                w[(h * rows + i) * size + k] = v[(i * heads + h) * size + k];
    return cm_make_const_f64(rw->cx, n->network, like->name, like->type.dtype, 3, dims, w, out);
}

static cm_status rewrite(cm_rewriter *rw, cm_node *n, const cm_linear *l)
{
    static const int64_t one = 1;
    const double *v;
    int64_t count;
    cm_value *axes, *w, *b;
    cm_node *x, *y;
    CM_TRY(cm_make_const_i64(rw->cx, n->network, NULL, 1, &one, &one, &axes));
    CM_TRY(cm_const_f64(rw->cx, l->weights, &v, &count));
    CM_TRY(by_head(rw, n, l->weights, v, l->weights->constant->dims[0], &w));
    CM_TRY(
        cm_make(rw, n, CM_OP_UNSQUEEZE, l->node, (cm_value *[]){l->node->in[0], axes}, 2, 1, &x));
    CM_TRY(cm_make(rw, n, CM_OP_MATMUL, l->node, (cm_value *[]){x->out[0], w}, 2, 1, &y));
    CM_TRY(cm_node_add_from(rw->cx, y, n));
    if (l->bias) {
        CM_TRY(cm_channel_values(rw->cx, l->bias, l->channels, &v));
        CM_TRY(by_head(rw, n, l->bias, v, 1, &b));
        CM_TRY(cm_make(rw, n, CM_OP_ADD, l->add, (cm_value *[]){y->out[0], b}, 2, 1, &y));
    }
    for (const cm_use *u = n->out[0]->uses; u; u = u->next)
        CM_TRY(cm_replace(rw, u->node, y->out[0], y));
    return CM_OK;
}

CM_PASS(heads_product)
{
    CM_FOR_NODES (n, g) {
        cm_linear l;
        if (!find(n, &l))
            continue;
        if (!cm_rewrite(rw, n))
            return CM_OK;
        cm_arena_mark mark = cm_arena_save(rw->cx->scratch);
        CM_TRY(rewrite(rw, n, &l));
        cm_arena_restore(rw->cx->scratch, mark);
    }
    return CM_OK;
}
