/* shape.c -- Shape and Size: the sizes of a tensor as data. Their elements are tracked as dims:
 * shape arithmetic begins here.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/size.h"
#include "ops/move/move.h"

typedef struct {
    uint64_t present;
    int64_t start, end;
} shape_attr;
CM_ATTRS(shape, shape_attr, CM_ATTR_INT(shape_attr, start, 0), CM_ATTR_INT(shape_attr, end, 0))

static int clamp_axis(int64_t axis, int rank)
{
    if (axis < 0)
        axis = axis < -rank ? 0 : axis + rank;
    return (int)cm_min_i64(axis, rank);
}

/* The axes asked for: [*from, *to), empty when from >= to. */
static void axis_range(const shape_attr *a, int rank, int *from, int *to)
{
    *from = clamp_axis(a->start, rank);
    *to = a->present & 2 ? clamp_axis(a->end, rank) : rank;
    if (*to < *from)
        *to = *from;
}

static cm_status infer(cm_infer *f)
{
    int rank = cm_infer_rank(f, 0), from, to;
    if (f->op->id == CM_OP_SIZE) {
        CM_TRY(cm_move_shape(f, 0, 0, NULL));
        if (rank >= 0 && f->dims) {
            cm_dim n = cm_move_product(f, f->in[0].type->dims, 0, rank);
            cm_infer_set_elems(f, 0, &n, 1);
        }
        return CM_OK;
    }
    if (rank < 0)
        return cm_move_fresh_shape(f, 0, 1);
    axis_range(f->attr, rank, &from, &to);
    cm_dim n = to - from;
    CM_TRY(cm_move_shape(f, 0, 1, &n));
    if (f->dims)
        cm_infer_set_elems(f, 0, f->in[0].type->dims + from, to - from);
    return CM_OK;
}

static cm_status eval(cm_eval *e)
{
    const cm_tensor *x = cm_eval_in(e, 0);
    int64_t *y = cm_eval_out(e, 0)->data;
    int from, to;
    if (e->op->id == CM_OP_SIZE) {
        *y = cm_tensor_elems(x);
        return CM_OK;
    }
    axis_range(e->attr, x->rank, &from, &to);
    for (int i = from; i < to; i++)
        y[i - from] = x->dims[i];
    return CM_OK;
}

const cm_family cm_family_shape = {"shape", infer, eval, cm_move_cost};
