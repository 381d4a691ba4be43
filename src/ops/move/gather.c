/* gather.c -- Gather, GatherElements, GatherND: elements and slices picked by index.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops/move/move.h"

#include <string.h>

#include "base/size.h"

typedef struct {
    uint64_t present;
    int64_t axis;
} gather_attr;
CM_ATTRS(gather, gather_attr, CM_ATTR_INT(gather_attr, axis, 0))
CM_ATTRS(gather_elements, gather_attr, CM_ATTR_INT(gather_attr, axis, 0))

typedef struct {
    uint64_t present;
    int64_t batch_dims;
} gather_nd_attr;
CM_ATTRS(gather_nd, gather_nd_attr, CM_ATTR_INT(gather_nd_attr, batch_dims, 0))

/* Sizes picked out of a shape: the elements are known where the indices are numbers. */
static void gather_elems(cm_infer *f)
{
    cm_dim v[CM_MAX_ELEMS], out[CM_MAX_ELEMS];
    int64_t index[CM_MAX_ELEMS], m;
    int n;
    if (cm_infer_rank(f, 0) != 1 || !cm_move_tracked(f, 0, v, &n) ||
        !cm_infer_ints(f, 1, index, CM_MAX_ELEMS, &m))
        return;
    for (int64_t i = 0; i < m; i++) {
        if (index[i] < -n || index[i] >= n)
            return; /* running will say so, if it is ever run */
        out[i] = v[index[i] < 0 ? index[i] + n : index[i]];
    }
    cm_infer_set_elems(f, 0, out, (int)m);
}

static cm_status infer_gather(cm_infer *f)
{
    const gather_attr *a = f->attr;
    if (!cm_infer_ranked(f, 0) || !cm_infer_ranked(f, 1)) {
        cm_infer_unknown(f, 0);
        return CM_OK;
    }
    int r = cm_infer_rank(f, 0), q = cm_infer_rank(f, 1), axis, n = 0;
    cm_dim dims[2 * CM_MAX_RANK];
    CM_TRY(cm_axis(f->cx, a->axis, r, &axis));
    for (int i = 0; i < axis; i++)
        dims[n++] = cm_infer_dim(f, 0, i);
    for (int i = 0; i < q; i++)
        dims[n++] = cm_infer_dim(f, 1, i);
    for (int i = axis + 1; i < r; i++)
        dims[n++] = cm_infer_dim(f, 0, i);
    CM_TRY(cm_move_shape(f, 0, n, dims));
    gather_elems(f);
    return CM_OK;
}

static cm_status infer_gather_elements(cm_infer *f)
{
    const gather_attr *a = f->attr;
    int r = cm_infer_rank(f, 0), q = cm_infer_rank(f, 1), axis;
    if (r >= 0)
        CM_TRY(cm_axis(f->cx, a->axis, r, &axis));
    if (r >= 0 && q >= 0) {
        if (r != q)
            return cm_fail(f->cx, CM_ERR_MODEL, "indices has rank %d, wanted %d as the data", q, r);
        for (int i = 0; i < r; i++) {
            int64_t size, n;
            if (i != axis && cm_infer_const(f, cm_infer_dim(f, 0, i), &size) &&
                cm_infer_const(f, cm_infer_dim(f, 1, i), &n) && n > size)
                return cm_fail(f->cx, CM_ERR_MODEL,
                               "axis %d of indices has size %lld, the data only %lld", i,
                               (long long)n, (long long)size);
        }
    }
    return cm_infer_like(f, 0, 1);
}

static cm_status infer_gather_nd(cm_infer *f)
{
    const gather_nd_attr *a = f->attr;
    int r = cm_infer_rank(f, 0), q = cm_infer_rank(f, 1), n = 0;
    int64_t b = a->batch_dims, depth;
    if (r < 0 || q < 0) {
        cm_infer_unknown(f, 0);
        return CM_OK;
    }
    if (r < 1 || q < 1)
        return cm_fail(f->cx, CM_ERR_MODEL, "ranks %d and %d of data and indices, wanted 1 or more",
                       r, q);
    if (b < 0 || b >= r || b >= q)
        return cm_fail(f->cx, CM_ERR_MODEL,
                       "batch_dims=%lld for data of rank %d, indices of rank %d", (long long)b, r,
                       q);
    for (int i = 0; i < b; i++)
        CM_TRY(cm_infer_equal(f, "a batch axis of indices", cm_infer_dim(f, 1, i),
                              cm_infer_dim(f, 0, i)));
    if (!cm_infer_const(f, cm_infer_dim(f, 1, q - 1), &depth)) {
        cm_infer_unknown(f, 0);
        return CM_OK;
    }
    if (depth < 1 || depth > r - b)
        return cm_fail(f->cx, CM_ERR_MODEL,
                       "indices hold tuples of %lld, wanted 1 to %lld for the data's rank",
                       (long long)depth, (long long)(r - b));
    cm_dim dims[2 * CM_MAX_RANK];
    for (int i = 0; i < q - 1; i++)
        dims[n++] = cm_infer_dim(f, 1, i);
    for (int i = (int)(b + depth); i < r; i++)
        dims[n++] = cm_infer_dim(f, 0, i);
    return cm_move_shape(f, 0, n, dims);
}

static cm_status infer(cm_infer *f)
{
    switch (f->op->id) {
    case CM_OP_GATHER:
        return infer_gather(f);
    case CM_OP_GATHER_ELEMENTS:
        return infer_gather_elements(f);
    default:
        return infer_gather_nd(f);
    }
}

