/* fuse_rotary.c -- rotary position embeddings from their pieces.
 *
 *     r = Concat(Neg(x2), x1)                  x1, x2: the halves of x's last axis, by Slice or Split
 *     y = Add(Mul(x, cos), Mul(r, sin))
 *  becomes
 *     y = cameo.Rotary(x, cos, sin)
 *
 * Interleaved too: every second column instead of halves, stacked and reshaped. When x was transposed to
 * [batch, heads, len, size] just before and the angles are the same for all heads, x is rotated as it was
 * and transposed after, where an attention takes the transpose in.
 *
 * needs: types, uses    keeps: types, uses
 * SPDX-License-Identifier: Apache-2.0
 */
#include "passes/heads_view.h"

/* v = x[..., start : : step] of the last axis, `len` long: x, else NULL. */
static cm_value *columns_of(cm_value *v, int64_t *start, int64_t *step, int64_t *len)
{
    cm_node *n = v->producer;
    int64_t axis, from, by = 1;
    int k, rank = cm_rank(v);
    if (!n || n->network != v->network || n->epilogue.program || rank < 1 ||
        !cm_dim_is_size(v->type.dims[rank - 1]))
        return NULL;
    *len = v->type.dims[rank - 1];
    if (cm_is(n, CM_OP_SPLIT)) {
        axis = cm_int(n, "axis");
        *start = 0;
        *step = 1;
        for (int o = 0; o < n->n_out && n->out[o] != v; o++) {
            if (!n->out[o] || !cm_dim_is_size(n->out[o]->type.dims[rank - 1]))
                return NULL;
            *start += n->out[o]->type.dims[rank - 1];
        }
        return axis == -1 || axis == rank - 1 ? n->in[0] : NULL;
    }
    if (!cm_is(n, CM_OP_SLICE) || n->n_in < 4 || !n->in[3] ||
        !cm_const_ints(n->in[3], &axis, 1, &k) || k != 1 || (axis != -1 && axis != rank - 1) ||
        !cm_const_ints(n->in[1], &from, 1, &k) || k != 1 ||
        (n->n_in > 4 && n->in[4] && (!cm_const_ints(n->in[4], &by, 1, &k) || k != 1)))
        return NULL;
    cm_dim whole = n->in[0]->type.dims[rank - 1];
    if (!cm_dim_is_size(whole) || by < 1)
        return NULL;
    *start = from < 0 ? from + whole : from;
    *step = by;
    return n->in[0];
}

/* Is {neg, pos} = {-x2, x1}? Then x. */
static cm_value *rotated(cm_value *neg, cm_value *pos, bool interleaved)
{
    int64_t start[2], step[2], len[2];
    cm_node *n = cm_made_by(neg, CM_OP_NEG);
    if (!n)
        return NULL;
    cm_value *x1 = columns_of(pos, &start[0], &step[0], &len[0]);
    cm_value *x2 = columns_of(n->in[0], &start[1], &step[1], &len[1]);
    if (!x1 || x1 != x2 || start[0] != 0 || step[0] != step[1] || len[0] != len[1] ||
        x1->type.dims[cm_rank(x1) - 1] != 2 * len[0])
        return NULL;
    bool ok = interleaved ? step[0] == 2 && start[1] == 1 : step[0] == 1 && start[1] == len[0];
    return ok ? x1 : NULL;
}

/* v is x with its columns rotated a quarter: x. */
static cm_value *quarter_turn(cm_value *v, bool *interleaved)
{
    *interleaved = false;
    cm_node *c = cm_made_by(v, CM_OP_CONCAT);
    if (!c) { /* stacked along a new last axis, then joined with the one before */
        cm_node *r = cm_made_by(v, CM_OP_RESHAPE);
        c = r ? cm_made_by(r->in[0], CM_OP_CONCAT) : NULL;
        *interleaved = true;
    }
    if (!c || c->n_in != 2)
        return NULL;
    int rank = cm_rank(c->out[0]);
    int64_t axis = cm_int(c, "axis");
    cm_value *part[] = {c->in[0], c->in[1]};
    if (rank < 1 || (axis != -1 && axis != rank - 1))
        return NULL;
    for (int i = 0; i < 2 && *interleaved; i++) {
        cm_node *u = cm_made_by(part[i], CM_OP_UNSQUEEZE);
        u = u ? u : cm_made_by(part[i], CM_OP_RESHAPE);
        if (!u || cm_rank(u->in[0]) != rank - 1 || part[i]->type.dims[rank - 1] != 1 ||
            part[i]->type.dims[rank - 2] != u->in[0]->type.dims[rank - 2])
            return NULL;
        part[i] = u->in[0];
    }
    cm_value *x = rotated(part[0], part[1], *interleaved);
    return x && cm_same_shape(x, v) ? x : NULL;
}

