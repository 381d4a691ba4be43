/* onehot.c -- OneHot: an axis that says which of `depth` classes an index names.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops/move/move.h"

#include <string.h>

typedef struct {
    uint64_t present;
    int64_t axis;
} one_hot_attr;
CM_ATTRS(one_hot, one_hot_attr, CM_ATTR_INT(one_hot_attr, axis, -1))

enum { INDICES, DEPTH, VALUES };

static cm_status read_depth(cm_infer *f, cm_dim *out)
{
    cm_dim v[CM_MAX_ELEMS];
    int n;
    double x;
    if (cm_dtype_is_integer(f->in[DEPTH].type->dtype)) {
        if (cm_infer_elems(f, DEPTH, v, &n) && n == 1)
            return cm_move_size(f, "depth", v[0], out);
    } else if (cm_infer_scalar_f64(f, DEPTH, &x)) {
        if (!(x > -1 && x < 9e18))
            return cm_fail(f->cx, CM_ERR_MODEL, "depth is %g", x);
        *out = (int64_t)x;
        return CM_OK;
    }
    *out = cm_infer_fresh(f, "depth");
    return CM_OK;
}

static cm_status infer(cm_infer *f)
{
    const one_hot_attr *a = f->attr;
    cm_dim dims[CM_MAX_RANK + 1];
    int rank = cm_infer_rank(f, INDICES), axis;
    CM_TRY(cm_move_check_count(f, DEPTH, "depth", 1));
    CM_TRY(cm_move_check_count(f, VALUES, "values", 2));
    if (rank < 0) {
        cm_infer_unknown(f, 0);
        return CM_OK;
    }
    CM_TRY(cm_axis(f->cx, a->axis, rank + 1, &axis));
    for (int i = 0; i < rank; i++)
        dims[i < axis ? i : i + 1] = cm_infer_dim(f, INDICES, i);
    CM_TRY(read_depth(f, &dims[axis]));
    return cm_move_shape(f, 0, rank + 1, dims);
}

/* The class that index i names, or -1. Floats truncate; what is out of range names none. */
static int64_t class_of(const cm_tensor *index, int64_t i, int64_t depth)
{
    int64_t v;
    if (cm_dtype_is_float(index->dtype)) {
        double x = cm_get_f64(index->dtype, index->data, i);
        if (!(x > -9e18 && x < 9e18))
            return -1;
        v = (int64_t)x;
    } else {
        v = cm_get_i64(index->dtype, index->data, i);
        if (index->dtype == CM_U64 && v < 0)
            return -1;
    }
    if (v < -depth || v >= depth)
        return -1;
    return v < 0 ? v + depth : v;
}

static cm_status eval(cm_eval *e)
{
    const one_hot_attr *a = e->attr;
    const cm_tensor *index = cm_eval_in(e, INDICES), *values = cm_eval_in(e, VALUES);
    cm_tensor *y = cm_eval_out(e, 0);
    int axis;
    CM_TRY(cm_axis(e->cx, a->axis, y->rank, &axis));
    size_t size = cm_dtype_size(y->dtype);
    int64_t depth = y->dims[axis], n = cm_tensor_elems(index);
    int64_t inner = cm_dims_product(y->dims, axis + 1, y->rank);
    cm_move_fill(size, values->data, y->data, cm_tensor_elems(y), e->threads);
    for (int64_t i = 0; i < n; i++) {
        int64_t c = class_of(index, i, depth);
        if (c >= 0)
            memcpy(cm_move_to(y->data, (i / inner * depth + c) * inner + i % inner, size),
                   cm_move_at(values->data, 1, size), size);
    }
    return CM_OK;
}

const cm_family cm_family_onehot = {"onehot", infer, eval, NULL};
