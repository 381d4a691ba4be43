/* canonical_gemm.c -- one form for matrix products that everything after sees: MatMul, then plain nodes.
 *
 *     y = Gemm(x, @w, @c) {transB=1, alpha=0.5, beta=2}
 *  becomes
 *     p = MatMul(x, @w')                w' = 0.5 * w transposed
 *     y = Add(p, @c')                   c' = 2 * c; the epilogue takes it
 *
 * Operands that are not constant are read transposed by com.microsoft.FusedMatMul. FusedMatMul and TransposeMatMul
 * that say nothing, or something that the constants can say, become MatMul. A Gemm stays when C is computed and scaled,
 * when C does not surely broadcast to the result, or when it is of integers and not plain.
 *
 * needs: types    keeps: types, uses
 * numerics: factors are applied to constants in double precision, rounded once
 * SPDX-License-Identifier: Apache-2.0
 */
#include "passes/product.h"

static cm_value *c_of(const cm_node *n)
{
    return n->n_in > 2 && cm_float(n, "beta") != 0 ? n->in[2] : NULL;
}

static bool broadcasts(const cm_value *c, const cm_value *y)
{
    int rank = cm_rank(c), offset = cm_rank(y) - rank;
    if (rank < 0 || offset < 0)
        return false;
    for (int i = 0; i < rank; i++)
        if (c->type.dims[i] != 1 && c->type.dims[i] != y->type.dims[i + offset])
            return false;
    return true;
}

static bool can_split(cm_rewriter *rw, const cm_node *n)
{
    const cm_value *c = c_of(n);
    bool plain = cm_float(n, "alpha") == 1 && !cm_int(n, "transA") && !cm_int(n, "transB");
    if (cm_rank(n->in[0]) != 2 || cm_rank(n->in[1]) != 2 || cm_rank(n->out[0]) != 2)
        return false;
    if (!cm_is_float(n->out[0]) && !(plain && (!c || cm_float(n, "beta") == 1)))
        return false;
    if (c && (!broadcasts(c, n->out[0]) || (cm_float(n, "beta") != 1 && !c->constant))) {
        cm_near(rw, n, "Gemm not split: C is computed and scaled, or may not broadcast");
        return false;
    }
    return true;
}

static cm_status scaled(cm_rewriter *rw, cm_network *g, cm_value *c, double beta, cm_value **out)
{
    const double *v;
    double *w;
    int64_t n;
    *out = c;
    if (beta == 1)
        return CM_OK;
    CM_TRY(cm_const_f64(rw->cx, c, &v, &n));
    CM_NEW_N(rw->cx, rw->cx->scratch, w, n, double);
    for (int64_t i = 0; i < n; i++)
        w[i] = v[i] * beta;
    const cm_tensor *t = c->constant;
    return cm_make_const_f64(rw->cx, g, c->name, t->dtype, t->rank, t->dims, w, out);
}

static cm_status split(cm_rewriter *rw, cm_node *n)
{
    cm_product p = {.a = n->in[0],
                    .b = n->in[1],
                    .trans_a = cm_int(n, "transA"),
                    .trans_b = cm_int(n, "transB"),
                    .alpha = cm_float(n, "alpha")};
    cm_value *c = c_of(n);
    cm_node *y;
    CM_TRY(cm_make_product(rw, n, n, &p, &y));
    if (c) {
        CM_TRY(scaled(rw, n->network, c, cm_float(n, "beta"), &c));
        CM_TRY(cm_make(rw, n, CM_OP_ADD, n, (cm_value *[]){y->out[0], c}, 2, 1, &y));
    }
    if (n->epilogue.program)
        return cm_fail(rw->cx, CM_ERR_INTERNAL, "an epilogue on a Gemm to be split");
    return cm_replace(rw, n, y->out[0], NULL);
}

/* A fused product that can be said more simply. */
static bool says_nothing(const cm_node *n, cm_product *p)
{
    if (n->op->id == CM_OP_MATMUL || !cm_product_of(n, p) || p->batch_a || p->batch_b)
        return false;
    if (n->op->id == CM_OP_MS_TRANSPOSE_MATMUL)
        return true;
    bool constant = cm_is_const(p->b) && cm_rank(p->b) == 2 && p->b->n_uses == 1;
    return (!p->trans_a && !p->trans_b && p->alpha == 1) ||
           (constant && (p->trans_b || (p->alpha != 1 && p->b->type.dtype != CM_F16)));
}

CM_PASS(canonical_gemm)
{
    CM_FOR_NODES (n, g) {
        cm_product p;
        bool gemm = cm_is(n, CM_OP_GEMM) && n->out[0]->n_uses && can_split(rw, n);
        if (!gemm && !(n->out[0] && n->out[0]->n_uses && says_nothing(n, &p)))
            continue;
        if (!cm_rewrite(rw, n))
            return CM_OK;
        if (gemm) {
            CM_TRY(split(rw, n));
        } else {
            cm_node *y;
            CM_TRY(cm_make_product(rw, n, n, &p, &y));
            CM_TRY(cm_replace(rw, n, y->out[0], y));
        }
        cm_drop_if_dead(n);
    }
    return CM_OK;
}
