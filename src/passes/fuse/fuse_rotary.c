/* fuse_rotary.c -- rotary position embeddings from their pieces.
 *
 *     r = Concat(Neg(x2), x1)                  x1, x2: the halves of x's last axis, by Slice or Split
 *     y = Add(Mul(x, cos), Mul(r, sin))
 *  becomes
 *     y = cameo.Rotary(x, cos, sin)
 *
 * and, with cosines and sines for one half of the columns,
 *
 *     y = Concat(Sub(Mul(x1, cos), Mul(x2, sin)), Add(Mul(x2, cos), Mul(x1, sin)))
 *  becomes
 *     y = cameo.Rotary(x, Concat(cos, cos), Concat(sin, sin))
 *
 * Interleaved too: every second column instead of halves, by a step or as the last of two axes, stacked and reshaped. When x was transposed to
 * [batch, heads, len, size] just before and the angles are the same for all heads, x is rotated as it was
 * and transposed after, where an attention takes the transpose in.
 *
 * needs: types, uses    keeps: types, uses
 * SPDX-License-Identifier: Apache-2.0
 */
#include "passes/heads_view.h"

/* v is one of two neighbours: x as [..., len, 2], and of the last axis one. x, else NULL. */
static cm_value *neighbour_of(cm_value *v, int64_t *start, int64_t *step, int64_t *len)
{
    cm_node *n = v->producer, *pick = n;
    int64_t axis, at = -1;
    int k, rank = cm_rank(v);
    if (cm_is(n, CM_OP_GATHER)) {
        axis = cm_int(n, "axis");
        if ((axis != -1 && axis != rank) || cm_rank(n->in[1]) != 0 ||
            !cm_const_ints(n->in[1], &at, 1, &k))
            return NULL;
    } else if (cm_is(n, CM_OP_SQUEEZE) || cm_is(n, CM_OP_RESHAPE)) {
        pick = n->in[0]->producer;
        if (cm_rank(n->in[0]) != rank + 1 || n->in[0]->type.dims[rank] != 1 ||
            n->in[0]->type.dims[rank - 1] != v->type.dims[rank - 1] || !pick ||
            pick->network != v->network)
            return NULL;
        axis = cm_is(pick, CM_OP_SPLIT) ? cm_int(pick, "axis") : rank;
        if (cm_is(pick, CM_OP_SPLIT) && (axis == -1 || axis == rank) && pick->n_out == 2)
            at = pick->out[1] == n->in[0];
        else if (!cm_is(pick, CM_OP_SLICE) || pick->n_in < 4 || !pick->in[3] ||
                 !cm_const_ints(pick->in[3], &axis, 1, &k) || (axis != -1 && axis != rank) ||
                 !cm_const_ints(pick->in[1], &at, 1, &k))
            return NULL;
    }
    cm_node *r = pick && at >= -2 && at < 2 ? cm_made_by(pick->in[0], CM_OP_RESHAPE) : NULL;
    if (!r || cm_rank(r->out[0]) != rank + 1 || r->out[0]->type.dims[rank] != 2 ||
        cm_rank(r->in[0]) != rank || !cm_dim_is_size(v->type.dims[rank - 1]) ||
        r->in[0]->type.dims[rank - 1] != 2 * v->type.dims[rank - 1])
        return NULL;
    *start = at < 0 ? at + 2 : at;
    *step = 2;
    *len = v->type.dims[rank - 1];
    return r->in[0];
}

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
    if (cm_is(n, CM_OP_GATHER) || cm_is(n, CM_OP_SQUEEZE) || cm_is(n, CM_OP_RESHAPE))
        return neighbour_of(v, start, step, len);
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

/* Are a and b the halves of a tensor's columns, or every second one? Then that tensor. */
static cm_value *halves(cm_value *a, cm_value *b, bool interleaved)
{
    int64_t start[2], step[2], len[2];
    cm_value *x1 = columns_of(a, &start[0], &step[0], &len[0]);
    cm_value *x2 = columns_of(b, &start[1], &step[1], &len[1]);
    if (!x1 || x1 != x2 || start[0] != 0 || step[0] != step[1] || len[0] != len[1] ||
        x1->type.dims[cm_rank(x1) - 1] != 2 * len[0])
        return NULL;
    bool ok = interleaved ? step[0] == 2 && start[1] == 1 : step[0] == 1 && start[1] == len[0];
    return ok ? x1 : NULL;
}

