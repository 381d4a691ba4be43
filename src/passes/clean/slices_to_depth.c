/* slices_to_depth.c -- every second pixel, four times, as channels: one SpaceToDepth.
 *
 *     a = Slice(x, @(0,0), @(max,max), @(2,3), @(2,2))       b, c, d from (1,0), (0,1), (1,1)
 *     y = Concat(a, b, c, d) {axis=1}
 *  becomes
 *     s = SpaceToDepth(x) {blocksize=2}
 *     y = Gather(s, @channels) {axis=1}      in the order of the Concat; not where it is SpaceToDepth's own
 *
 * Blocks of any size k, k*k slices. All of them must have the same size for the Concat, so k divides height and
 * width, as SpaceToDepth wants it.
 *
 * needs: types, uses, folded constants, merge_slices    keeps: types, uses
 * SPDX-License-Identifier: Apache-2.0
 */
#include "passes/match.h"

enum { MOST_BLOCK = 8 };

static bool two_ints(const cm_node *n, int i, int64_t *out)
{
    int k;
    return i < n->n_in && n->in[i] && cm_const_ints(n->in[i], out, 2, &k) && k == 2;
}

/* Is n every k-th pixel of height and width to the end? From where. */
static bool read_slice(const cm_node *n, int64_t k, int64_t *row, int64_t *column)
{
    int64_t start[2], end[2], axis[2], step[2];
    if (!two_ints(n, 1, start) || !two_ints(n, 2, end) || !two_ints(n, 3, axis) ||
        !two_ints(n, 4, step) || step[0] != k || step[1] != k)
        return false;
    for (int i = 0; i < 2; i++) {
        axis[i] += axis[i] < 0 ? 4 : 0;
        if (axis[i] < 2 || axis[i] > 3 || start[i] < 0 || start[i] >= k)
            return false;
        cm_dim size = n->in[0]->type.dims[axis[i]];
        if (end[i] < INT32_MAX && !(cm_dim_is_size(size) && end[i] >= size))
            return false;
    }
    *row = start[axis[0] == 2 ? 0 : 1];
    *column = start[axis[0] == 3 ? 0 : 1];
    return axis[0] != axis[1];
}

/* The tensor whose blocks n joins; where each of its inputs stands in a block, row by row, to `at`. */
static cm_value *blocks_of(const cm_node *n, int64_t *k, int64_t *at)
{
    cm_value *x = NULL;
    int64_t row, column;
    uint64_t seen = 0;
    for (*k = 2; *k <= MOST_BLOCK && *k * *k != n->n_in; ++*k)
        ;
    if (*k > MOST_BLOCK || (cm_int(n, "axis") != 1 && cm_int(n, "axis") != -3))
        return NULL;
    for (int i = 0; i < n->n_in; i++) {
        const cm_node *s = cm_made_by(n->in[i], CM_OP_SLICE);
        if (!s || cm_rank(s->in[0]) != 4 || (x && s->in[0] != x) || !cm_sole_use(n->in[i]) ||
            !read_slice(s, *k, &row, &column))
            return NULL;
        x = s->in[0];
        at[i] = row * *k + column;
        seen |= 1ull << at[i];
    }
    return __builtin_popcountll(seen) == n->n_in && cm_dim_is_size(x->type.dims[1]) ? x : NULL;
}

static cm_status join(cm_rewriter *rw, cm_node *n, cm_value *x, int64_t k, const int64_t *at)
{
    int64_t channels = x->type.dims[1], total = channels * n->n_in, *order;
    bool plain = true;
    cm_node *y, *parts[MOST_BLOCK * MOST_BLOCK];
    cm_value *index;
    void *attr;
    for (int i = 0; i < n->n_in; i++)
        parts[i] = n->in[i]->producer;
    CM_TRY(cm_new_attr(rw->cx, n->network, CM_OP_SPACE_TO_DEPTH, &attr));
    CM_TRY(cm_attr_put_int(rw->cx, CM_OP_SPACE_TO_DEPTH, attr, "blocksize", k));
    CM_TRY(cm_make_with(rw, n, CM_OP_SPACE_TO_DEPTH, attr, n, &x, 1, 1, &y));
    for (int i = 0; i < n->n_in; i++) {
        plain = plain && at[i] == i;
        CM_TRY(cm_node_add_from(rw->cx, y, parts[i]));
    }
    if (!plain) {
        CM_NEW_N(rw->cx, rw->cx->scratch, order, total, int64_t);
        for (int64_t i = 0; i < total; i++)
            order[i] = at[i / channels] * channels + i % channels;
        CM_TRY(cm_make_const_i64(rw->cx, n->network, "channels", 1, &total, order, &index));
        CM_TRY(cm_new_attr(rw->cx, n->network, CM_OP_GATHER, &attr));
        CM_TRY(cm_attr_put_int(rw->cx, CM_OP_GATHER, attr, "axis", 1));
        CM_TRY(
            cm_make_with(rw, n, CM_OP_GATHER, attr, n, (cm_value *[]){y->out[0], index}, 2, 1, &y));
    }
    for (int a = 0; a < 4; a++)
        y->out[0]->type.dims[a] = n->out[0]->type.dims[a];
    CM_TRY(cm_replace(rw, n, y->out[0], NULL));
    cm_drop_if_dead(n);
    return CM_OK;
}

CM_PASS(slices_to_depth)
{
    CM_FOR_NODES (n, g) {
        int64_t k, at[MOST_BLOCK * MOST_BLOCK];
        cm_value *x = cm_is(n, CM_OP_CONCAT) && n->out[0]->n_uses && cm_rank(n->out[0]) == 4
                          ? blocks_of(n, &k, at)
                          : NULL;
        if (!x)
            continue;
        if (!cm_rewrite(rw, n))
            return CM_OK;
        CM_TRY(join(rw, n, x, k, at));
    }
    return CM_OK;
}
