/* transpose.c -- Transpose: axes in another order.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops/move/move.h"

typedef struct {
    uint64_t present;
    cm_ints perm;
} transpose_attr;
CM_ATTRS(transpose, transpose_attr, CM_ATTR_INTS(transpose_attr, perm, 0))

/* The input axis of output axis i; reversed when no perm was given. */
static int axis_from(const transpose_attr *a, int rank, int i)
{
    if (!(a->present & 1))
        return rank - 1 - i;
    return (int)(a->perm.v[i] < 0 ? a->perm.v[i] + rank : a->perm.v[i]);
}

static void permute(const transpose_attr *a, const cm_tensor *x, const cm_tensor *y, cm_move *m)
{
    for (int i = 0; i < y->rank; i++)
        cm_move_axis(m, y->dims[i], x->strides[axis_from(a, x->rank, i)], y->strides[i]);
}

static void permute_elems(cm_infer *f)
{
    cm_dim v[CM_MAX_ELEMS], out[CM_MAX_ELEMS];
    cm_tensor x, y;
    int n;
    if (!cm_move_tracked(f, 0, v, &n) || !cm_move_numeric_shape(f, f->in[0].type, &x) ||
        !cm_move_numeric_shape(f, &f->out[0].type, &y))
        return;
    cm_move m = {.elem_bytes = sizeof *v};
    permute(f->attr, &x, &y, &m);
    cm_move_run(&m, v, out, NULL);
    cm_infer_set_elems(f, 0, out, n);
}

static cm_status infer(cm_infer *f)
{
    const transpose_attr *a = f->attr;
    int rank = cm_infer_rank(f, 0);
    bool has_perm = a->present & 1, is_in[CM_MAX_RANK];
    if (rank < 0) {
        if (has_perm)
            return cm_move_fresh_shape(f, 0, a->perm.n);
        cm_infer_unknown(f, 0);
        return CM_OK;
    }
    if (has_perm && a->perm.n != rank)
        return cm_fail(f->cx, CM_ERR_MODEL, "perm has %lld entries, wanted %d for the input's rank",
                       (long long)a->perm.n, rank);
    if (has_perm)
        CM_TRY(cm_axes(f->cx, a->perm.v, a->perm.n, rank, is_in));
    cm_dim dims[CM_MAX_RANK];
    for (int i = 0; i < rank; i++)
        dims[i] = cm_infer_dim(f, 0, axis_from(a, rank, i));
    CM_TRY(cm_move_shape(f, 0, rank, dims));
    permute_elems(f);
    return CM_OK;
}

static cm_status eval(cm_eval *e)
{
    const cm_tensor *x = cm_eval_in(e, 0);
    cm_tensor *y = cm_eval_out(e, 0);
    cm_move m = {.elem_bytes = cm_dtype_size(x->dtype)};
    permute(e->attr, x, y, &m);
    cm_move_run(&m, x->data, y->data, e->threads);
    return CM_OK;
}

const cm_family cm_family_transpose = {"transpose", infer, eval, cm_move_cost};