/* v is two tensors side by side, or, interleaved, column by column in turn? */
static bool two_parts(const cm_value *v, cm_value **part, bool *interleaved)
{
    *interleaved = false;
    cm_node *c = cm_made_by(v, CM_OP_CONCAT);
    if (!c) { /* stacked along a new last axis, then joined with the one before */
        cm_node *r = cm_made_by(v, CM_OP_RESHAPE);
        c = r ? cm_made_by(r->in[0], CM_OP_CONCAT) : NULL;
        *interleaved = true;
    }
    if (!c || c->n_in != 2)
        return false;
    int rank = cm_rank(c->out[0]);
    int64_t axis = cm_int(c, "axis");
    part[0] = c->in[0];
    part[1] = c->in[1];
    if (rank < 1 || (axis != -1 && axis != rank - 1))
        return false;
    for (int i = 0; i < 2 && *interleaved; i++) {
        cm_node *u = cm_made_by(part[i], CM_OP_UNSQUEEZE);
        u = u ? u : cm_made_by(part[i], CM_OP_RESHAPE);
        if (!u || cm_rank(u->in[0]) != rank - 1 || part[i]->type.dims[rank - 1] != 1 ||
            part[i]->type.dims[rank - 2] != u->in[0]->type.dims[rank - 2])
            return false;
        part[i] = u->in[0];
    }
    return true;
}

/* v is x with its columns rotated a quarter: x. */
static cm_value *quarter_turn(const cm_value *v, bool *interleaved)
{
    cm_value *part[2];
    if (!two_parts(v, part, interleaved))
        return NULL;
    cm_node *n = cm_made_by(part[0], CM_OP_NEG);
    cm_value *x = n ? halves(part[1], n->in[0], *interleaved) : NULL;
    return x && cm_same_shape(x, v) ? x : NULL;
}

typedef struct {
    cm_value *x, *cos, *sin;
    bool interleaved;
    bool half; /* cos and sin are those of one half of the columns */
} rotary;

static bool fits(const rotary *r, const cm_node *n)
{
    cm_dtype t = r->x->type.dtype;
    return cm_same_shape(r->x, n->out[0]) && r->cos->type.dtype == t && r->sin->type.dtype == t &&
           cm_rank(r->cos) >= 0 && cm_rank(r->sin) >= 0;
}

static bool is_product(const cm_value *v, const cm_value *a, const cm_value *b)
{
    const cm_node *n = cm_made_by(v, CM_OP_MUL);
    return n && ((n->in[0] == a && n->in[1] == b) || (n->in[0] == b && n->in[1] == a));
}

/* May the angle c of one half be written for both? */
static bool can_double(const cm_value *c, bool interleaved)
{
    int rank = cm_rank(c);
    return rank >= 1 && rank < CM_MAX_RANK && cm_dim_is_size(c->type.dims[rank - 1]) &&
           c->type.dims[rank - 1] > 1 && (!interleaved || rank <= 4);
}

/* n = (x1 cos - x2 sin, x2 cos + x1 sin), side by side or in turn? */
static bool read_halves(const cm_node *n, rotary *out)
{
    cm_value *part[2];
    bool in_turn;
    if ((!cm_is(n, CM_OP_CONCAT) && !cm_is(n, CM_OP_RESHAPE)) ||
        !two_parts(n->out[0], part, &in_turn))
        return false;
    cm_node *less = cm_made_by(part[0], CM_OP_SUB), *more = cm_made_by(part[1], CM_OP_ADD);
    cm_node *a = less ? cm_made_by(less->in[0], CM_OP_MUL) : NULL;
    cm_node *b = less ? cm_made_by(less->in[1], CM_OP_MUL) : NULL;
    for (int i = 0; a && b && more && i < 4; i++) {
        cm_value *x1 = a->in[i & 1], *c = a->in[1 - (i & 1)];
        cm_value *x2 = b->in[i >> 1], *s = b->in[1 - (i >> 1)];
        cm_value *x = halves(x1, x2, in_turn);
        if (!x || !((is_product(more->in[0], x2, c) && is_product(more->in[1], x1, s)) ||
                    (is_product(more->in[1], x2, c) && is_product(more->in[0], x1, s))))
            continue;
        *out = (rotary){x, c, s, in_turn, true};
        return fits(out, n) && can_double(c, in_turn) && can_double(s, in_turn);
    }
    return false;
}

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
            *out = (rotary){x, plain->in[1 - j], turned->in[1 - i], out->interleaved, false};
            return fits(out, n);
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

