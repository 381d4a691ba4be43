/* factor_products.c -- a sum of two products with one operand in common as one product.
 *
 *     a = MatMul(q, b)
 *     y = Add(a, MatMul(q, c))
 *  becomes
 *     y = MatMul(q, Add(b, c))
 *
 * and, as relative positions in WeNet's Conformer are written (@u and @v per head and column),
 *
 *     y = Add(MatMul(Add(q, @u), b), MatMul(Add(q, @v), c))
 *  becomes
 *     y = Add(MatMul(Add(q, @u), Add(b, c)), MatMul(@(v-u), c))
 *
 * where the last product has one row. The common operand may be transposed behind the Adds, and either @u or @v
 * may be absent. Where b and c are transposed heads of two tensors, these are added before they are taken apart:
 * the product that makes one of them takes the Add. Where c comes from a product of x with constants, the row is a
 * product of x with constants too, and c is read by the Add alone. Fires when nobody else reads the two products, b and c have the same
 * sizes but for batches, and the products more than one row. Not when the sum of b and c has more batches than both.
 *
 * needs: types, uses; constants are folded later    keeps: types, uses
 * numerics: the order of a sum
 * SPDX-License-Identifier: Apache-2.0
 */
#include <string.h>

#include "passes/transposes.h"
#include "passes/views.h"

/* The left operand of a product: T(x + c), both optional. */
typedef struct {
    cm_node *product, *transpose, *add;
    cm_value *x, *c; /* c: NULL when nothing is added */
    int64_t perm[CM_MAX_RANK];
} side;

/* The right operand: T(R(v)), where R splits the last axis into heads; or v itself. */
typedef struct {
    cm_value *v;
    cm_node *transpose, *reshape; /* NULL: v is the operand itself */
    int64_t perm[CM_MAX_RANK];
} heads;

/* Does c, added to x, give every row of the transposed x (or of x) the same? */
static bool is_same_for_rows(const side *s, const cm_value *x, const cm_value *c)
{
    int rank = cm_rank(x), of = cm_rank(c), row = rank - 2, column = rank - 1;
    if (s->transpose) {
        row = (int)s->perm[row];
        column = (int)s->perm[column];
    }
    row -= rank - of;
    column -= rank - of;
    return of >= 1 && of <= rank && (row < 0 || c->type.dims[row] == 1) && column >= 0 &&
           c->type.dims[column] == x->type.dims[column + rank - of];
}

/* n as T(x + c) times something. */
static bool read_side(cm_node *n, side *s)
{
    *s = (side){.product = n};
    if (!cm_is(n, CM_OP_MATMUL) || cm_rank(n->in[0]) < 2 || cm_rank(n->in[1]) < 2 ||
        !cm_sole_use(n->out[0]))
        return false;
    s->x = n->in[0];
    s->transpose = cm_made_by(s->x, CM_OP_TRANSPOSE);
    if (s->transpose && !cm_perm(s->transpose, s->perm))
        return false;
    if (s->transpose)
        s->x = s->transpose->in[0];
    cm_node *add = cm_made_by(s->x, CM_OP_ADD);
    for (int i = 0; add && i < 2; i++) {
        cm_value *c = add->in[i], *x = add->in[1 - i];
        if (cm_is_const(c) && !cm_is_const(x) && cm_same_shape(x, add->out[0]) &&
            is_same_for_rows(s, x, c)) {
            s->add = add;
            s->c = c;
            s->x = x;
            return true;
        }
    }
    return true;
}

/* The Add of s is what x of the other one is. */
static void keep_add(side *s)
{
    s->x = s->add ? s->add->out[0] : s->x;
    s->add = NULL;
    s->c = NULL;
}

static bool same_operand(side *a, side *b)
{
    if (!a->transpose != !b->transpose ||
        (a->transpose && (cm_rank(a->transpose->in[0]) != cm_rank(b->transpose->in[0]) ||
                          !cm_perm_equal(a->perm, b->perm, cm_rank(a->transpose->in[0])))))
        return false;
    if (a->x == b->x)
        return true;
    side x = *a, y = *b;
    keep_add(&x);
    if (x.x == b->x) {
        *a = x;
        return true;
    }
    keep_add(&y);
    if (y.x == a->x) {
        *b = y;
        return true;
    }
    return false;
}

