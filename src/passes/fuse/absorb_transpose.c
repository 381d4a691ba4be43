/* absorb_transpose.c -- products read their operands transposed, and scale their result.
 *
 *     t = Transpose(k) {perm=[0,1,3,2]}
 *     s = Mul(q, @0.125)
 *     y = MatMul(s, t)
 *  becomes
 *     y = com.microsoft.FusedMatMul(q, k) {transB=1, alpha=0.125}
 *
 * Operands: a Transpose that swaps the last two axes, or brings the first axis behind those of the batch (transBatchA,
 * transBatchB), or both; a Mul or Div by one number. Also a Transpose of the result, which swaps the operands. Fires when the node goes away by it: everybody who reads it is such a product. A factor of the
 * result is left to the epilogue, a factor that float32 does not hold exactly is left alone.
 *
 * needs: types, uses; runs after everything that looks for plain MatMuls    keeps: types, uses
 * numerics: a factor is applied once, to the sum, not to its terms
 * SPDX-License-Identifier: Apache-2.0
 */
#include "passes/product.h"
#include "passes/transposes.h"

/* Does t bring rows and columns into their places: swap the last two axes (*trans), bring the first behind the
 * batch's (*batch) before that? */
static bool reorders(const cm_node *t, bool *trans, bool *batch)
{
    int64_t perm[CM_MAX_RANK];
    int rank = cm_rank(t->in[0]);
    if (rank < 2 || !cm_perm(t, perm))
        return false;
    *batch = rank > 2 && perm[0] == 1;
    for (int i = 0; i < rank - 2; i++)
        if (perm[i] != i + *batch)
            return false;
    *trans = perm[rank - 1] != rank - 1;
    return true;
}

static bool swaps_last_two(const cm_node *t)
{
    bool trans, batch;
    return reorders(t, &trans, &batch) && trans && !batch;
}

/* A Mul or Div by a number: what is scaled, and the factor. */
static cm_value *scaled(const cm_value *v, double *factor)
{
    cm_node *n = cm_made_by(v, CM_OP_MUL);
    double x;
    if (n) {
        for (int i = 0; i < 2; i++)
            if (cm_splat(n->in[1 - i], &x) && cm_same_shape(n->in[i], v)) {
                *factor = x;
                return n->in[i];
            }
        return NULL;
    }
    n = cm_made_by(v, CM_OP_DIV);
    if (!n || !cm_splat(n->in[1], &x) || x == 0 || !cm_same_shape(n->in[0], v))
        return NULL;
    *factor = 1 / x;
    return n->in[0];
}

/* Look through one node in front of an operand. */
static bool absorb_operand(cm_value **v, bool *trans, bool *batch, double *alpha,
                           const cm_node **gone)
{
    double factor;
    bool t_trans, t_batch;
    if (!(*v)->producer || (*v)->constant || !cm_only_products_read(*v))
        return false;
    *gone = (*v)->producer;
    cm_node *t = cm_made_by(*v, CM_OP_TRANSPOSE);
    if (t) {
        if (*batch || !reorders(t, &t_trans, &t_batch))
            return false;
        *v = t->in[0];
        *trans ^= t_trans;
        *batch = t_batch;
        return true;
    }
    cm_value *x = scaled(*v, &factor);
    double product = *alpha * factor;
    bool wide = (*v)->type.dtype == CM_F64;
    if (!x || (wide ? (double)(float)product != product : !(product > -1e30 && product < 1e30)))
        return false;
    *alpha = product;
    *v = x;
    return true;
}

static cm_status rewrite_operands(cm_rewriter *rw, cm_node *n, cm_product *p)
{
    const cm_node *gone[8];
    int n_gone = 0;
    while (n_gone < CM_COUNT(gone) &&
           (absorb_operand(&p->a, &p->trans_a, &p->batch_a, &p->alpha, &gone[n_gone]) ||
            absorb_operand(&p->b, &p->trans_b, &p->batch_b, &p->alpha, &gone[n_gone])))
        n_gone++;
    if (!n_gone || !cm_rewrite(rw, n))
        return CM_OK;
    cm_node *y;
    CM_TRY(cm_make_product(rw, n, n, p, &y));
    for (int i = 0; i < n_gone; i++)
        CM_TRY(cm_node_add_from(rw->cx, y, gone[i]));
    CM_TRY(cm_replace(rw, n, y->out[0], y));
    cm_drop_if_dead(n);
    return CM_OK;
}

/* t transposes the product that it alone reads: (A B)' = B' A'. */
static cm_status rewrite_result(cm_rewriter *rw, cm_node *t)
{
    cm_product p;
    cm_node *n = t->in[0]->producer;
    if (!n || n->network != t->network || !cm_sole_use(t->in[0]) || !cm_is_plain_product(n, &p) ||
        !swaps_last_two(t) || !cm_rewrite(rw, t))
        return CM_OK;
    cm_product swapped = {
        .a = p.b, .b = p.a, .trans_a = !p.trans_b, .trans_b = !p.trans_a, .alpha = p.alpha};
    cm_node *y;
    CM_TRY(cm_make_product(rw, t, n, &swapped, &y));
    CM_TRY(cm_replace(rw, t, y->out[0], y));
    cm_drop_if_dead(t);
    return CM_OK;
}

CM_PASS(absorb_transpose)
{
    CM_FOR_NODES (n, g) {
        cm_product p;
        if (rw->n_rewrites >= rw->limit)
            return CM_OK;
        if (!n->out[0] || !n->out[0]->n_uses)
            continue;
        if (cm_is_plain_product(n, &p))
            CM_TRY(rewrite_operands(rw, n, &p));
        else if (cm_is(n, CM_OP_TRANSPOSE))
            CM_TRY(rewrite_result(rw, n));
    }
    return CM_OK;
}
