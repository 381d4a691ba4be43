/* fuse_qkv.c -- products of the same input with different weights as one product.
 *
 *     q = Add(MatMul(x, @wq), @bq)
 *     k = Add(MatMul(x, @wk), @bk)
 *     v = Add(MatMul(x, @wv), @bv)
 *     y = cameo.Attention(q, k, v)
 *  becomes
 *     p = Add(MatMul(x, @wqkv), @bqkv)
 *     y = cameo.Attention(p, p, p) {offsets=...}
 *
 * The operands of one attention (all three, or two of them) read the columns of the one result where they lie. Other
 * products, three or more, get a Split after them; not when a pointwise node reads one of them, which would
 * be that product's epilogue. Fires when all weights are constant matrices of one element type that nobody
 * else reads. A bias that only some have is zero for the others.
 *
 * needs: types, uses    keeps: types, uses
 * SPDX-License-Identifier: Apache-2.0
 */
#include <string.h>

#include "base/size.h"
#include "passes/heads_view.h"

enum { MOST_ITEMS = 16 };

/* One product and the constant row that may follow it. */
typedef struct {
    cm_node *product, *add; /* add: NULL when there is none */
    cm_value *bias;
    cm_value *result;
    int64_t columns;
} item;

static bool is_plain(const cm_value *v)
{
    return cm_is_const(v) && !v->constant->packed && cm_is_float(v);
}

/* A row of n elements, or n behind ones. */
static bool is_row(const cm_value *v, int64_t n)
{
    if (!is_plain(v) || v->constant->rank < 1)
        return false;
    return cm_tensor_elems(v->constant) == n && v->constant->dims[v->constant->rank - 1] == n;
}

/* Is n MatMul(x, @w) with a weight of its own? Fills what follows it too. */
static bool read_item(cm_node *n, item *out)
{
    if (!cm_is(n, CM_OP_MATMUL) || !is_plain(n->in[1]) || cm_rank(n->in[1]) != 2 ||
        n->in[1]->n_uses != 1 || cm_rank(n->in[0]) < 2 || cm_is_const(n->in[0]))
        return false;
    *out = (item){.product = n, .result = n->out[0], .columns = n->in[1]->constant->dims[1]};
    cm_node *add = cm_only_reader(n->out[0]);
    if (!cm_is(add, CM_OP_ADD) || !cm_same_shape(add->out[0], n->out[0]))
        return true;
    cm_value *other = add->in[add->in[0] == n->out[0]];
    if (!is_row(other, out->columns) || other->type.dtype != n->in[1]->type.dtype)
        return true;
    out->add = add;
    out->bias = other;
    out->result = add->out[0];
    return true;
}

static bool same_kind(const item *a, const item *b)
{
    const cm_value *wa = a->product->in[1], *wb = b->product->in[1];
    return a->product->in[0] == b->product->in[0] && wa->type.dtype == wb->type.dtype &&
           wa->constant->dims[0] == wb->constant->dims[0];
}

/* The rows of all items side by side; `weights` or else biases. */
static cm_status join(cm_rewriter *rw, cm_network *g, const item *items, int n, bool weights,
                      cm_value **out)
{
    const cm_tensor *first = items[0].product->in[1]->constant;
    int64_t rows = weights ? first->dims[0] : 1, columns = 0;
    size_t size = cm_dtype_size(first->dtype), bytes, at = 0;
    cm_tensor *t;
    for (int i = 0; i < n; i++)
        if (!cm_add_i64(columns, items[i].columns, &columns))
            return cm_fail(rw->cx, CM_ERR_INTERNAL, "a weight would be too large");
    CM_NEW(rw->cx, g->arena, t, cm_tensor);
    const int64_t matrix[] = {rows, columns}, *dims = weights ? matrix : &matrix[1];
    if (!cm_tensor_shape(t, first->dtype, weights ? 2 : 1, dims) || !cm_tensor_bytes(t, &bytes))
        return cm_fail(rw->cx, CM_ERR_INTERNAL, "a weight would be too large");
    t->data = cm_arena_alloc_n(g->arena, bytes, 1, 64, 0);
    t->capacity_bytes = bytes;
    if (!t->data)
        return cm_fail_memory(rw->cx);
    for (int64_t r = 0; r < rows; r++)
        for (int i = 0; i < n; i++) {
            size_t width = (size_t)items[i].columns * size;
            const cm_value *from = weights ? items[i].product->in[1] : items[i].bias;
            if (from)
                memcpy((char *)t->data + at, (const char *)from->constant->data + (size_t)r * width,
                       width);
            else
                memset((char *)t->data + at, 0, width);
            at += width;
        }
    return cm_network_add_constant(rw->cx, g, items[0].product->in[1]->name, t, out);
}