/* Matrices of the same size, whose sum has no more batches than one of them. */
static bool can_add(const cm_value *b, const cm_value *c)
{
    int rb = cm_rank(b), rc = cm_rank(c);
    bool b_wide = true, c_wide = true;
    if (b->type.dtype != c->type.dtype || b->type.dims[rb - 1] != c->type.dims[rc - 1] ||
        b->type.dims[rb - 2] != c->type.dims[rc - 2])
        return false;
    for (int i = 3; i <= rb || i <= rc; i++) {
        cm_dim x = i <= rb ? b->type.dims[rb - i] : 1, y = i <= rc ? c->type.dims[rc - i] : 1;
        b_wide &= y == 1 || x == y;
        c_wide &= x == 1 || x == y;
    }
    return b_wide || c_wide;
}

static bool splits_last(const cm_node *n)
{
    const cm_type *a = &n->in[0]->type, *b = &n->out[0]->type;
    if (cm_rank(n->in[0]) < 2 || cm_rank(n->out[0]) != a->rank + 1)
        return false;
    return !memcmp(a->dims, b->dims, (size_t)(a->rank - 1) * sizeof *a->dims);
}

static void read_heads(cm_value *v, heads *h)
{
    *h = (heads){.v = v};
    cm_node *t = cm_made_by(v, CM_OP_TRANSPOSE), *r;
    if (!t || !cm_perm(t, h->perm) || !(r = cm_made_by(t->in[0], CM_OP_RESHAPE)) || !splits_last(r))
        return;
    h->transpose = t;
    h->reshape = r;
    h->v = r->in[0];
}

/* Has the constant c the heads and columns that those of `like` are? */
static bool has_heads(const cm_value *c, const cm_value *b, const heads *like)
{
    int rank = cm_rank(b);
    if (!cm_is_const(c) || c->constant->packed || cm_rank(c) != rank)
        return false;
    for (int i = 0; i < rank; i++)
        if (like->perm[i] >= rank - 2 && c->type.dims[i] != b->type.dims[i])
            return false;
    return true;
}

/* The constant v as it was before the heads of `like` were taken apart. */
static cm_status merge_heads(cm_rewriter *rw, cm_node *before, const heads *like, cm_value *v,
                             cm_value **out)
{
    int64_t shape[CM_MAX_RANK];
    int rank = cm_rank(v);
    cm_node *r;
    CM_TRY(cm_constant_before(rw, before->network, v, like->perm, rank, &v));
    memcpy(shape, v->constant->dims, (size_t)rank * sizeof *shape);
    shape[rank - 2] *= shape[rank - 1];
    CM_TRY(cm_make_reshape(rw, before, v, shape, rank - 1, like->reshape, &r));
    *out = r->out[0];
    return CM_OK;
}

/* b + c, before heads are taken apart where both can be. */
static cm_status add_operands(cm_rewriter *rw, cm_node *before, const cm_node *like, cm_value *b,
                              cm_value *c, cm_value **out)
{
    heads hb, hc;
    cm_node *n, *add;
    cm_value *whole = NULL;
    read_heads(b, &hb);
    read_heads(c, &hc);
    int rank = cm_rank(b);
    if (hb.transpose && hc.transpose && cm_rank(c) == rank &&
        cm_perm_equal(hb.perm, hc.perm, rank) &&
        hb.reshape->out[0]->type.dims[rank - 1] == hc.reshape->out[0]->type.dims[rank - 1])
        whole = hc.v;
    else if (hb.transpose && has_heads(c, b, &hb))
        CM_TRY(merge_heads(rw, before, &hb, c, &whole));
    if (whole) {
        CM_TRY(cm_make(rw, before, CM_OP_ADD, like, (cm_value *[]){hb.v, whole}, 2, 1, &add));
        if (cm_same_shape(add->out[0], hb.v)) {
            CM_TRY(cm_make(rw, before, CM_OP_RESHAPE, hb.reshape,
                           (cm_value *[]){add->out[0], hb.reshape->in[1]}, 2, 1, &n));
            CM_TRY(cm_make_transpose(rw, before, n->out[0], hb.perm, rank, hb.transpose, &n));
            *out = n->out[0];
            return CM_OK;
        }
    }
    CM_TRY(cm_make(rw, before, CM_OP_ADD, like, (cm_value *[]){b, c}, 2, 1, &add));
    *out = add->out[0];
    return CM_OK;
}