typedef struct {
    cm_value *x, *cos, *sin;
    bool interleaved;
} rotary;

/* n = x * cos + turned(x) * sin, in any order? */
static bool read_rotary(const cm_node *n, rotary *out)
{
    for (int side = 0; side < 2; side++) {
        cm_node *plain = cm_made_by(n->in[side], CM_OP_MUL);
        cm_node *turned = cm_made_by(n->in[1 - side], CM_OP_MUL);
        if (!plain || !turned)
            return false;
        for (int i = 0; i < 2; i++) {
            cm_value *x = quarter_turn(turned->in[i], &out->interleaved);
            int j = x && plain->in[0] == x ? 0 : 1;
            if (!x || plain->in[j] != x)
                continue;
            *out = (rotary){x, plain->in[1 - j], turned->in[1 - i], out->interleaved};
            cm_dtype t = x->type.dtype;
            return cm_same_shape(x, n->out[0]) && out->cos->type.dtype == t &&
                   out->sin->type.dtype == t && cm_rank(out->cos) >= 0 && cm_rank(out->sin) >= 0;
        }
    }
    return false;
}

static bool swaps_heads(const cm_node *n)
{
    cm_ints p = n ? cm_int_list(n, "perm") : (cm_ints){0};
    return p.n == 4 && p.v[0] == 0 && p.v[1] == 2 && p.v[2] == 1 && p.v[3] == 3;
}

/* The dims of angles [.., 1, len, size] for [.., len, 1, size]; false when they differ by head. */
static bool before_swap(const cm_value *v, int *rank, cm_dim *dims)
{
    const cm_type *t = &v->type;
    if (t->rank > 4 || (t->rank > 2 && t->dims[t->rank - 3] != 1))
        return false;
    *rank = t->rank == 2 ? 3 : t->rank;
    for (int i = 0; i < t->rank; i++)
        dims[*rank - t->rank + i] = t->dims[i];
    if (*rank > 2) {
        dims[*rank - 3] = t->dims[t->rank - 2];
        dims[*rank - 2] = 1;
    }
    return cm_can_reshape(t->rank, t->dims, *rank, dims);
}

static cm_status rewrite(cm_rewriter *rw, cm_node *n, const rotary *r)
{
    cm_value *in[] = {r->x, r->cos, r->sin}, *y;
    cm_dim dims[2][4];
    int rank[2];
    cm_node *t = cm_made_by(r->x, CM_OP_TRANSPOSE), *m;
    bool swap = t && swaps_heads(t) && before_swap(r->cos, &rank[0], dims[0]) &&
                before_swap(r->sin, &rank[1], dims[1]);
    void *attr;
    if (swap) {
        in[0] = t->in[0];
        for (int i = 0; i < 2; i++)
            CM_TRY(cm_view_as(rw, n, n, in[1 + i], rank[i], dims[i], &in[1 + i]));
    }
    CM_TRY(cm_new_attr(rw->cx, n->network, CM_OP_FUSED_ROTARY, &attr));
    if (r->interleaved)
        CM_TRY(cm_attr_put_int(rw->cx, CM_OP_FUSED_ROTARY, attr, "interleaved", 1));
    CM_TRY(cm_make_with(rw, n, CM_OP_FUSED_ROTARY, attr, n, in, 3, 1, &m));
    CM_TRY(cm_node_add_from(rw->cx, m, n->in[0]->producer));
    CM_TRY(cm_node_add_from(rw->cx, m, n->in[1]->producer));
    y = m->out[0];
    if (swap) {
        cm_node *back;
        CM_TRY(cm_attr_copy(rw->cx, n->network->arena, t->op->attrs, t->attr, &attr));
        CM_TRY(cm_make_with(rw, n, CM_OP_TRANSPOSE, attr, t, &y, 1, 1, &back));
        y = back->out[0];
    }
    return cm_replace(rw, n, y, m);
}

CM_PASS(fuse_rotary)
{
    CM_FOR_NODES (n, g) {
        rotary r;
        if (!cm_is(n, CM_OP_ADD) || !n->out[0]->n_uses || !read_rotary(n, &r))
            continue;
        if (!cm_rewrite(rw, n))
            return CM_OK;
        CM_TRY(rewrite(rw, n, &r));
    }
    return CM_OK;
}
