/* sink_axes.c -- transposes moved past nodes that work on axes: reductions, Pad, Slice, Split, Resize, Tile, Gather,
 * CumSum, quantisation.
 * SPDX-License-Identifier: Apache-2.0
 *
 *     a = Transpose(x) {perm=P}
 *     y = ReduceMean(a, @axes) {keepdims=0}
 *  becomes
 *     b = ReduceMean(x, @P[axes]) {keepdims=0}
 *     y = Transpose(b) {perm=P without those axes}
 */
#include "passes/sink_axes.h"

#include <string.h>

#include "passes/transposes.h"

/* What becomes of a node when its input is not transposed any more. */
typedef struct {
    int input;      /* that is exchanged, -1: none: for `v` themselves, */
    bool picks;     /* or for its elements number v[0], v[1] ... */
    bool is_scalar; /* v is one number of rank 0 */
    int64_t v[2 * CM_MAX_RANK];
    int n;
    bool has_axis; /* the attribute `axis` is exchanged */
    int64_t axis;
    bool has_axes; /* the attribute `axes` is exchanged, for v */
    uint64_t gone; /* axes of the transpose's input that the result does not have */
} change;

static cm_value *input(const cm_node *n, int i)
{
    return i < n->n_in ? n->in[i] : NULL;
}

/* Axes that input i lists, as they were before the transpose; false where they are not known. */
static bool axes_before(const cm_node *n, int i, const int64_t *perm, int rank, change *c)
{
    int64_t axes[CM_MAX_RANK];
    if (!cm_const_ints(input(n, i), axes, CM_MAX_RANK, &c->n))
        return false;
    for (int k = 0; k < c->n; k++) {
        int64_t a = axes[k] < 0 ? axes[k] + rank : axes[k];
        if (a < 0 || a >= rank)
            return false;
        c->v[k] = perm[a];
    }
    c->input = i;
    return true;
}

static bool axis_before(const cm_node *n, const int64_t *perm, int rank, change *c)
{
    int64_t a = cm_int(n, "axis");
    a += a < 0 ? rank : 0;
    if (a < 0 || a >= rank)
        return false;
    c->has_axis = true;
    c->axis = perm[a];
    return true;
}

/* Input i holds `times` numbers for each axis, one set after the other: in the order of the axes before. */
static bool pick_before(const cm_node *n, int i, int times, const int64_t *perm, int rank,
                        change *c)
{
    if (!cm_is_const(input(n, i)) || cm_volume(input(n, i)) != times * rank)
        return false;
    for (int t = 0; t < times; t++)
        for (int a = 0; a < rank; a++)
            c->v[t * rank + perm[a]] = t * rank + a;
    c->input = i;
    c->picks = true;
    c->n = times * rank;
    return true;
}

static bool reduction(const cm_node *n, const int64_t *perm, int rank, change *c)
{
    bool all = !input(n, 1);
    if (all && cm_int(n, "noop_with_empty_axes"))
        return false;
    if (!all && (!axes_before(n, 1, perm, rank, c) || !c->n))
        return false;
    if (!cm_int(n, "keepdims")) {
        c->gone = all ? (1ull << rank) - 1 : 0;
        for (int k = 0; k < c->n; k++)
            c->gone |= 1ull << c->v[k];
    }
    return true;
}

static bool arg_reduction(const cm_node *n, const int64_t *perm, int rank, change *c)
{
    if (!axis_before(n, perm, rank, c))
        return false;
    c->gone = cm_int(n, "keepdims") ? 0 : 1ull << c->axis;
    return true;
}

static bool pad(const cm_node *n, const int64_t *perm, int rank, change *c)
{
    return input(n, 3) ? axes_before(n, 3, perm, rank, c) : pick_before(n, 1, 2, perm, rank, c);
}

static bool slice(const cm_node *n, const int64_t *perm, int rank, change *c)
{
    if (input(n, 3))
        return axes_before(n, 3, perm, rank, c);
    int64_t k = cm_volume(input(n, 1));
    if (k < 0 || k > rank)
        return false;
    for (c->n = 0; c->n < k; c->n++)
        c->v[c->n] = perm[c->n];
    c->input = 3;
    return true;
}

/* Does all that reads n's results let transposes by? */
static bool lets_by(const cm_node *n)
{
    for (int o = 0; o < n->n_out; o++)
        for (const cm_use *u = n->out[o] ? n->out[o]->uses : NULL; u; u = u->next)
            if (!u->node || u->node->network != n->network || u->node->epilogue.program ||
                !(u->node->op->traits & CM_ELTWISE || u->node->op->id == CM_OP_TRANSPOSE))
                return false;
    return true;
}