/* ---- The row that is left: T(c) times the right operand ------------------------------------- */

/* Constant minus constant, either NULL for zero, with as many axes as x, transposed like s. */
static cm_status make_offset(cm_rewriter *rw, cm_node *before, const side *s, cm_value *plus,
                             cm_value *minus, cm_value **out)
{
    cm_value *some = plus ? plus : minus;
    int rank = cm_rank(s->x), of = cm_rank(some);
    int64_t dims[CM_MAX_RANK], perm[CM_MAX_RANK], zero_dims[1] = {1};
    double zero = 0;
    cm_value *none;
    cm_node *n;
    CM_TRY(cm_make_const_f64(rw->cx, before->network, NULL, some->type.dtype, 1, zero_dims, &zero,
                             &none));
    CM_TRY(cm_make(rw, before, CM_OP_SUB, s->product,
                   (cm_value *[]){plus ? plus : none, minus ? minus : none}, 2, 1, &n));
    of = cm_rank(n->out[0]);
    for (int i = 0; i < rank; i++) {
        dims[i] = i < rank - of ? 1 : n->out[0]->type.dims[i - (rank - of)];
        perm[i] = s->transpose ? s->perm[i] : i;
    }
    CM_TRY(cm_make_reshape(rw, before, n->out[0], dims, rank, s->product, &n));
    CM_TRY(cm_make_transpose(rw, before, n->out[0], perm, rank, s->product, &n));
    *out = n->out[0];
    return CM_OK;
}

/* A Transpose of x that stands before `before`, made by an earlier rewrite or now. */
static cm_status transposed(cm_rewriter *rw, cm_node *before, cm_value *x, const cm_node *like,
                            cm_value **out)
{
    int64_t perm[CM_MAX_RANK], have[CM_MAX_RANK];
    int rank = cm_rank(x);
    cm_node *n;
    for (int i = 0; i < rank; i++)
        perm[i] = i < rank - 2 ? i : i == rank - 2 ? rank - 1 : rank - 2;
    for (const cm_use *u = x->uses; u; u = u->next)
        if (u->node && u->node->network == before->network && cm_is(u->node, CM_OP_TRANSPOSE) &&
            u->node->mark < before->mark && cm_perm(u->node, have) &&
            cm_perm_equal(perm, have, rank)) {
            *out = u->node->out[0];
            return CM_OK;
        }
    CM_TRY(cm_make_transpose(rw, before, x, perm, rank, like, &n));
    n->mark = before->mark - 1;
    *out = n->out[0];
    return CM_OK;
}

/* Is c the transposed heads of MatMul(x, @w), so that a row per head times c is a row per head times x? */
static cm_node *product_behind(const cm_value *row, const heads *h)
{
    cm_node *p = h->transpose ? cm_made_by(h->v, CM_OP_MATMUL) : NULL;
    if (!p || !cm_is_const(p->in[1]) || p->in[1]->constant->packed || cm_rank(p->in[1]) != 2 ||
        cm_rank(p->in[0]) != 3 || cm_rank(row) != 4 ||
        !cm_perm_equal(h->perm, (int64_t[]){0, 2, 3, 1}, 4) || row->type.dims[0] != 1)
        return NULL;
    const cm_type *r = &h->reshape->out[0]->type;
    return row->type.dims[1] == r->dims[2] && row->type.dims[2] == 1 && r->dims[3] > 0 ? p : NULL;
}

