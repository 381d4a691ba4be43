/* merge_siblings.c -- convolutions of one tensor as one convolution, and products with it likewise.
 *
 *     a = Relu(Conv(x, @v))
 *     b = Relu(Conv(x, @w))
 *  becomes
 *     a, b = Split(Relu(Conv(x, @vw)))                 channels of a, then those of b
 *
 * and, where the results stand side by side in a Concat over channels, without the Split:
 *
 *     y = Concat(Conv(x, @v), Conv(x, @w), z)
 *  becomes
 *     y = Concat(Conv(x, @vw), z)
 *
 * Products with a constant matrix on the left, MatMul(@v, x) and MatMul(@w, x), are the same thing. Fires when weights are
 * constants of one element type that nobody else reads, attributes and window are the same, there are no groups, and the same
 * function of one tensor (or none) follows all of them. With a Split, when that moves fewer elements than reading x
 * once saves; not for a result that a pointwise node reads, which would be the convolution's epilogue.
 *
 * needs: types, uses    keeps: types, uses
 * SPDX-License-Identifier: Apache-2.0
 */
#include <string.h>

#include "base/size.h"
#include "passes/match.h"

enum { MOST_ITEMS = 64, MOST_USES = 1024 };

typedef struct {
    cm_node *n, *after; /* after: the function that follows, or NULL */
    cm_value *x, *weights, *bias, *result;
    int64_t rows;
} item;

static bool is_plain(const cm_value *v)
{
    return cm_is_const(v) && !v->constant->packed && cm_is_float(v);
}

static bool is_function(const cm_node *n)
{
    return n && n->n_in == 1 && n->n_out == 1 && (n->op->traits & CM_ELTWISE) && !n->n_subs &&
           !n->epilogue.program && cm_is_float(n->out[0]);
}

/* Is n one that can be merged? */
static bool read_item(cm_node *n, item *it)
{
    bool conv = cm_is(n, CM_OP_CONV);
    if ((!conv && !cm_is(n, CM_OP_MATMUL)) || !n->out[0]->n_uses)
        return false;
    int w = conv ? 1 : 0;
    *it = (item){.n = n,
                 .x = n->in[1 - w],
                 .weights = n->in[w],
                 .bias = conv && n->n_in > 2 ? n->in[2] : NULL,
                 .result = n->out[0]};
    if (!is_plain(it->weights) || it->weights->n_uses != 1 || cm_is_const(it->x) ||
        (it->bias && !is_plain(it->bias)) ||
        (conv ? cm_rank(it->weights) < 3 || cm_int(n, "group") != 1
              : cm_rank(it->weights) != 2 || cm_rank(it->x) < 2))
        return false;
    it->rows = it->weights->constant->dims[0];
    if (it->rows < 1)
        return false;
    cm_node *after = cm_only_reader(n->out[0]);
    if (is_function(after) && cm_same_shape(n->out[0], after->out[0]) && after->out[0]->n_uses) {
        it->after = after;
        it->result = after->out[0];
    }
    return true;
}

static bool same_node(const cm_node *a, const cm_node *b)
{
    return a->op == b->op && cm_attr_equal(a->op->attrs, a->attr, b->attr);
}

static bool same_kind(const item *a, const item *b)
{
    const cm_tensor *v = a->weights->constant, *w = b->weights->constant;
    if (a->n == b->n || a->x != b->x || v->dtype != w->dtype || v->rank != w->rank ||
        !same_node(a->n, b->n) || !a->after != !b->after ||
        (a->after && (!same_node(a->after, b->after) ||
                      a->after->out[0]->type.dtype != b->after->out[0]->type.dtype)))
        return false;
    return !memcmp(v->dims + 1, w->dims + 1, (size_t)(v->rank - 1) * sizeof *v->dims);
}

/* ---- The one node --------------------------------------------------------------------------- */