/* So that the transposes behind it can become one again. */
static bool split(const cm_node *n, const int64_t *perm, int rank, change *c)
{
    return lets_by(n) && axis_before(n, perm, rank, c);
}

static bool resize(const cm_node *n, const int64_t *perm, int rank, change *c)
{
    cm_ints axes = cm_int_list(n, "axes");
    int given = input(n, 2) && cm_volume(n->in[2]) != 0 ? 2 : 3;
    if (input(n, 1) && cm_volume(n->in[1]) != 0)
        return false;
    if (!cm_given(n, "axes"))
        return pick_before(n, given, 1, perm, rank, c);
    for (c->n = 0; c->n < axes.n && c->n < CM_MAX_RANK; c->n++) {
        int64_t a = axes.v[c->n] < 0 ? axes.v[c->n] + rank : axes.v[c->n];
        if (a < 0 || a >= rank)
            return false;
        c->v[c->n] = perm[a];
    }
    c->has_axes = true;
    return true;
}

static bool tile(const cm_node *n, const int64_t *perm, int rank, change *c)
{
    return pick_before(n, 1, 1, perm, rank, c);
}

/* Indices of rank 0 or 1: the axis goes, or stays where it is. */
static bool gather(const cm_node *n, const int64_t *perm, int rank, change *c)
{
    int r = cm_rank(n->in[1]);
    if (r < 0 || r > 1 || !axis_before(n, perm, rank, c))
        return false;
    c->gone = r == 0 ? 1ull << c->axis : 0;
    return true;
}

static bool cumulative(const cm_node *n, const int64_t *perm, int rank, change *c)
{
    c->is_scalar = cm_rank(input(n, 1)) == 0;
    return axes_before(n, 1, perm, rank, c) && c->n == 1;
}

static bool quantisation(const cm_node *n, const int64_t *perm, int rank, change *c)
{
    if (cm_int(n, "block_size") || cm_rank(n->in[1]) > 1 ||
        (n->op->id == CM_OP_DEQUANTIZE_LINEAR && !lets_by(n))) /* integers are moved in less time */
        return false;
    return cm_volume(n->in[1]) == 1 || axis_before(n, perm, rank, c);
}

static const struct {
    cm_op_id op;
    bool (*fits)(const cm_node *n, const int64_t *perm, int rank, change *c);
} rows[] = {
    {CM_OP_REDUCE_MEAN, reduction},
    {CM_OP_REDUCE_SUM, reduction},
    {CM_OP_REDUCE_MAX, reduction},
    {CM_OP_REDUCE_MIN, reduction},
    {CM_OP_REDUCE_PROD, reduction},
    {CM_OP_REDUCE_L1, reduction},
    {CM_OP_REDUCE_L2, reduction},
    {CM_OP_REDUCE_SUM_SQUARE, reduction},
    {CM_OP_REDUCE_LOG_SUM, reduction},
    {CM_OP_REDUCE_LOG_SUM_EXP, reduction},
    {CM_OP_ARG_MAX, arg_reduction},
    {CM_OP_ARG_MIN, arg_reduction},
    {CM_OP_PAD, pad},
    {CM_OP_SLICE, slice},
    {CM_OP_SPLIT, split},
    {CM_OP_RESIZE, resize},
    {CM_OP_TILE, tile},
    {CM_OP_GATHER, gather},
    {CM_OP_CUM_SUM, cumulative},
    {CM_OP_QUANTIZE_LINEAR, quantisation},
    {CM_OP_DEQUANTIZE_LINEAR, quantisation},
};

/* What becomes of n when its first input is not transposed any more. */
static bool find(const cm_node *n, const int64_t *perm, change *c)
{
    if (n->epilogue.program || n->n_in < 1)
        return false;
    for (int i = 0; i < CM_COUNT(rows); i++) {
        if (n->op->id != rows[i].op)
            continue;
        *c = (change){.input = -1};
        bool fits = rows[i].fits(n, perm, cm_rank(n->in[0]), c);
        for (int o = 0; o < n->n_out && fits; o++)
            fits = !n->out[o] || n->out[o]->type.kind == CM_TENSOR;
        return fits;
    }
    return false;
}

/* The exchanged input, of the type that the old one or, where there was none, the input before has. */
static cm_status new_input(cm_rewriter *rw, cm_node *n, const change *c, cm_value **out)
{
    const cm_value *like = c->picks ? NULL : input(n, c->input) ? n->in[c->input] : n->in[1];
    int64_t dims[] = {c->n};
    double numbers[2 * CM_MAX_RANK];
    cm_value *v;
    for (int i = 0; i < c->n; i++)
        numbers[i] = (double)c->v[i];
    CM_TRY(cm_make_const_f64(rw->cx, n->network, NULL, like ? like->type.dtype : CM_I64,
                             c->is_scalar ? 0 : 1, dims, numbers, &v));
    if (c->picks) { /* folded later */
        cm_node *pick;
        CM_TRY(cm_make(rw, n, CM_OP_GATHER, n, (cm_value *[]){n->in[c->input], v}, 2, 1, &pick));
        v = pick->out[0];
    }
    *out = v;
    return CM_OK;
}