/* The one product, before `before`. */
static cm_status merge(cm_rewriter *rw, cm_node *before, const item *items, int n, cm_value **out)
{
    cm_network *g = before->network;
    cm_value *w, *b;
    cm_node *product, *add = NULL;
    bool biased = false;
    for (int i = 0; i < n; i++)
        biased |= items[i].bias != NULL;
    CM_TRY(join(rw, g, items, n, true, &w));
    CM_TRY(cm_make(rw, before, CM_OP_MATMUL, items[0].product,
                   (cm_value *[]){items[0].product->in[0], w}, 2, 1, &product));
    for (int i = 1; i < n; i++)
        CM_TRY(cm_node_add_from(rw->cx, product, items[i].product));
    *out = product->out[0];
    if (!biased)
        return CM_OK;
    const cm_node *like = NULL;
    for (int i = 0; i < n; i++)
        like = items[i].add && !like ? items[i].add : like;
    CM_TRY(join(rw, g, items, n, false, &b));
    CM_TRY(cm_make(rw, before, CM_OP_ADD, like, (cm_value *[]){product->out[0], b}, 2, 1, &add));
    for (int i = 0; i < n; i++)
        if (items[i].add)
            CM_TRY(cm_node_add_from(rw->cx, add, items[i].add));
    *out = add->out[0];
    return CM_OK;
}

/* ---- The operands of an attention ----------------------------------------------------------- */

static bool read_only_by(const cm_value *v, const cm_node *n)
{
    for (const cm_use *u = v->uses; u; u = u->next)
        if (u->node != n)
            return false;
    return true;
}

/* Operand i of attention n as a product whose result it reads whole, perhaps reshaped. */
static bool read_operand(cm_node *n, int i, item *out)
{
    static const char *const layouts[] = {"q_layout", "k_layout", "v_layout"};
    cm_value *v = n->in[i];
    cm_ints offsets = cm_int_list(n, "offsets");
    if (cm_rank(v) != 3 || (offsets.n && offsets.v[i]) || cm_int_list(n, "head_steps").n ||
        !(cm_string_is(n, layouts[i], "bshd") || cm_string_is(n, layouts[i], "sbhd")) ||
        !read_only_by(v, n))
        return false;
    cm_node *view = cm_made_by(v, CM_OP_RESHAPE);
    if (view) {
        if (!read_only_by(view->in[0], view))
            return false;
        v = view->in[0];
    }
    cm_node *p = v->producer;
    if (p && p->network == n->network && cm_is(p, CM_OP_ADD))
        p = cm_made_by(p->in[0], CM_OP_MATMUL) ? p->in[0]->producer : p->in[1]->producer;
    return p && p->network == n->network && read_item(p, out) && out->result == v &&
           n->in[i]->type.dims[2] == out->columns;
}

/* The operands of which `which` has a bit as one product. */
static cm_status fuse_operands(cm_rewriter *rw, cm_node *n, int which, bool *done)
{
    item items[3];
    int64_t offsets[3] = {0, 0, 0}, at = 0;
    int k = 0, first = which & 1 ? 0 : 1;
    *done = false;
    cm_ints have = cm_int_list(n, "offsets");
    for (int i = 0; i < 3; i++) {
        item *it = &items[k];
        offsets[i] = have.n ? have.v[i] : 0;
        if (!(which & 1 << i))
            continue;
        if (!read_operand(n, i, it) || !same_kind(it, &items[0]))
            return CM_OK;
        for (int j = 0; j < 2; j++) /* the same batch and rows */
            if (n->in[i]->type.dims[j] != n->in[first]->type.dims[j])
                return CM_OK;
        for (int j = 0; j < k; j++)
            if (items[j].product == it->product)
                return CM_OK;
        offsets[i] = at;
        at += it->columns;
        k++;
    }
    cm_dim dims[] = {n->in[first]->type.dims[0], n->in[first]->type.dims[1], at};
    const cm_type *made = &items[0].product->out[0]->type;
    cm_dim whole[CM_MAX_RANK];
    memcpy(whole, made->dims, (size_t)made->rank * sizeof *whole);
    whole[made->rank - 1] = at;
    if (!cm_can_reshape(made->rank, whole, 3, dims))
        return CM_OK;
    if (!cm_rewrite(rw, n))
        return CM_OK;
    cm_value *p;
    CM_TRY(merge(rw, n, items, k, &p));
    CM_TRY(cm_view_as(rw, n, items[0].product, p, 3, dims, &p));
    for (int i = 0; i < 3; i++) {
        if (!(which & 1 << i))
            continue;
        cm_node *old = n->in[i]->producer;
        CM_TRY(cm_node_set_input(rw->cx, n, i, p));
        cm_drop_if_dead(old);
    }
    CM_TRY(cm_set_ints(rw->cx, n, "offsets", offsets, 3));
    *done = true;
    return cm_node_infer(rw->cx, n);
}

