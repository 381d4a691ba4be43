/* product.c -- matrix products in one form.
 * SPDX-License-Identifier: Apache-2.0 */
#include "passes/product.h"

#include "passes/transposes.h"

bool cm_is_shared_weight(const cm_value *v)
{
    return v->n_uses > 1 && cm_volume(v) > CM_LARGE_WEIGHTS;
}

bool cm_product_of(const cm_node *n, cm_product *out)
{
    bool fused = cm_is(n, CM_OP_MS_FUSED_MATMUL);
    if (!fused && !cm_is(n, CM_OP_MATMUL) && !cm_is(n, CM_OP_MS_TRANSPOSE_MATMUL))
        return false;
    *out = (cm_product){.a = n->in[0], .b = n->in[1], .alpha = 1};
    if (n->op->id == CM_OP_MATMUL)
        return true;
    out->trans_a = cm_int(n, "transA");
    out->trans_b = cm_int(n, "transB");
    out->alpha = cm_float(n, "alpha");
    out->batch_a = fused && cm_int(n, "transBatchA");
    out->batch_b = fused && cm_int(n, "transBatchB");
    return true;
}

bool cm_is_plain_product(const cm_node *n, cm_product *p)
{
    return n && cm_product_of(n, p) && cm_is_float(n->out[0]) && cm_rank(p->a) >= 2 &&
           cm_rank(p->b) >= 2 && !p->batch_a && !p->batch_b;
}

bool cm_only_products_read(const cm_value *v)
{
    enum { MOST_READERS = 16 };
    cm_product p;
    if (v->n_uses > MOST_READERS)
        return false;
    for (const cm_use *u = v->uses; u; u = u->next)
        if (!cm_is_plain_product(u->node, &p) || u->node->network != v->network)
            return false;
    return true;
}

/* The constant matrix the other way round; folding computes it. */
static cm_status transpose_weights(cm_rewriter *rw, cm_node *before, const cm_node *like,
                                   cm_product *p)
{
    cm_node *t;
    if (!p->trans_b || p->batch_b || !cm_is_const(p->b) || cm_rank(p->b) != 2 ||
        cm_is_shared_weight(p->b))
        return CM_OK;
    CM_TRY(cm_make_transpose(rw, before, p->b, (int64_t[]){1, 0}, 2, like, &t));
    p->b = t->out[0];
    p->trans_b = false;
    return CM_OK;
}

static cm_status scale_weights(cm_rewriter *rw, cm_node *before, cm_product *p)
{
    if (p->alpha == 1 || !cm_is_const(p->b) || p->b->type.dtype == CM_F16 ||
        cm_is_shared_weight(p->b))
        return CM_OK;
    const double *w;
    double *v;
    int64_t n;
    const cm_tensor *t = p->b->constant;
    cm_arena_mark mark = cm_arena_save(rw->cx->scratch);
    CM_TRY(cm_const_f64(rw->cx, p->b, &w, &n));
    CM_NEW_N(rw->cx, rw->cx->scratch, v, n, double);
    for (int64_t i = 0; i < n; i++)
        v[i] = w[i] * p->alpha;
    CM_TRY(cm_make_const_f64(rw->cx, before->network, p->b->name, t->dtype, t->rank, t->dims, v,
                             &p->b));
    cm_arena_restore(rw->cx->scratch, mark);
    p->alpha = 1;
    return CM_OK;
}

cm_status cm_make_product(cm_rewriter *rw, cm_node *before, const cm_node *like,
                          const cm_product *given, cm_node **out)
{
    cm_product p = *given;
    CM_TRY(scale_weights(rw, before, &p));
    CM_TRY(transpose_weights(rw, before, like, &p));
    cm_value *in[2] = {p.a, p.b};
    if (!p.trans_a && !p.trans_b && !p.batch_a && !p.batch_b && p.alpha == 1)
        return cm_make(rw, before, CM_OP_MATMUL, like, in, 2, 1, out);
    void *attr;
    cm_op_id op = CM_OP_MS_FUSED_MATMUL;
    CM_TRY(cm_new_attr(rw->cx, before->network, op, &attr));
    if (p.alpha != 1)
        CM_TRY(cm_attr_put_float(rw->cx, op, attr, "alpha", p.alpha));
    if (p.trans_a)
        CM_TRY(cm_attr_put_int(rw->cx, op, attr, "transA", 1));
    if (p.trans_b)
        CM_TRY(cm_attr_put_int(rw->cx, op, attr, "transB", 1));
    if (p.batch_a)
        CM_TRY(cm_attr_put_int(rw->cx, op, attr, "transBatchA", 1));
    if (p.batch_b)
        CM_TRY(cm_attr_put_int(rw->cx, op, attr, "transBatchB", 1));
    return cm_make_with(rw, before, op, attr, like, in, 2, 1, out);
}