/* row [1,h,1,d] times T(R(x w)), all of one row: w's columns weighted by it, h rows, times T(x). */
static cm_status row_of_product(cm_rewriter *rw, cm_node *before, const cm_node *like,
                                cm_value *row, const heads *h, const cm_node *p, cm_value **out)
{
    const cm_type *r = &h->reshape->out[0]->type;
    int64_t heads_n = r->dims[2], size = r->dims[3], k = p->in[1]->constant->dims[0];
    cm_value *xt;
    cm_node *n, *w;
    /* w: [k, h*d] as [h, d, k], so that [h, 1, d] times it is [h, 1, k]. */
    CM_TRY(cm_make_reshape(rw, before, p->in[1], (int64_t[]){k, heads_n, size}, 3, like, &w));
    CM_TRY(cm_make_transpose(rw, before, w->out[0], (int64_t[]){1, 2, 0}, 3, like, &w));
    CM_TRY(cm_make_reshape(rw, before, row, (int64_t[]){heads_n, 1, size}, 3, like, &n));
    CM_TRY(cm_make(rw, before, CM_OP_MATMUL, like, (cm_value *[]){n->out[0], w->out[0]}, 2, 1, &n));
    CM_TRY(cm_make_reshape(rw, before, n->out[0], (int64_t[]){heads_n, k}, 2, like, &n));
    CM_TRY(transposed(rw, before, p->in[0], like, &xt));
    CM_TRY(cm_make(rw, before, CM_OP_MATMUL, like, (cm_value *[]){n->out[0], xt}, 2, 1, &n));
    cm_value *axes;
    int64_t one = 1, at = 2;
    CM_TRY(cm_make_const_i64(rw->cx, before->network, NULL, 1, &one, &at, &axes));
    CM_TRY(cm_make(rw, before, CM_OP_UNSQUEEZE, like, (cm_value *[]){n->out[0], axes}, 2, 1, &n));
    *out = n->out[0];
    return CM_OK;
}

static cm_status make_row(cm_rewriter *rw, cm_node *before, const side *base, const side *other,
                          cm_value **out)
{
    cm_value *row;
    heads h;
    cm_node *n, *p;
    CM_TRY(make_offset(rw, before, base, other->c, base->c, &row));
    read_heads(other->product->in[1], &h);
    if ((p = product_behind(row, &h)) != NULL)
        return row_of_product(rw, before, other->product, row, &h, p, out);
    CM_TRY(cm_make(rw, before, CM_OP_MATMUL, other->product,
                   (cm_value *[]){row, other->product->in[1]}, 2, 1, &n));
    *out = n->out[0];
    return CM_OK;
}

static cm_status rewrite(cm_rewriter *rw, cm_node *n, const side *base, const side *other)
{
    cm_value *sum, *row;
    cm_node *p, *y;
    CM_TRY(add_operands(rw, n, n, base->product->in[1], other->product->in[1], &sum));
    CM_TRY(cm_make(rw, n, CM_OP_MATMUL, base->product, (cm_value *[]){base->product->in[0], sum}, 2,
                   1, &p));
    CM_TRY(cm_node_add_from(rw->cx, p, other->product));
    y = p;
    if (base->c != other->c) {
        CM_TRY(make_row(rw, n, base, other, &row));
        CM_TRY(cm_make(rw, n, CM_OP_ADD, n, (cm_value *[]){p->out[0], row}, 2, 1, &y));
    }
    return cm_replace(rw, n, y->out[0], y);
}

CM_PASS(factor_products)
{
    cm_number_nodes(g);
    CM_FOR_NODES (n, g) {
        side a, b;
        if (!cm_is(n, CM_OP_ADD) || !n->out[0]->n_uses || !cm_is_float(n->out[0]) ||
            n->in[0] == n->in[1] || !n->in[0]->producer || !n->in[1]->producer ||
            n->in[0]->network != g || n->in[1]->network != g ||
            !read_side(n->in[0]->producer, &a) || !read_side(n->in[1]->producer, &b) ||
            !same_operand(&a, &b) || !can_add(a.product->in[1], b.product->in[1]) ||
            a.product->out[0]->type.dims[cm_rank(a.product->out[0]) - 2] == 1)
            continue;
        if (!cm_rewrite(rw, n))
            return CM_OK;
        bool b_is_base = a.c && !b.c;
        CM_TRY(rewrite(rw, n, b_is_base ? &b : &a, b_is_base ? &a : &b));
    }
    return CM_OK;
}