/* Runs of `bytes`: row i of the output comes from src + from[i % n] + (i / n) * outer_bytes. */
typedef struct {
    const char *src;
    char *dst;
    const int64_t *from; /* in bytes */
    int64_t n, outer_bytes;
    size_t bytes;
} picks;

static void pick_rows(void *arg, int64_t begin, int64_t end)
{
    const picks *p = arg;
    int64_t outer = begin / p->n, i = begin % p->n;
    for (int64_t r = begin; r < end; r++) {
        memcpy(p->dst + (size_t)r * p->bytes, p->src + outer * p->outer_bytes + p->from[i],
               p->bytes);
        if (++i == p->n) {
            i = 0;
            outer++;
        }
    }
}

static void run_picks(picks *p, int64_t rows, cm_threads *threads)
{
    if (rows > 0 && p->bytes > 0)
        cm_parallel(threads, rows, 65536 / (int64_t)p->bytes + 1, pick_rows, p);
}

static cm_status eval_gather(cm_eval *e)
{
    const gather_attr *a = e->attr;
    const cm_tensor *x = cm_eval_in(e, 0), *index = cm_eval_in(e, 1);
    cm_tensor *y = cm_eval_out(e, 0);
    int axis;
    CM_TRY(cm_axis(e->cx, a->axis, x->rank, &axis));
    const int64_t *v;
    int64_t n = cm_tensor_elems(index);
    int64_t bytes = cm_dims_product(x->dims, axis + 1, x->rank) * (int64_t)cm_dtype_size(x->dtype);
    void *from;
    CM_TRY(cm_eval_as_i64(e, 1, &v));
    CM_TRY(cm_eval_scratch(e, (size_t)n, sizeof(int64_t), &from));
    for (int64_t i = 0; i < n; i++) {
        int64_t at;
        CM_TRY(cm_move_index(e->cx, v[i], x->dims[axis], axis, i, &at));
        ((int64_t *)from)[i] = at * bytes;
    }
    picks p = {x->data, y->data, from, n, x->dims[axis] * bytes, (size_t)bytes};
    run_picks(&p, cm_dims_product(x->dims, 0, axis) * n, e->threads);
    return CM_OK;
}

/* y[i][j][k] = x[i][index[i][j][k]][k] when the axis is 1. */
static cm_status eval_gather_elements(cm_eval *e)
{
    const gather_attr *a = e->attr;
    const cm_tensor *x = cm_eval_in(e, 0), *index = cm_eval_in(e, 1);
    cm_tensor *y = cm_eval_out(e, 0);
    int axis;
    CM_TRY(cm_axis(e->cx, a->axis, x->rank, &axis));
    const int64_t *v;
    CM_TRY(cm_eval_as_i64(e, 1, &v));
    size_t size = cm_dtype_size(x->dtype);
    int last = y->rank - 1;
    int64_t at[CM_MAX_RANK] = {0}, n = cm_tensor_elems(index), row = n ? y->dims[last] : 0;
    for (int64_t i = 0; i < n; i += row) {
        int64_t base = 0;
        for (int k = 0; k < last; k++)
            base += k == axis ? 0 : at[k] * x->strides[k];
        for (int64_t j = 0; j < row; j++) {
            int64_t pick;
            CM_TRY(cm_move_index(e->cx, v[i + j], x->dims[axis], axis, i + j, &pick));
            int64_t from = base + pick * x->strides[axis] + (axis == last ? 0 : j);
            memcpy(cm_move_to(y->data, i + j, size), cm_move_at(x->data, from, size), size);
        }
        for (int k = last - 1; k >= 0 && ++at[k] == y->dims[k]; k--)
            at[k] = 0;
    }
    return CM_OK;
}

static cm_status eval_gather_nd(cm_eval *e)
{
    const gather_nd_attr *a = e->attr;
    const cm_tensor *x = cm_eval_in(e, 0), *index = cm_eval_in(e, 1);
    cm_tensor *y = cm_eval_out(e, 0);
    const int64_t *v = index->data;
    int b = (int)a->batch_dims, depth = (int)index->dims[index->rank - 1];
    int64_t size = (int64_t)cm_dtype_size(x->dtype);
    int64_t tuples = cm_dims_product(index->dims, 0, index->rank - 1);
    int64_t batches = cm_dims_product(x->dims, 0, b);
    int64_t per_batch = batches ? tuples / batches : 0;
    int64_t batch_elems = cm_dims_product(x->dims, b, x->rank);
    int64_t run = cm_dims_product(x->dims, b + depth, x->rank);
    void *from;
    CM_TRY(cm_eval_scratch(e, (size_t)tuples, sizeof(int64_t), &from));
    for (int64_t i = 0; i < tuples; i++) {
        int64_t at = per_batch ? i / per_batch * batch_elems : 0;
        for (int k = 0; k < depth; k++) {
            int64_t pick;
            CM_TRY(cm_move_index(e->cx, v[i * depth + k], x->dims[b + k], b + k, i * depth + k,
                                 &pick));
            at += pick * x->strides[b + k];
        }
        ((int64_t *)from)[i] = at * size;
    }
    picks p = {x->data, y->data, from, tuples, 0, (size_t)(run * size)};
    run_picks(&p, tuples, e->threads);
    return CM_OK;
}

static cm_status eval(cm_eval *e)
{
    switch (e->op->id) {
    case CM_OP_GATHER:
        return eval_gather(e);
    case CM_OP_GATHER_ELEMENTS:
        return eval_gather_elements(e);
    default:
        return eval_gather_nd(e);
    }
}

const cm_family cm_family_gather = {"gather", infer, eval, cm_move_cost};