static cm_status doubled_constant(cm_rewriter *rw, cm_network *g, const cm_value *c, bool in_turn,
                                  cm_value **out)
{
    const double *from;
    double *to;
    int64_t n, dims[CM_MAX_RANK];
    int rank = cm_rank(c);
    cm_arena_mark mark = cm_arena_save(rw->cx->scratch);
    CM_TRY(cm_const_f64(rw->cx, c, &from, &n));
    CM_NEW_N(rw->cx, rw->cx->scratch, to, 2 * n, double);
    for (int i = 0; i < rank; i++)
        dims[i] = c->constant->dims[i];
    int64_t half = dims[rank - 1];
    for (int64_t i = 0; i < n; i++) {
        int64_t row = i / half * 2 * half, k = i % half;
        to[row + (in_turn ? 2 * k : k)] = to[row + (in_turn ? 2 * k + 1 : k + half)] = from[i];
    }
    dims[rank - 1] *= 2;
    CM_TRY(cm_make_const_f64(rw->cx, g, c->name, c->type.dtype, rank, dims, to, out));
    cm_arena_restore(rw->cx->scratch, mark);
    return CM_OK;
}

/* An angle for both halves: side by side, or in turn. Equal ones become one later (slice_cse). */
static cm_status doubled(cm_rewriter *rw, cm_node *before, cm_value *c, bool in_turn,
                         cm_value **out)
{
    int rank = cm_rank(c);
    cm_dim dims[CM_MAX_RANK];
    cm_value *pair[2] = {c, c};
    cm_node *n;
    void *attr;
    if (cm_is_const(c))
        return doubled_constant(rw, before->network, c, in_turn, out);
    for (int i = 0; i < rank; i++)
        dims[i] = c->type.dims[i];
    if (in_turn) {
        int64_t one = 1, last = rank;
        cm_value *axes;
        CM_TRY(cm_make_const_i64(rw->cx, before->network, NULL, 1, &one, &last, &axes));
        CM_TRY(cm_make(rw, before, CM_OP_UNSQUEEZE, before, (cm_value *[]){c, axes}, 2, 1, &n));
        pair[0] = pair[1] = n->out[0];
    }
    CM_TRY(cm_new_attr(rw->cx, before->network, CM_OP_CONCAT, &attr));
    CM_TRY(cm_attr_put_int(rw->cx, CM_OP_CONCAT, attr, "axis", in_turn ? rank : rank - 1));
    CM_TRY(cm_make_with(rw, before, CM_OP_CONCAT, attr, before, pair, 2, 1, &n));
    dims[rank - 1] *= 2;
    return cm_view_as(rw, before, before, n->out[0], rank, dims, out);
}

static cm_status cover(cm_rewriter *rw, cm_node *m, const rotary *r, const cm_node *n)
{
    if (r->half && r->interleaved)
        n = n->in[0]->producer; /* the Concat before the Reshape */
    CM_TRY(cm_node_add_from(rw->cx, m, n));
    for (int i = 0; i < 2; i++) {
        const cm_node *p = n->in[i]->producer;
        CM_TRY(cm_node_add_from(rw->cx, m, p));
        for (int k = 0; r->half && k < 2; k++) {
            const cm_node *q = r->interleaved ? p->in[0]->producer : p;
            CM_TRY(cm_node_add_from(rw->cx, m, q));
            CM_TRY(cm_node_add_from(rw->cx, m, q->in[k]->producer));
        }
    }
    return CM_OK;
}

static cm_status rewrite(cm_rewriter *rw, cm_node *n, rotary *r)
{
    if (r->half) {
        CM_TRY(doubled(rw, n, r->cos, r->interleaved, &r->cos));
        CM_TRY(doubled(rw, n, r->sin, r->interleaved, &r->sin));
    }
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
    CM_TRY(cover(rw, m, r, n));
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
        if (n->n_out != 1 || !n->out[0]->n_uses ||
            !(cm_is(n, CM_OP_ADD) ? read_rotary(n, &r) : read_halves(n, &r)))
            continue;
        if (!cm_rewrite(rw, n))
            return CM_OK;
        CM_TRY(rewrite(rw, n, &r));
    }
    return CM_OK;
}
