/* nonzero.c -- NonZero and Compress: what a condition selects.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops/move/move.h"

#include <string.h>

typedef struct {
    uint64_t present;
    int64_t axis;
} compress_attr;
CM_ATTRS(compress, compress_attr, CM_ATTR_INT(compress_attr, axis, 0))

static bool has_axis(const compress_attr *a)
{
    return a->present & 1;
}

static cm_status infer_compress(cm_infer *f)
{
    const compress_attr *a = f->attr;
    int rank = cm_infer_rank(f, 0), axis = 0;
    if (cm_infer_rank(f, 1) >= 0 && cm_infer_rank(f, 1) != 1)
        return cm_fail(f->cx, CM_ERR_MODEL, "condition has rank %d, wanted 1", cm_infer_rank(f, 1));
    if (rank >= 0 && has_axis(a))
        CM_TRY(cm_axis(f->cx, a->axis, rank, &axis));
    if (!f->dims || (rank < 0 && !has_axis(a)))
        return cm_infer_data_dependent(f, 0, 1);
    if (rank < 0) {
        cm_infer_unknown(f, 0);
        return CM_OK;
    }
    const cm_dim *of = f->in[0].type->dims;
    cm_dim n = has_axis(a) ? of[axis] : cm_move_product(f, of, 0, rank), dims[CM_MAX_RANK];
    cm_dim selected = cm_infer_upto(f, "selected", n);
    if (!has_axis(a))
        return cm_move_shape(f, 0, 1, &selected);
    for (int i = 0; i < rank; i++)
        dims[i] = i == axis ? selected : of[i];
    return cm_move_shape(f, 0, rank, dims);
}

static cm_status infer(cm_infer *f)
{
    if (f->op->id == CM_OP_COMPRESS)
        return infer_compress(f);
    if (!f->dims)
        return cm_infer_data_dependent(f, 0, 2);
    int rank = cm_infer_rank(f, 0);
    if (rank < 0)
        return cm_infer_data_dependent(f, 0, 2);
    cm_dim n = cm_move_product(f, f->in[0].type->dims, 0, rank);
    cm_dim dims[2] = {rank, cm_infer_upto(f, "nonzero", n)};
    return cm_move_shape(f, 0, 2, dims);
}

static bool is_nonzero(const cm_tensor *x, int64_t i)
{
    const double *z = x->data;
    switch (cm_dtype_get(x->dtype)->kind) {
    case CM_KIND_STRING:
        return ((const cm_str *)x->data)[i].n > 0;
    case CM_KIND_COMPLEX:
        if (x->dtype == CM_C128)
            return z[2 * i] != 0 || z[2 * i + 1] != 0;
        return cm_get_f64(CM_F32, x->data, 2 * i) != 0 ||
               cm_get_f64(CM_F32, x->data, 2 * i + 1) != 0;
    case CM_KIND_FLOAT:
        return cm_get_f64(x->dtype, x->data, i) != 0;
    default:
        return cm_get_i64(x->dtype, x->data, i) != 0;
    }
}

/* [rank, count]: column i is the place of the i-th element that is not zero. A scalar has no axes,
 * so that its result has no rows. */
static cm_status eval_nonzero(cm_eval *e)
{
    const cm_tensor *x = cm_eval_in(e, 0);
    int64_t n = cm_tensor_elems(x), count = 0, at = 0;
    for (int64_t i = 0; i < n; i++)
        count += is_nonzero(x, i);
    int64_t dims[2] = {x->rank, count};
    CM_TRY(cm_eval_alloc(e, 0, CM_I64, 2, dims));
    int64_t *y = cm_eval_out(e, 0)->data;
    for (int64_t i = 0; i < n; i++) {
        if (!is_nonzero(x, i))
            continue;
        int64_t rest = i;
        for (int k = x->rank - 1; k >= 0; k--) {
            y[k * count + at] = rest % x->dims[k];
            rest /= x->dims[k];
        }
        at++;
    }
    return CM_OK;
}

static cm_status eval_compress(cm_eval *e)
{
    const compress_attr *a = e->attr;
    const cm_tensor *x = cm_eval_in(e, 0), *condition = cm_eval_in(e, 1);
    const uint8_t *keep = condition->data;
    int axis = 0;
    if (has_axis(a))
        CM_TRY(cm_axis(e->cx, a->axis, x->rank, &axis));
    int64_t n = has_axis(a) ? x->dims[axis] : cm_tensor_elems(x);
    int64_t outer = has_axis(a) ? cm_dims_product(x->dims, 0, axis) : 1;
    int64_t inner = has_axis(a) ? cm_dims_product(x->dims, axis + 1, x->rank) : 1;
    int64_t dims[CM_MAX_RANK], count = 0, length = condition->dims[0];
    for (int64_t i = 0; i < length; i++) {
        if (keep[i] && i >= n)
            return cm_fail(e->cx, CM_ERR_DATA, "condition[%lld] selects past the size %lld",
                           (long long)i, (long long)n);
        count += keep[i] != 0;
    }
    memcpy(dims, x->dims, sizeof dims);
    dims[axis] = count;
    CM_TRY(cm_eval_alloc(e, 0, x->dtype, has_axis(a) ? x->rank : 1, dims));
    size_t size = cm_dtype_size(x->dtype);
    char *dst = cm_eval_out(e, 0)->data;
    for (int64_t o = 0; inner > 0 && o < outer; o++) {
        for (int64_t i = 0; i < length; i++) {
            if (!keep[i])
                continue;
            memcpy(dst, cm_move_at(x->data, (o * n + i) * inner, size), (size_t)inner * size);
            dst += (size_t)inner * size;
        }
    }
    return CM_OK;
}

static cm_status eval(cm_eval *e)
{
    return e->op->id == CM_OP_COMPRESS ? eval_compress(e) : eval_nonzero(e);
}

const cm_family cm_family_nonzero = {"nonzero", infer, eval, NULL};