/* perm without the axes that are gone; its length. */
static int rest_of(const int64_t *perm, int rank, uint64_t gone, int64_t *out)
{
    int k = 0;
    for (int i = 0; i < rank; i++)
        if (!(gone >> perm[i] & 1))
            out[k++] = perm[i] - __builtin_popcountll(gone & ((1ull << perm[i]) - 1));
    return k;
}

static bool is_identity(const int64_t *perm, int rank)
{
    for (int i = 0; i < rank; i++)
        if (perm[i] != i)
            return false;
    return true;
}

/* The sizes of v are those of `was` before perm: symbols made for one are good for the other. */
static void same_sizes(cm_value *v, const cm_value *was, const int64_t *perm)
{
    for (int i = 0; i < cm_rank(was) && cm_rank(v) == cm_rank(was); i++)
        v->type.dims[perm[i]] = was->type.dims[i];
}

static cm_status apply(cm_rewriter *rw, cm_node *n, cm_node *t, const int64_t *perm,
                       const change *c)
{
    cm_value *in[CM_MAX_RANK] = {t->in[0]};
    int64_t rest[CM_MAX_RANK];
    int n_in = n->n_in, rank = rest_of(perm, cm_rank(n->in[0]), c->gone, rest);
    cm_node *moved, *back;
    void *attr;
    for (int i = 1; i < n_in; i++)
        in[i] = n->in[i];
    if (c->input >= 0)
        CM_TRY(new_input(rw, n, c, &in[c->input]));
    n_in = c->input >= n_in ? c->input + 1 : n_in;
    CM_TRY(cm_attr_copy(rw->cx, n->network->arena, n->op->attrs, n->attr, &attr));
    if (c->has_axis)
        CM_TRY(cm_attr_put_int(rw->cx, n->op->id, attr, "axis", c->axis));
    if (c->has_axes)
        CM_TRY(cm_attr_put_ints(rw->cx, n->network, n->op->id, attr, "axes", c->v, c->n));
    CM_TRY(cm_make_with(rw, n, n->op->id, attr, n, in, n_in, n->n_out, &moved));
    for (int o = 0; o < n->n_out; o++) {
        cm_value *y = moved->out[o];
        if (!n->out[o] || !n->out[o]->n_uses)
            continue;
        same_sizes(y, n->out[o], rest);
        if (!is_identity(rest, rank)) {
            CM_TRY(cm_make_transpose(rw, n, y, rest, rank, t, &back));
            y = back->out[0];
        } else if (o == 0) {
            CM_TRY(cm_node_add_from(rw->cx, moved, t));
        }
        CM_TRY(cm_replace_uses(rw->cx, n->out[o], y));
    }
    return CM_OK;
}

bool cm_can_sink_axes(const cm_node *n, const cm_transposed *t, bool *keeps, bool *leaves)
{
    int64_t rest[CM_MAX_RANK];
    change c;
    if (n->n_in < 1 || !cm_is_transposed(t, n->in[0]) || cm_rank(n->in[0]) != t->rank ||
        !find(n, t->perm, &c))
        return false;
    *keeps = c.gone == 0;
    *leaves = !is_identity(rest, rest_of(t->perm, t->rank, c.gone, rest));
    return true;
}

cm_status cm_sink_axes_past(cm_rewriter *rw, cm_node *n)
{
    int64_t perm[CM_MAX_RANK];
    cm_node *t = cm_made_by(n->in[0], CM_OP_TRANSPOSE);
    change c;
    if (!t || !cm_perm(t, perm) || !find(n, perm, &c))
        return CM_OK;
    CM_TRY(apply(rw, n, t, perm, &c));
    cm_drop_if_dead(n);
    return CM_OK;
}

cm_status cm_sink_axes(cm_rewriter *rw, cm_node *n, bool *done)
{
    int64_t perm[CM_MAX_RANK];
    change c;
    const cm_node *t = n->n_in ? cm_made_by(n->in[0], CM_OP_TRANSPOSE) : NULL;
    *done = t && cm_only_reader(n->in[0]) == n && cm_perm(t, perm) && find(n, perm, &c) &&
            cm_rewrite(rw, n);
    return *done ? cm_sink_axes_past(rw, n) : CM_OK;
}
