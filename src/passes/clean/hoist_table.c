/* hoist_table.c -- work on rows of a constant table is done on the whole table, now.
 *
 *     e = Gather(@table, ids)                 t = MatMul(@table, @w)        which folds
 *     y = MatMul(e, @w)             becomes   y = Gather(t, ids)
 *
 * A Gather or a Slice of a constant, read only by a node that treats rows alike and whose other inputs are
 * constants: a product with a matrix, pointwise work, a normalisation. Also rows of a constant list of indices
 * into a constant table (position embeddings): Gather(@table, Slice(@ids)) becomes Slice of Gather(@table, @ids).
 * Only when the plan grows by no more than GROWTH bytes: what is replaced must have no other reader.
 *
 * needs: types, uses    keeps: types, uses; leaves nodes on constants to fold_constants
 * SPDX-License-Identifier: Apache-2.0
 */
#include "passes/rowwise.h"

enum { GROWTH = 1 << 16 };

/* Bytes of a constant that goes when its one reader does. */
static size_t freed(const cm_value *v)
{
    size_t bytes = 0;
    return v && v->constant && v->n_uses == 1 && cm_tensor_bytes(v->constant, &bytes) ? bytes : 0;
}

static size_t bytes_of(cm_dtype dtype, int64_t elems)
{
    size_t bytes;
    return elems >= 0 && cm_dtype_bytes(dtype, elems, &bytes) ? bytes : SIZE_MAX;
}

/* Which input of n is rows picked from a constant, all others being constants; -1: none. */
static int picked_input(const cm_node *n)
{
    int at = -1, axes[CM_MAX_RANK], k;
    for (int i = 0; i < n->n_in; i++) {
        const cm_value *v = n->in[i];
        if (!v || v->constant)
            continue;
        if (at >= 0 || !v->producer || v->producer->network != n->network || !cm_sole_use(v) ||
            !cm_pick_axes(v->producer, axes, &k) || !cm_is_const(v->producer->in[0]))
            return -1;
        at = i;
    }
    return at;
}

/* Does n treat alike the rows that `pick` picks? *elems: of the result for the whole table. */
static bool is_rowwise(const cm_node *n, int data, const cm_node *pick, int64_t *elems)
{
    int axes[CM_MAX_RANK], n_axes;
    const cm_value *table = pick->in[0];
    int rank = cm_rank(table);
    if (!cm_pick_axes(pick, axes, &n_axes))
        return false;
    if (cm_is(n, CM_OP_GATHER) && data == 1) { /* rows of a list of indices */
        int64_t axis = cm_int(n, "axis"), rows = n->in[0]->type.dims[0];
        if (axis != 0 || pick->op->id != CM_OP_SLICE || rows <= 0)
            return false;
        *elems = cm_volume(table) * (cm_volume(n->in[0]) / rows);
        return true;
    }
    int k = cm_row_axes(n, data);
    for (int i = 0; i < n->n_in; i++) /* must not give the table more axes */
        if (i != data && n->in[i] && cm_rank(n->in[i]) > rank)
            return false;
    for (int i = 0; i < n_axes; i++)
        if (k < 0 || axes[i] >= rank - k)
            return false;
    *elems = cm_volume(table);
    if (n->op->id == CM_OP_MATMUL && rank > 0) {
        int64_t inner = table->type.dims[rank - 1], outer = n->in[1]->type.dims[1];
        if (rank < 2 || inner <= 0 || outer < 0)
            return false;
        *elems = *elems / inner * outer;
    }
    return true;
}

CM_PASS(hoist_table)
{
    enum { MOST_INPUTS = 16 };
    CM_FOR_NODES (n, g) {
        int64_t elems;
        cm_value *in[MOST_INPUTS], *y;
        cm_node *m;
        if (n->n_in < 1 || n->n_in > MOST_INPUTS || n->n_out != 1 || !n->out[0]->n_uses ||
            n->epilogue.program || !(n->op->traits & CM_PURE))
            continue;
        int data = picked_input(n);
        if (data < 0 || !is_rowwise(n, data, n->in[data]->producer, &elems))
            continue;
        cm_node *pick = n->in[data]->producer;
        size_t less = freed(pick->in[0]), more = bytes_of(n->out[0]->type.dtype, elems);
        for (int i = 0; i < n->n_in; i++)
            less += i == data ? 0 : freed(n->in[i]);
        if (more == SIZE_MAX || more > less + GROWTH) {
            cm_near(rw, n, "table not computed early: %zu bytes would replace %zu", more, less);
            continue;
        }
        if (!cm_rewrite(rw, n))
            return CM_OK;
        for (int i = 0; i < n->n_in; i++)
            in[i] = i == data ? pick->in[0] : n->in[i];
        if (n->op->id == CM_OP_GATHER)
            CM_TRY(cm_make(rw, n, CM_OP_GATHER, n, in, n->n_in, 1, &m));
        else
            CM_TRY(cm_make_rowwise(rw, n, n, data, in, &m));
        CM_TRY(cm_make_pick(rw, n, pick, m->out[0], &y));
        CM_TRY(cm_node_add_from(rw->cx, y->producer, n));
        CM_TRY(cm_replace(rw, n, y, NULL));
        cm_drop_if_dead(n);
    }
    return CM_OK;
}
