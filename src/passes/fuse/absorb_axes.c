/* absorb_axes.c -- products read their operands, and write their result, with axes in any order.
 *
 *     t = Transpose(q) {perm=[0,2,1,3]}
 *     u = Transpose(k) {perm=[0,2,3,1]}
 *     s = MatMul(t, u)
 *  becomes
 *     s = Einsum(q, k) {equation="acbd,aebd->abce"}
 *
 * For what FusedMatMul's flags cannot say. Fires on Transposes that nobody but the product reads, and on one behind it
 * that alone reads its result, where each operand still lies along its rows or its columns, and the result along its
 * columns. Both operands are floats that vary; constants stay in a form that is packed.
 *
 * needs: types, uses; runs after absorb_transpose    keeps: types, uses
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdio.h>
#include <string.h>

#include "passes/product.h"
#include "passes/transposes.h"

enum { MOST_RANK = 8, SUMMED = 'z', COLUMN = 'y', ROW = 'x', ALONE = 'm' };

/* A letter for each axis of `rank` as the product sees them: batch..., row, column; batch axes from the right. */
static void letters(int rank, char row, char col, char out[MOST_RANK + 1])
{
    memset(out, 0, MOST_RANK + 1);
    for (int i = 1; i <= rank && i <= MOST_RANK; i++)
        out[rank - i] = i == 1 ? col : i == 2 ? row : (char)('a' + i - 3);
}

/* A batch axis of size 1 that is repeated for the other operand: a letter of its own, summed over. */
static void leave_ones(const cm_value *v, const cm_value *other, char *s)
{
    int rank = cm_rank(v), r = cm_rank(other);
    for (int i = 3; i <= rank && i <= r; i++)
        if (v->type.dims[rank - i] == 1 && other->type.dims[r - i] != 1)
            s[rank - i] = (char)(ALONE + i);
}

static void swap_last(char *s, int rank)
{
    char c = s[rank - 1];
    s[rank - 1] = s[rank - 2];
    s[rank - 2] = c;
}

/* The Transpose that makes *v for n alone: its letters before it, and *v. */
static bool look_through(const cm_node *n, cm_value **v, char *s, const cm_node **gone)
{
    cm_node *t = cm_made_by(*v, CM_OP_TRANSPOSE);
    int64_t perm[CM_MAX_RANK];
    char before[MOST_RANK + 1] = {0};
    int rank = cm_rank(*v);
    if (!t || cm_only_reader(*v) != n || !cm_perm(t, perm))
        return false;
    for (int i = 0; i < rank; i++)
        before[perm[i]] = s[i];
    char last = before[rank - 1];
    if (last != SUMMED && last != COLUMN && last != ROW)
        return false;
    memcpy(s, before, sizeof before);
    *v = t->in[0];
    *gone = t;
    return true;
}

/* Are the batch axes that both have of the same size, or 1? */
static bool batches_agree(const cm_value *a, const cm_value *b)
{
    int ra = cm_rank(a), rb = cm_rank(b);
    for (int i = 3; i <= ra && i <= rb; i++)
        if (a->type.dims[ra - i] != b->type.dims[rb - i] && a->type.dims[ra - i] != 1 &&
            b->type.dims[rb - i] != 1)
            return false;
    return true;
}

static bool suits(const cm_node *n, cm_product *p)
{
    return cm_product_of(n, p) && p->alpha == 1 && !p->batch_a && !p->batch_b &&
           cm_is_float(n->out[0]) && !cm_is_const(p->a) && !cm_is_const(p->b) &&
           cm_rank(p->a) >= 2 && cm_rank(p->b) >= 2 && cm_rank(p->a) <= MOST_RANK &&
           cm_rank(p->b) <= MOST_RANK && batches_agree(p->a, p->b);
}

static cm_status rewrite(cm_rewriter *rw, cm_node *n, cm_product *p)
{
    char a[MOST_RANK + 1], b[MOST_RANK + 1], c[MOST_RANK + 1], after[MOST_RANK + 1] = {0};
    char equation[3 * MOST_RANK + 8];
    const cm_node *gone[2] = {NULL};
    int ra = cm_rank(p->a), rb = cm_rank(p->b), rank = ra > rb ? ra : rb;
    int64_t perm[CM_MAX_RANK];
    letters(ra, ROW, SUMMED, a);
    letters(rb, SUMMED, COLUMN, b);
    letters(rank, ROW, COLUMN, c);
    leave_ones(p->a, p->b, a);
    leave_ones(p->b, p->a, b);
    if (p->trans_a)
        swap_last(a, ra);
    if (p->trans_b)
        swap_last(b, rb);
    look_through(n, &p->a, a, &gone[0]);
    look_through(n, &p->b, b, &gone[1]);
    cm_node *t = cm_only_reader(n->out[0]), *last = n, *y;
    if (cm_is(t, CM_OP_TRANSPOSE) && cm_perm(t, perm)) {
        for (int i = 0; i < rank; i++)
            after[i] = c[perm[i]];
        if (after[rank - 1] == COLUMN) {
            memcpy(c, after, sizeof after);
            last = t;
        }
    }
    if ((!gone[0] && !gone[1] && last == n) || !cm_rewrite(rw, n))
        return CM_OK;
    void *attr;
    snprintf(equation, sizeof equation, "%s,%s->%s", a, b, c);
    CM_TRY(cm_new_attr(rw->cx, n->network, CM_OP_EINSUM, &attr));
    CM_TRY(cm_attr_put_string(rw->cx, n->network, CM_OP_EINSUM, attr, "equation", equation));
    CM_TRY(cm_make_with(rw, last, CM_OP_EINSUM, attr, n, (cm_value *[]){p->a, p->b}, 2, 1, &y));
    for (int i = 0; i < 2; i++)
        if (gone[i])
            CM_TRY(cm_node_add_from(rw->cx, y, gone[i]));
    if (last != n)
        CM_TRY(cm_node_add_from(rw->cx, y, last));
    CM_TRY(cm_replace(rw, last, y->out[0], y));
    cm_drop_if_dead(last);
    return CM_OK;
}

CM_PASS(absorb_axes)
{
    CM_FOR_NODES (n, g) {
        cm_product p;
        if (rw->n_rewrites >= rw->limit)
            return CM_OK;
        if (n->n_out != 1 || !n->out[0] || !n->out[0]->n_uses || !suits(n, &p))
            continue;
        CM_TRY(rewrite(rw, n, &p));
    }
    return CM_OK;
}
