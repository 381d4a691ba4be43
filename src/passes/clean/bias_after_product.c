/* bias_after_product.c -- a constant added before a product with constants is added after it.
 *
 *     a = Add(x, @c)                              x has other readers
 *     y = MatMul(Transpose(a), @w)
 *  becomes
 *     p = MatMul(Transpose(x), @w)
 *     y = Add(p, @c')                             c' = Transpose(c) w
 *
 * where the epilogue takes it. Fires when the Add and the Transpose (which may be absent) are read by nobody else and
 * c is the same for all rows of the product and has all of its columns. Not when x is read by the Add alone: it belongs to what makes x.
 *
 * needs: types, uses; constants are folded later    keeps: types, uses
 * numerics: the order of a sum
 * SPDX-License-Identifier: Apache-2.0
 */
#include "passes/transposes.h"

typedef struct {
    cm_node *add, *transpose; /* transpose: NULL when there is none */
    cm_value *x, *c;
    int64_t perm[CM_MAX_RANK];
} found;

static bool find(const cm_node *n, found *m)
{
    if (!cm_is(n, CM_OP_MATMUL) || !n->out[0]->n_uses || !cm_is_float(n->out[0]) ||
        !cm_is_const(n->in[1]) || cm_rank(n->in[1]) < 2 || cm_only_reader(n->in[0]) != n)
        return false;
    int rank = cm_rank(n->in[0]), row = rank - 2, column = rank - 1;
    m->transpose = cm_made_by(n->in[0], CM_OP_TRANSPOSE);
    m->add = cm_made_by(m->transpose ? m->transpose->in[0] : n->in[0], CM_OP_ADD);
    if (rank < 2 || !m->add || (m->transpose && !cm_perm(m->transpose, m->perm)) ||
        !cm_sole_use(m->add->out[0]))
        return false;
    int i = cm_is_const(m->add->in[1]);
    m->x = m->add->in[1 - i];
    m->c = m->add->in[i];
    if (m->transpose) {
        row = (int)m->perm[row];
        column = (int)m->perm[column];
    }
    row -= rank - cm_rank(m->c);
    column -= rank - cm_rank(m->c);
    return cm_is_const(m->c) && !cm_is_const(m->x) && m->x->n_uses > 1 &&
           cm_same_shape(m->x, m->add->out[0]) && cm_rank(m->c) >= 1 &&
           (row < 0 || m->c->type.dims[row] == 1) && column >= 0 &&
           m->c->type.dims[column] == m->x->type.dims[column + rank - cm_rank(m->c)];
}

/* The constant with as many axes as x. */
static cm_status full_rank(cm_rewriter *rw, const found *m, cm_network *g, cm_value **out)
{
    int64_t dims[CM_MAX_RANK], n;
    int rank = cm_rank(m->x), missing = rank - cm_rank(m->c);
    const double *v;
    for (int i = 0; i < rank; i++)
        dims[i] = i < missing ? 1 : m->c->constant->dims[i - missing];
    CM_TRY(cm_const_f64(rw->cx, m->c, &v, &n));
    return cm_make_const_f64(rw->cx, g, m->c->name, m->c->type.dtype, rank, dims, v, out);
}

static cm_status rewrite(cm_rewriter *rw, cm_node *n, const found *m)
{
    cm_value *in[] = {m->x, NULL};
    cm_node *t, *p[2], *y;
    int rank = cm_rank(m->x);
    CM_TRY(full_rank(rw, m, n->network, &in[1]));
    for (int i = 0; i < 2; i++) {
        if (m->transpose) {
            CM_TRY(cm_make_transpose(rw, n, in[i], m->perm, rank, m->transpose, &t));
            in[i] = t->out[0];
        }
        CM_TRY(cm_make(rw, n, CM_OP_MATMUL, n, (cm_value *[]){in[i], n->in[1]}, 2, 1, &p[i]));
    }
    CM_TRY(cm_make(rw, n, CM_OP_ADD, m->add, (cm_value *[]){p[0]->out[0], p[1]->out[0]}, 2, 1, &y));
    CM_TRY(cm_replace(rw, n, y->out[0], NULL));
    cm_drop_if_dead(n);
    return CM_OK;
}

CM_PASS(bias_after_product)
{
    CM_FOR_NODES (n, g) {
        found m;
        if (!find(n, &m))
            continue;
        if (!cm_rewrite(rw, n))
            return CM_OK;
        cm_arena_mark mark = cm_arena_save(rw->cx->scratch);
        CM_TRY(rewrite(rw, n, &m));
        cm_arena_restore(rw->cx->scratch, mark);
    }
    return CM_OK;
}