/* Weights, or biases, of all items one after the other; rows without a bias have 0. */
static cm_status join(cm_rewriter *rw, cm_network *g, const item *items, int n, bool weights,
                      cm_value **out)
{
    const cm_tensor *first = items[0].weights->constant;
    int64_t dims[CM_MAX_RANK], rows = 0;
    size_t bytes, at = 0, size = cm_dtype_size(first->dtype);
    cm_tensor *t;
    for (int i = 0; i < n; i++)
        if (!cm_add_i64(rows, items[i].rows, &rows))
            return cm_fail(rw->cx, CM_ERR_INTERNAL, "a weight would be too large");
    memcpy(dims, first->dims, (size_t)first->rank * sizeof *dims);
    dims[0] = rows;
    CM_NEW(rw->cx, g->arena, t, cm_tensor);
    if (!cm_tensor_shape(t, first->dtype, weights ? first->rank : 1, dims) ||
        !cm_tensor_bytes(t, &bytes))
        return cm_fail(rw->cx, CM_ERR_INTERNAL, "a weight would be too large");
    t->data = cm_arena_alloc_n(g->arena, bytes, 1, 64, 0);
    t->capacity_bytes = bytes;
    if (!t->data)
        return cm_fail_memory(rw->cx);
    for (int i = 0; i < n; i++) {
        const cm_value *from = weights ? items[i].weights : items[i].bias;
        size_t part = (size_t)items[i].rows * size;
        if (weights)
            part = bytes / (size_t)rows * (size_t)items[i].rows;
        if (from)
            memcpy((char *)t->data + at, from->constant->data, part);
        else
            memset((char *)t->data + at, 0, part);
        at += part;
    }
    return cm_network_add_constant(rw->cx, g, items[0].weights->name, t, out);
}

static cm_status merge(cm_rewriter *rw, cm_node *before, const item *items, int n, cm_value **out)
{
    cm_network *g = before->network;
    const cm_node *first = items[0].n;
    cm_value *in[3];
    cm_node *one;
    void *attr;
    int n_in = 2;
    bool conv = first->op->id == CM_OP_CONV;
    in[conv ? 0 : 1] = items[0].x;
    CM_TRY(join(rw, g, items, n, true, &in[conv ? 1 : 0]));
    for (int i = 0; i < n && n_in == 2; i++)
        if (items[i].bias) {
            CM_TRY(join(rw, g, items, n, false, &in[2]));
            n_in = 3;
        }
    CM_TRY(cm_attr_copy(rw->cx, g->arena, first->op->attrs, first->attr, &attr));
    CM_TRY(cm_make_with(rw, before, first->op->id, attr, first, in, n_in, 1, &one));
    for (int i = 1; i < n; i++)
        CM_TRY(cm_node_add_from(rw->cx, one, items[i].n));
    *out = one->out[0];
    if (!items[0].after)
        return CM_OK;
    const cm_node *after = items[0].after;
    CM_TRY(cm_attr_copy(rw->cx, g->arena, after->op->attrs, after->attr, &attr));
    CM_TRY(cm_make_with(rw, before, after->op->id, attr, after, out, 1, 1, &one));
    for (int i = 1; i < n; i++)
        CM_TRY(cm_node_add_from(rw->cx, one, items[i].after));
    *out = one->out[0];
    return CM_OK;
}

/* ---- Results that a Concat puts side by side ------------------------------------------------ */

/* The item whose result alone stands at input i of the Concat c. */
static bool read_part(cm_node *c, int i, item *it)
{
    cm_node *p = c->in[i]->producer;
    if (!p || p->network != c->network || c->in[i]->n_uses != 1)
        return false;
    if (is_function(p) && p->in[0]->producer && p->in[0]->network == c->network)
        p = p->in[0]->producer;
    return cm_is(p, CM_OP_CONV) && read_item(p, it) && it->result == c->in[i];
}