/* ---- Others --------------------------------------------------------------------------------- */

/* Can the pointwise node n be no epilogue of what makes v, since it enlarges v? */
static bool enlarges(const cm_node *n, const cm_value *v)
{
    return n->out[0] && cm_rank(n->out[0]) >= 0 && !cm_same_shape(n->out[0], v);
}

/* Would merging cost the product its epilogue? */
static bool feeds_pointwise(const item *it)
{
    for (const cm_use *u = it->result->uses; u; u = u->next)
        if (!u->node || ((u->node->op->traits & CM_ELTWISE) && !enlarges(u->node, it->result)))
            return true;
    return it->result->n_uses == 0;
}

/* All products that read x like n does, n being the first of them. */
static int read_siblings(cm_node *n, item *items)
{
    cm_value *x = n->in[0];
    int k = 0;
    for (const cm_use *u = x->uses; u && k < MOST_ITEMS; u = u->next) {
        item it;
        if (!u->node || u->node->network != n->network || u->index != 0 ||
            !read_item(u->node, &it) || feeds_pointwise(&it) || (k && !same_kind(&it, &items[0])))
            continue;
        int at = k++;
        for (; at > 0 && items[at - 1].product->mark > it.product->mark; at--) /* in their order */
            items[at] = items[at - 1];
        items[at] = it;
    }
    return k && items[0].product == n ? k : 0;
}

static cm_status fuse_siblings(cm_rewriter *rw, cm_node *n)
{
    enum { WORTH_A_SPLIT = 3 };
    item items[MOST_ITEMS];
    int k = read_siblings(n, items);
    if (k < WORTH_A_SPLIT)
        return CM_OK;
    if (!cm_rewrite(rw, n))
        return CM_OK;
    int64_t sizes[MOST_ITEMS], n_sizes = k;
    cm_value *p, *s;
    cm_node *split;
    void *attr;
    for (int i = 0; i < k; i++)
        sizes[i] = items[i].columns;
    CM_TRY(merge(rw, n, items, k, &p));
    CM_TRY(cm_make_const_i64(rw->cx, n->network, NULL, 1, &n_sizes, sizes, &s));
    CM_TRY(cm_new_attr(rw->cx, n->network, CM_OP_SPLIT, &attr));
    CM_TRY(cm_attr_put_int(rw->cx, CM_OP_SPLIT, attr, "axis", -1));
    CM_TRY(cm_make_with(rw, n, CM_OP_SPLIT, attr, items[0].product, (cm_value *[]){p, s}, 2, k,
                        &split));
    for (int i = 0; i < k; i++)
        CM_TRY(cm_replace_uses(rw->cx, items[i].result, split->out[i]));
    return CM_OK;
}

CM_PASS(fuse_qkv)
{
    static const int sets[] = {7, 6, 5, 3}; /* bits: q, k, v */
    CM_FOR_NODES (n, g) {
        bool done = false;
        for (int i = 0; i < CM_COUNT(sets) && !done && cm_is(n, CM_OP_FUSED_ATTENTION); i++)
            CM_TRY(fuse_operands(rw, n, sets[i], &done));
    }
    cm_number_nodes(g);
    CM_FOR_NODES (n, g)
        if (cm_is(n, CM_OP_MATMUL) && n->out[0]->n_uses)
            CM_TRY(fuse_siblings(rw, n));
    return CM_OK;
}
