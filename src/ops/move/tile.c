/* tile.c -- Tile and Expand: a tensor repeated along its axes.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops/move/move.h"

/* Vectors: every element once for each time it is repeated. */
static void repeat_elems(cm_infer *f)
{
    cm_dim v[CM_MAX_ELEMS], out[CM_MAX_ELEMS];
    int64_t total = 1;
    int n, rank = f->out[0].type.rank;
    if (rank < 0 || rank > 1 || !cm_move_tracked(f, 0, v, &n) || n == 0 ||
        (rank == 1 && !cm_infer_const(f, f->out[0].type.dims[0], &total)) || total > CM_MAX_ELEMS)
        return;
    for (int64_t i = 0; i < total; i++)
        out[i] = v[i % n];
    cm_infer_set_elems(f, 0, out, (int)total);
}

static cm_status infer_tile(cm_infer *f)
{
    cm_vector repeats;
    int rank = cm_infer_rank(f, 0);
    CM_TRY(cm_move_vector(f, 1, "repeats", &repeats));
    if (rank < 0) {
        if (repeats.n >= 0)
            return cm_move_fresh_shape(f, 0, repeats.n);
        cm_infer_unknown(f, 0);
        return CM_OK;
    }
    if (repeats.n >= 0 && repeats.n != rank)
        return cm_fail(f->cx, CM_ERR_MODEL, "repeats has %lld entries for an input of rank %d",
                       (long long)repeats.n, rank);
    if (!repeats.known)
        return cm_move_fresh_shape(f, 0, rank);
    cm_dim dims[CM_MAX_RANK];
    for (int i = 0; i < rank; i++) {
        cm_dim times;
        CM_TRY(cm_move_size(f, "repeats", repeats.v[i], &times));
        dims[i] = cm_infer_mul(f, cm_infer_dim(f, 0, i), times);
        if (cm_move_may_be_anything(f, repeats.v[i]))
            dims[i] = cm_infer_fresh(f, "repeated");
    }
    return cm_move_shape(f, 0, rank, dims);
}

/* The shape has unknown elements: an axis keeps its size where that is a number over 1. */
static cm_status expand_unknown(cm_infer *f, int64_t n)
{
    int rank = cm_infer_rank(f, 0);
    cm_dim dims[CM_MAX_RANK];
    if (n < 0 || rank < 0) {
        cm_infer_unknown(f, 0);
        return CM_OK;
    }
    int64_t out = n > rank ? n : rank;
    if (out > CM_MAX_RANK)
        return cm_move_shape(f, 0, out, dims);
    for (int64_t i = 0; i < out; i++) {
        int64_t from = i - (out - rank);
        cm_dim d = from >= 0 ? cm_infer_dim(f, 0, (int)from) : 1;
        bool kept = (cm_dim_is_size(d) && d != 1) || i < out - n;
        dims[i] = kept ? d : cm_infer_fresh(f, "expanded");
    }
    return cm_move_shape(f, 0, out, dims);
}

static cm_status infer_expand(cm_infer *f)
{
    cm_vector shape;
    CM_TRY(cm_move_vector(f, 1, "shape", &shape));
    if (shape.n > CM_MAX_RANK)
        return cm_fail(f->cx, CM_ERR_MODEL, "shape has %lld elements, the highest rank is %d",
                       (long long)shape.n, CM_MAX_RANK);
    if (!shape.known || !cm_infer_ranked(f, 0))
        return expand_unknown(f, shape.n);
    cm_dim dims[CM_MAX_RANK], wanted[CM_MAX_RANK];
    int rank = cm_infer_rank(f, 0);
    for (int i = 0; i < rank; i++)
        dims[i] = cm_infer_dim(f, 0, i);
    for (int i = 0; i < shape.n; i++)
        CM_TRY(cm_move_size(f, "shape", shape.v[i], &wanted[i]));
    CM_TRY(cm_broadcast_dims(f, &rank, dims, (int)shape.n, wanted));
    return cm_move_shape(f, 0, rank, dims);
}

static cm_status infer(cm_infer *f)
{
    CM_TRY(f->op->id == CM_OP_TILE ? infer_tile(f) : infer_expand(f));
    repeat_elems(f);
    return CM_OK;
}

static cm_status eval(cm_eval *e)
{
    const cm_tensor *x = cm_eval_in(e, 0);
    cm_tensor *y = cm_eval_out(e, 0);
    cm_move m = {.elem_bytes = cm_dtype_size(x->dtype)};
    if (cm_tensor_elems(y) == 0)
        return CM_OK;
    for (int i = 0; i < y->rank; i++) {
        int from = i - (y->rank - x->rank);
        int64_t size = from >= 0 ? x->dims[from] : 1;
        cm_move_axis(&m, y->dims[i] / size, 0, size * y->strides[i]); /* the times it is repeated */
        if (from >= 0)
            cm_move_axis(&m, size, x->strides[from], y->strides[i]);
    }
    cm_move_run(&m, x->data, y->data, e->threads);
    return CM_OK;
}

const cm_family cm_family_tile = {"tile", infer, eval, cm_move_cost};
