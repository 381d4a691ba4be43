/* slices_to_split.c -- slices that together are the whole become one Split.
 *
 *     a = Slice(x, @0, @4, @axis)
 *     b = Slice(x, @4, @9, @axis)           x has 9 there
 *  becomes
 *     a, b = Split(x, @[4, 5]) {axis}
 *
 * One axis, step 1, borders known; every element is in exactly one of them. Slices that overlap or leave something out
 * stay.
 *
 * needs: types, uses, folded constants    keeps: types, uses
 * SPDX-License-Identifier: Apache-2.0
 */
#include "passes/match.h"

enum { MOST_PIECES = 32, MOST_USES = 64 };

typedef struct {
    cm_node *node;
    int64_t axis, begin, end;
} piece;

static bool one_int(const cm_value *v, int64_t *out)
{
    int n;
    return cm_const_ints(v, out, 1, &n) && n == 1;
}

static int64_t clamp(int64_t at, int64_t size)
{
    at = at < 0 ? at + size : at;
    return at < 0 ? 0 : at > size ? size : at;
}

static bool read_piece(cm_node *n, piece *out)
{
    int64_t step = 1, axis = 0, begin, end;
    int rank = cm_is(n, CM_OP_SLICE) ? cm_rank(n->in[0]) : -1;
    if (rank < 1 || !n->out[0]->n_uses || !one_int(n->in[1], &begin) || !one_int(n->in[2], &end) ||
        (n->n_in > 3 && n->in[3] && !one_int(n->in[3], &axis)) ||
        (n->n_in > 4 && n->in[4] && !one_int(n->in[4], &step)) || step != 1)
        return false;
    axis = axis < 0 ? axis + rank : axis;
    cm_dim size = n->in[0]->type.dims[axis];
    if (!cm_dim_is_size(size) || begin < -size)
        return false;
    *out = (piece){n, axis, clamp(begin, size), clamp(end, size)};
    return out->begin < out->end;
}

/* All slices of x along that axis, by where they begin. */
static int collect(const cm_value *x, int64_t axis, piece *out)
{
    int n = 0;
    for (const cm_use *u = x->uses; u; u = u->next) {
        piece p;
        if (!u->node || u->index != 0 || u->node->network != x->network ||
            !read_piece(u->node, &p) || p.axis != axis)
            continue;
        if (n == MOST_PIECES)
            return 0;
        int at = n++;
        for (; at > 0 && out[at - 1].begin > p.begin; at--)
            out[at] = out[at - 1];
        out[at] = p;
    }
    return n;
}

static bool is_whole(const piece *p, int n, int64_t size)
{
    int64_t at = 0;
    for (int i = 0; i < n; i++) {
        if (p[i].begin != at)
            return false;
        at = p[i].end;
    }
    return n > 1 && at == size;
}

/* `before` is the first of the pieces in the network's order: their data is there, as x is. */
static cm_status split(cm_rewriter *rw, cm_node *before, const piece *p, int n)
{
    int64_t sizes[MOST_PIECES], dims[1] = {n};
    cm_value *s;
    cm_node *y;
    void *attr;
    for (int i = 0; i < n; i++)
        sizes[i] = p[i].end - p[i].begin;
    CM_TRY(cm_make_const_i64(rw->cx, before->network, "split", 1, dims, sizes, &s));
    CM_TRY(cm_new_attr(rw->cx, before->network, CM_OP_SPLIT, &attr));
    CM_TRY(cm_attr_put_int(rw->cx, CM_OP_SPLIT, attr, "axis", p[0].axis));
    CM_TRY(cm_make_with(rw, before, CM_OP_SPLIT, attr, before, (cm_value *[]){before->in[0], s}, 2,
                        n, &y));
    for (int i = 0; i < n; i++) {
        CM_TRY(cm_node_add_from(rw->cx, y, p[i].node));
        CM_TRY(cm_replace_uses(rw->cx, p[i].node->out[0], y->out[i]));
    }
    return CM_OK;
}

CM_PASS(slices_to_split)
{
    CM_FOR_NODES (n, g) {
        piece first, all[MOST_PIECES];
        if (!read_piece(n, &first) || n->in[0]->n_uses > MOST_USES || n->in[0]->constant)
            continue;
        int k = collect(n->in[0], first.axis, all);
        if (!is_whole(all, k, n->in[0]->type.dims[first.axis]) || n->in[0]->network != g)
            continue;
        if (!cm_rewrite(rw, n))
            return CM_OK;
        CM_TRY(split(rw, n, all, k));
    }
    return CM_OK;
}
