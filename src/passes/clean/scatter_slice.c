/* scatter_slice.c -- a scatter that overwrites one slice puts the parts together instead.
 *
 *     y = ScatterND(x, @indices, u)        x: [a, 16, b], indices all of [0, a) x [2, 6) x [0, b) in order
 *  becomes
 *     y = Concat(Slice(x) [0:2], Reshape(u) [a, 4, b], Slice(x) [6:16]) {axis=1}
 *
 * which is how exporters write x[:, 2:6] = u. Fires when the indices are constant, the sizes of x are numbers and none of them 0, nothing
 * is combined (reduction none), and the indices name a range of one axis and all of the others, in order.
 *
 * needs: types, uses    keeps: types, uses
 * SPDX-License-Identifier: Apache-2.0
 */
#include "passes/match.h"
#include "passes/views.h"

/* What is overwritten: [lo, hi) of each axis that indices count; of all but `axis` the whole. */
typedef struct {
    int depth, axis;
    int64_t lo[CM_MAX_RANK], hi[CM_MAX_RANK];
} range;

static int64_t from_front(int64_t i, int64_t size)
{
    return i < 0 ? i + size : i;
}

/* The range between the first and the last tuple, where it is a slice. */
static bool between(const int64_t *first, const int64_t *last, const int64_t *dims, range *r)
{
    bool found = false;
    r->axis = 0;
    for (int k = 0; k < r->depth; k++) {
        r->lo[k] = from_front(first[k], dims[k]);
        r->hi[k] = from_front(last[k], dims[k]) + 1;
        if (r->lo[k] < 0 || r->lo[k] >= r->hi[k] || r->hi[k] > dims[k])
            return false;
        if (r->lo[k] == 0 && r->hi[k] == dims[k])
            continue;
        if (found)
            return false;
        found = true;
        r->axis = k;
    }
    return true;
}

/* Do tuples name all of the range, the last axis first? */
static bool in_order(const int64_t *tuple, int64_t n, const int64_t *dims, const range *r)
{
    int64_t at[CM_MAX_RANK];
    for (int k = 0; k < r->depth; k++)
        at[k] = r->lo[k];
    for (int64_t i = 0; i < n; i++, tuple += r->depth) {
        int k;
        for (k = 0; k < r->depth; k++)
            if (from_front(tuple[k], dims[k]) != at[k])
                return false;
        for (k = r->depth - 1; k >= 0 && ++at[k] == r->hi[k]; k--)
            at[k] = r->lo[k];
        if (k < 0)
            return i == n - 1;
    }
    return false;
}

static bool find(const cm_node *n, int64_t *dims, range *r)
{
    if (!cm_is(n, CM_OP_SCATTER_ND) || !n->out[0]->n_uses || !cm_string_is(n, "reduction", "none"))
        return false;
    const cm_tensor *index = n->in[1]->constant;
    if (!index || index->dtype != CM_I64 || index->rank < 1 || !cm_static_shape(n->in[0], dims) ||
        cm_volume(n->in[0]) == 0 || cm_rank(n->in[2]) < 0)
        return false;
    r->depth = (int)index->dims[index->rank - 1];
    int64_t tuples = cm_dims_product(index->dims, 0, index->rank - 1);
    if (r->depth < 1 || r->depth > cm_rank(n->in[0]) || tuples < 1)
        return false;
    const int64_t *v = index->data;
    return between(v, v + (tuples - 1) * r->depth, dims, r) && in_order(v, tuples, dims, r);
}

static cm_status slice(cm_rewriter *rw, cm_node *n, int64_t axis, int64_t begin, int64_t end,
                       cm_value **out)
{
    const int64_t one = 1;
    cm_value *in[4] = {n->in[0]};
    cm_node *cut;
    CM_TRY(cm_make_const_i64(rw->cx, n->network, NULL, 1, &one, &begin, &in[1]));
    CM_TRY(cm_make_const_i64(rw->cx, n->network, NULL, 1, &one, &end, &in[2]));
    CM_TRY(cm_make_const_i64(rw->cx, n->network, NULL, 1, &one, &axis, &in[3]));
    CM_TRY(cm_make(rw, n, CM_OP_SLICE, n, in, 4, 1, &cut));
    *out = cut->out[0];
    return CM_OK;
}

static cm_status rewrite(cm_rewriter *rw, cm_node *n, const int64_t *dims, const range *r)
{
    int rank = cm_rank(n->in[0]), k = 0;
    int64_t shape[CM_MAX_RANK], lo = r->lo[r->axis], hi = r->hi[r->axis];
    cm_value *in[3];
    cm_node *update, *y;
    void *attr;
    for (int i = 0; i < rank; i++)
        shape[i] = i == r->axis ? hi - lo : dims[i];
    CM_TRY(cm_make_reshape(rw, n, n->in[2], shape, rank, n, &update));
    if (lo > 0)
        CM_TRY(slice(rw, n, r->axis, 0, lo, &in[k++]));
    in[k++] = update->out[0];
    if (hi < dims[r->axis])
        CM_TRY(slice(rw, n, r->axis, hi, dims[r->axis], &in[k++]));
    if (k == 1)
        return cm_replace(rw, n, update->out[0], NULL);
    CM_TRY(cm_new_attr(rw->cx, n->network, CM_OP_CONCAT, &attr));
    CM_TRY(cm_attr_put_int(rw->cx, CM_OP_CONCAT, attr, "axis", r->axis));
    CM_TRY(cm_make_with(rw, n, CM_OP_CONCAT, attr, n, in, k, 1, &y));
    return cm_replace(rw, n, y->out[0], NULL);
}

CM_PASS(scatter_slice)
{
    CM_FOR_NODES (n, g) {
        int64_t dims[CM_MAX_RANK];
        range r;
        if (!find(n, dims, &r))
            continue;
        if (!cm_rewrite(rw, n))
            return CM_OK;
        CM_TRY(rewrite(rw, n, dims, &r));
        cm_drop_if_dead(n);
    }
    return CM_OK;
}