static cm_status fuse_parts(cm_rewriter *rw, cm_node *c)
{
    item items[MOST_ITEMS];
    for (int i = 0; i < c->n_in; i++) {
        int k = 0;
        while (k < MOST_ITEMS && i + k < c->n_in && read_part(c, i + k, &items[k]) &&
               (k == 0 || same_kind(&items[0], &items[k])))
            k++;
        if (k < 2)
            continue;
        if (!cm_rewrite(rw, c))
            return CM_OK;
        cm_value **in, *one;
        cm_node *y;
        void *attr;
        int n = 0;
        CM_NEW_N(rw->cx, rw->cx->scratch, in, c->n_in, cm_value *);
        CM_TRY(merge(rw, c, items, k, &one));
        for (int j = 0; j < c->n_in; j++)
            if (j <= i || j >= i + k)
                in[n++] = j == i ? one : c->in[j];
        if (n == 1) {
            CM_TRY(cm_replace(rw, c, one, NULL));
        } else {
            CM_TRY(cm_attr_copy(rw->cx, c->network->arena, c->op->attrs, c->attr, &attr));
            CM_TRY(cm_make_with(rw, c, CM_OP_CONCAT, attr, c, in, n, 1, &y));
            CM_TRY(cm_replace(rw, c, y->out[0], y));
        }
        cm_drop_if_dead(c); /* with its parts, which would be taken for siblings of the one node */
        return CM_OK;
    }
    return CM_OK;
}

/* ---- Others, with a Split behind ------------------------------------------------------------ */

/* Would it cost the node its epilogue? */
static bool feeds_pointwise(const item *it)
{
    for (const cm_use *u = it->result->uses; u; u = u->next)
        if (!u->node || (u->node->op->traits & CM_ELTWISE))
            return true;
    return false;
}

/* The siblings of n, in their order, when n is the first of them. */
static int read_siblings(cm_node *n, item *items)
{
    item first;
    int k = 0;
    if (!read_item(n, &first) || feeds_pointwise(&first) || first.x->n_uses > MOST_USES)
        return 0;
    for (const cm_use *u = first.x->uses; u && k < MOST_ITEMS; u = u->next) {
        item it;
        if (!u->node || u->node->network != n->network || !read_item(u->node, &it) ||
            it.x != first.x || feeds_pointwise(&it) || (it.n != n && !same_kind(&first, &it)))
            continue;
        int at = k++;
        for (; at > 0 && items[at - 1].n->mark > it.n->mark; at--)
            items[at] = items[at - 1];
        items[at] = it;
    }
    return k && items[0].n == n ? k : 0;
}

/* Does a Split, which writes every result again, move less than is saved: x read once for k times? */
static bool pays(const item *items, int k)
{
    int64_t rows = 0;
    for (int i = 0; i < k; i++)
        rows += items[i].rows;
    return k > 1 && 2 * rows <= (k - 1) * items[0].weights->constant->dims[1];
}

static cm_status fuse_siblings(cm_rewriter *rw, cm_node *n)
{
    item items[MOST_ITEMS];
    int k = read_siblings(n, items);
    if (!pays(items, k) || !cm_rewrite(rw, n))
        return CM_OK;
    int64_t sizes[MOST_ITEMS], n_sizes = k;
    cm_value *p, *s;
    cm_node *split;
    void *attr;
    for (int i = 0; i < k; i++)
        sizes[i] = items[i].rows;
    CM_TRY(merge(rw, n, items, k, &p));
    CM_TRY(cm_make_const_i64(rw->cx, n->network, NULL, 1, &n_sizes, sizes, &s));
    CM_TRY(cm_new_attr(rw->cx, n->network, CM_OP_SPLIT, &attr));
    CM_TRY(cm_attr_put_int(rw->cx, CM_OP_SPLIT, attr, "axis", n->op->id == CM_OP_CONV ? 1 : -2));
    CM_TRY(cm_make_with(rw, n, CM_OP_SPLIT, attr, n, (cm_value *[]){p, s}, 2, k, &split));
    for (int i = 0; i < k; i++)
        CM_TRY(cm_replace_uses(rw->cx, items[i].result, split->out[i]));
    return CM_OK;
}

CM_PASS(merge_siblings)
{
    CM_FOR_NODES (n, g)
        if (cm_is(n, CM_OP_CONCAT) && n->out[0]->n_uses && cm_int(n, "axis") == 1)
            CM_TRY(fuse_parts(rw, n));
    cm_number_nodes(g);
    CM_FOR_NODES (n, g)
        if (n->out[0] && n->out[0]->n_uses)
            CM_TRY(fuse_siblings(rw, n));
    return CM_OK;
}
