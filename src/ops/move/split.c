/* split.c -- Split: a tensor cut into parts along one axis.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/size.h"
#include "ops/move/move.h"

typedef struct {
    uint64_t present;
    int64_t axis;
    int64_t num_outputs;
} split_attr;
CM_ATTRS(split, split_attr, CM_ATTR_INT(split_attr, axis, 0),
         CM_ATTR_INT(split_attr, num_outputs, 0))

/* Parts of a number of equal sizes, the last ones smaller: 7 in 3 is 3, 3, 1. */
static cm_dim equal_part(cm_infer *f, cm_dim size, int64_t n, int i)
{
    if (f->dims && !cm_dim_is_size(size) && cm_dim_mod(f->dims, size, n) == 0)
        return cm_infer_floor_div(f, size, n);
    cm_dim part = cm_infer_ceil_div(f, size, n);
    cm_dim left = cm_infer_sub(f, size, cm_infer_mul(f, part, i));
    if (i == 0)
        return part;
    if (i == 1 && n == 2)
        return left;
    return cm_move_max(f, 0, cm_move_min(f, part, left));
}

/* The entries of `split`, which sum up to the size; fresh symbols where they are not known. */
static cm_status given_parts(cm_infer *f, cm_dim size, cm_dim *parts)
{
    int64_t *v, n = -1;
    cm_vector split = {.n = -1};
    CM_NEW_N(f->cx, f->cx->scratch, v, f->n_out, int64_t);
    bool is_numbers = cm_infer_ints(f, 1, v, f->n_out, &n);
    if (!is_numbers) {
        CM_TRY(cm_move_vector(f, 1, "split", &split));
        n = split.n;
    }
    if (n >= 0 && n != f->n_out)
        return cm_fail(f->cx, CM_ERR_MODEL, "split has %lld entries for %d outputs", (long long)n,
                       f->n_out);
    cm_dim sum = 0;
    for (int i = 0; i < f->n_out; i++) {
        if (is_numbers || split.known)
            CM_TRY(cm_move_size(f, "split", is_numbers ? cm_infer_number(f, v[i]) : split.v[i],
                                &parts[i]));
        else
            parts[i] = cm_infer_fresh(f, "part");
        sum = cm_infer_add(f, sum, parts[i]);
    }
    if (!is_numbers && !split.known)
        return CM_OK;
    if (sum == CM_DIM_ERROR && !f->dims)
        return cm_fail(f->cx, CM_ERR_MODEL, "the sum of split overflows");
    return cm_infer_equal(f, "sum of split", sum, size);
}

/* The length of each output along the axis. */
static cm_status part_sizes(cm_infer *f, cm_dim size, cm_dim *parts)
{
    const split_attr *a = f->attr;
    int64_t n = a->present & 2 ? a->num_outputs : f->n_out;
    if (cm_infer_has(f, 1) && (a->present & 2))
        return cm_fail(f->cx, CM_ERR_MODEL, "both split and num_outputs are given, wanted one");
    if (cm_infer_has(f, 1))
        return given_parts(f, size, parts);
    if (n < f->n_out)
        return cm_fail(f->cx, CM_ERR_MODEL, "num_outputs is %lld, but there are %d outputs",
                       (long long)n, f->n_out);
    for (int i = 0; i < f->n_out; i++)
        parts[i] = equal_part(f, size, n, i);
    return CM_OK;
}

/* Elements of a vector that is cut at known places. */
static void split_elems(cm_infer *f, const cm_dim *parts)
{
    cm_dim v[CM_MAX_ELEMS];
    int n;
    if (cm_infer_rank(f, 0) != 1 || !cm_move_tracked(f, 0, v, &n))
        return;
    int64_t at = 0, m;
    for (int i = 0; i < f->n_out; i++) {
        if (!cm_infer_const(f, parts[i], &m) || m < 0 || m > n - at)
            return;
        cm_infer_set_elems(f, i, v + at, (int)m);
        at += m;
    }
}

static cm_status infer(cm_infer *f)
{
    const split_attr *a = f->attr;
    int rank = cm_infer_rank(f, 0), axis;
    if (rank < 0) {
        for (int i = 0; i < f->n_out; i++)
            cm_infer_unknown(f, i);
        return CM_OK;
    }
    CM_TRY(cm_axis(f->cx, a->axis, rank, &axis));
    cm_dim dims[CM_MAX_RANK], *parts;
    CM_NEW_N(f->cx, f->cx->scratch, parts, f->n_out, cm_dim);
    CM_TRY(part_sizes(f, cm_infer_dim(f, 0, axis), parts));
    for (int k = 0; k < rank; k++)
        dims[k] = cm_infer_dim(f, 0, k);
    for (int i = 0; i < f->n_out; i++) {
        dims[axis] = parts[i];
        CM_TRY(cm_move_shape(f, i, rank, dims));
    }
    split_elems(f, parts);
    return CM_OK;
}

static cm_status eval(cm_eval *e)
{
    const split_attr *a = e->attr;
    const cm_tensor *x = cm_eval_in(e, 0);
    int axis;
    CM_TRY(cm_axis(e->cx, a->axis, x->rank, &axis));
    size_t size = cm_dtype_size(x->dtype);
    int64_t outer = cm_dims_product(x->dims, 0, axis);
    int64_t inner = cm_dims_product(x->dims, axis + 1, x->rank);
    int64_t n = a->present & 2 ? a->num_outputs : e->n_out;
    int64_t part = cm_ceil_div(x->dims[axis], n), at = 0;
    for (int i = 0; i < e->n_out; i++) {
        int64_t run = cm_eval_has(e, 1) ? cm_eval_int(e, 1, i)
                                        : cm_max_i64(0, cm_min_i64(part, x->dims[axis] - at));
        if (cm_eval_wants(e, i)) {
            cm_move m = {.elem_bytes = size};
            cm_move_axis(&m, outer, x->dims[axis] * inner, run * inner);
            cm_move_axis(&m, run * inner, 1, 1);
            cm_move_run(&m, cm_move_at(x->data, at * inner, size), cm_eval_out(e, i)->data,
                        e->threads);
        }
        at += run;
    }
    return CM_OK;
}

const cm_family cm_family_split = {"split", infer, eval, cm_move_cost};
