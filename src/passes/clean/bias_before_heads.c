/* bias_before_heads.c -- what is added per head and column goes into the bias of the product before.
 *
 *     r = Reshape(Add(MatMul(x, @w), @b))         [b, t, h*d] as [b, t, h, d]
 *     y = Add(r, @u)                              @u: [h, d]
 *     z = Add(r, @v)
 *  becomes
 *     y = Reshape(Add(MatMul(x, @w), @b+u))
 *     z = Add(y, @v-u)
 *
 * Fires when all that read the Reshape are such Adds. That of which most comes later (bias_after_product) keeps
 * its Add: one whose result is multiplied by a constant.
 *
 * needs: types, uses, folded constants    keeps: types, uses
 * numerics: two offsets are added before the product's result, not one after the other
 * SPDX-License-Identifier: Apache-2.0
 */
#include "passes/linear.h"

enum { MOST_ADDS = 4 };

/* Does the Reshape split the last axis in two? */
static bool splits_last(const cm_node *n)
{
    const cm_type *a = &n->in[0]->type, *b = &n->out[0]->type;
    if (cm_rank(n->in[0]) < 2 || cm_rank(n->out[0]) != a->rank + 1)
        return false;
    for (int i = 0; i < a->rank - 1; i++)
        if (a->dims[i] != b->dims[i])
            return false;
    return cm_dim_is_size(a->dims[a->rank - 1]) && cm_dim_is_size(b->dims[b->rank - 1]) &&
           cm_dim_is_size(b->dims[b->rank - 2]);
}

/* Is c one number for each of the last two axes of v, and nothing else? */
static bool is_per_head(const cm_value *c, const cm_value *v)
{
    int rank = cm_rank(c), of = cm_rank(v);
    return cm_is_const(c) && rank >= 2 && rank <= of &&
           c->type.dims[rank - 1] == v->type.dims[of - 1] &&
           c->type.dims[rank - 2] == v->type.dims[of - 2] &&
           cm_volume(c) == v->type.dims[of - 1] * v->type.dims[of - 2];
}

/* Is v, perhaps transposed, multiplied by a constant? */
static bool meets_constant(const cm_value *v)
{
    cm_node *n = cm_only_reader(v);
    if (cm_is(n, CM_OP_TRANSPOSE))
        n = cm_only_reader(v = n->out[0]);
    return cm_is(n, CM_OP_MATMUL) && n->in[0] == v && cm_is_const(n->in[1]);
}

/* The Adds that read r, the one to go first; 0 when others read it. */
static int find_adds(const cm_value *r, cm_node **adds)
{
    int n = 0;
    for (const cm_use *u = r->uses; u; u = u->next) {
        cm_node *add = u->node;
        if (!cm_is(add, CM_OP_ADD) || add->network != r->network || add->in[0] == add->in[1] ||
            !is_per_head(add->in[1 - u->index], r) || n == MOST_ADDS)
            return 0;
        adds[n++] = add;
    }
    for (int i = 1; i < n; i++)
        if (meets_constant(adds[0]->out[0]) && !meets_constant(adds[i]->out[0])) {
            cm_node *t = adds[0];
            adds[0] = adds[i];
            adds[i] = t;
        }
    return n;
}

static cm_value *added(const cm_node *add, const cm_value *r)
{
    return add->in[add->in[0] == r];
}

static cm_status rewrite(cm_rewriter *rw, cm_node *n, const cm_linear *l, cm_node **adds,
                         int n_adds)
{
    const double *first, *other;
    double *rest;
    int64_t count;
    cm_node *y, *r, *z;
    cm_value *c;
    void *attr;
    CM_TRY(cm_const_f64(rw->cx, added(adds[0], n->out[0]), &first, &count));
    CM_TRY(cm_linear_apply(rw, n, l, NULL, first, &y));
    CM_TRY(cm_attr_copy(rw->cx, n->network->arena, n->op->attrs, n->attr, &attr));
    CM_TRY(
        cm_make_with(rw, n, CM_OP_RESHAPE, attr, n, (cm_value *[]){y->out[0], n->in[1]}, 2, 1, &r));
    CM_TRY(cm_replace(rw, adds[0], r->out[0], y));
    CM_NEW_N(rw->cx, rw->cx->scratch, rest, count, double);
    for (int i = 1; i < n_adds; i++) {
        const cm_value *v = added(adds[i], n->out[0]);
        CM_TRY(cm_const_f64(rw->cx, v, &other, &count));
        for (int64_t k = 0; k < count; k++)
            rest[k] = other[k] - first[k];
        CM_TRY(cm_make_const_f64(rw->cx, n->network, v->name, v->type.dtype, v->constant->rank,
                                 v->constant->dims, rest, &c));
        CM_TRY(cm_make(rw, adds[i], CM_OP_ADD, adds[i], (cm_value *[]){r->out[0], c}, 2, 1, &z));
        CM_TRY(cm_replace(rw, adds[i], z->out[0], NULL));
    }
    return CM_OK;
}

CM_PASS(bias_before_heads)
{
    CM_FOR_NODES (n, g) {
        cm_node *adds[MOST_ADDS];
        cm_linear l;
        int n_adds;
        if (!cm_is(n, CM_OP_RESHAPE) || !n->out[0]->n_uses || !cm_is_float(n->out[0]) ||
            !splits_last(n) || (n_adds = find_adds(n->out[0], adds)) == 0 ||
            !cm_linear_find(n->in[0], &l) || l.node->op->id != CM_OP_MATMUL)
            continue;
        if (!cm_rewrite(rw, n))
            return CM_OK;
        cm_arena_mark mark = cm_arena_save(rw->cx->scratch);
        CM_TRY(rewrite(rw, n, &l, adds, n_adds));
        cm_arena_restore(rw->cx->scratch, mark);
    }
    return CM_OK;
}
