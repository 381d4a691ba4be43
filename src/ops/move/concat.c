/* concat.c -- Concat: tensors joined along one axis.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops/move/move.h"

typedef struct {
    uint64_t present;
    int64_t axis;
} concat_attr;
CM_ATTRS(concat, concat_attr, CM_ATTR_INT_REQUIRED(concat_attr, axis))

/* Vectors of an integer type: join their elements. Those that are not tracked become symbols of any
 * sign, so that the known part of a shape is not lost. */
static cm_status join_elems(cm_infer *f)
{
    cm_dim v[CM_MAX_ELEMS], part[CM_MAX_ELEMS];
    int n = 0, n_tracked = 0;
    if (!f->dims || f->out[0].type.rank != 1 || !cm_dtype_is_integer(f->out[0].type.dtype))
        return CM_OK;
    for (int i = 0; i < f->n_in; i++) {
        int m;
        int64_t length;
        if (cm_move_tracked(f, i, part, &m)) {
            n_tracked++;
            length = m;
        } else if (cm_infer_ranked(f, i) && cm_infer_const(f, cm_infer_dim(f, i, 0), &length)) {
            for (int64_t j = 0; j < length && n + j < CM_MAX_ELEMS; j++)
                part[j] = cm_dim_fresh(f->dims, f->hint ? f->hint : "element", CM_DIM_ANY);
        } else {
            return CM_OK;
        }
        if (length > CM_MAX_ELEMS - n)
            return CM_OK;
        for (int64_t j = 0; j < length; j++)
            v[n++] = part[j];
    }
    if (n_tracked > 0)
        cm_infer_set_elems(f, 0, v, n);
    return CM_OK;
}

/* Other axes agree; the first number found for one stands for all. */
static cm_status join_shapes(cm_infer *f, int first, int axis, cm_dim *dims)
{
    int rank = cm_infer_rank(f, first);
    for (int i = 0; i < f->n_in; i++) {
        if (i == first || !cm_infer_ranked(f, i))
            continue;
        if (cm_infer_rank(f, i) != rank)
            return cm_fail(f->cx, CM_ERR_MODEL, "input %d has rank %d, but input %d has rank %d", i,
                           cm_infer_rank(f, i), first, rank);
        for (int k = 0; k < rank; k++) {
            cm_dim d = cm_infer_dim(f, i, k);
            if (k == axis) {
                dims[k] = cm_infer_add(f, dims[k], d);
                continue;
            }
            CM_TRY(cm_infer_equal(f, "an axis that is not joined", d, dims[k]));
            if (cm_dim_is_size(d))
                dims[k] = d;
        }
    }
    return CM_OK;
}

static cm_status infer(cm_infer *f)
{
    const concat_attr *a = f->attr;
    int first = -1, n_unranked = 0, axis;
    for (int i = f->n_in - 1; i >= 0; i--) {
        if (!cm_infer_has(f, i))
            return cm_fail(f->cx, CM_ERR_MODEL, "input %d is absent", i);
        if (cm_infer_ranked(f, i))
            first = i;
        else
            n_unranked++;
    }
    if (first < 0) {
        cm_infer_unknown(f, 0);
        return CM_OK;
    }
    cm_dim dims[CM_MAX_RANK];
    int rank = cm_infer_rank(f, first);
    if (rank == 0)
        return cm_fail(f->cx, CM_ERR_MODEL, "input %d is a scalar, which has no axis to join",
                       first);
    CM_TRY(cm_axis(f->cx, a->axis, rank, &axis));
    for (int k = 0; k < rank; k++)
        dims[k] = cm_infer_dim(f, first, k);
    CM_TRY(join_shapes(f, first, axis, dims));
    if (n_unranked)
        dims[axis] = cm_infer_fresh(f, "joined");
    CM_TRY(cm_move_shape(f, 0, rank, dims));
    return join_elems(f);
}

static cm_status eval(cm_eval *e)
{
    const concat_attr *a = e->attr;
    cm_tensor *y = cm_eval_out(e, 0);
    int axis;
    CM_TRY(cm_axis(e->cx, a->axis, y->rank, &axis));
    size_t size = cm_dtype_size(y->dtype);
    int64_t outer = cm_dims_product(y->dims, 0, axis);
    int64_t inner = cm_dims_product(y->dims, axis + 1, y->rank);
    int64_t at = 0;
    for (int i = 0; i < e->n_in; i++) {
        const cm_tensor *x = cm_eval_in(e, i);
        int64_t run = x->dims[axis] * inner;
        cm_move m = {.elem_bytes = size};
        cm_move_axis(&m, outer, run, y->dims[axis] * inner);
        cm_move_axis(&m, run, 1, 1);
        cm_move_run(&m, x->data, cm_move_to(y->data, at, size), e->threads);
        at += run;
    }
    return CM_OK;
}

const cm_family cm_family_concat = {"concat", infer, eval, cm_move_cost};
