/* reshape.c -- Reshape, Flatten, Squeeze, Unsqueeze, Identity: the same elements in the same order.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops/move/move.h"

typedef struct {
    uint64_t present;
    int64_t allowzero;
} reshape_attr;
CM_ATTRS(reshape, reshape_attr, CM_ATTR_INT(reshape_attr, allowzero, 0))

typedef struct {
    uint64_t present;
    int64_t axis;
} flatten_attr;
CM_ATTRS(flatten, flatten_attr, CM_ATTR_INT(flatten_attr, axis, 1))

/* What the shape input of Reshape says, element by element. `rest` is the product of the input dims
 * that were not copied, `product` that of the output dims that were not copied either. */
typedef struct {
    cm_dim dims[CM_MAX_RANK];
    cm_dim rest, product;
    int inferred;    /* the place of -1, or -1 */
    bool has_zero;   /* a literal zero, under allowzero */
    bool is_certain; /* every element could be read as a size */
    bool is_numeric; /* every element is a number */
} target;

/* A zero that means "as in the input". */
static cm_status copy_dim(cm_infer *f, int i, bool *is_copied, target *t)
{
    if (!cm_infer_ranked(f, 0)) {
        t->dims[i] = cm_infer_fresh(f, "size");
        t->is_certain = false;
        return CM_OK;
    }
    if (i >= cm_infer_rank(f, 0))
        return cm_fail(f->cx, CM_ERR_MODEL,
                       "shape[%d] is 0 (keep that size), but the input has rank %d", i,
                       cm_infer_rank(f, 0));
    t->dims[i] = cm_infer_dim(f, 0, i);
    is_copied[i] = true;
    return CM_OK;
}

static cm_status read_element(cm_infer *f, int i, cm_dim e, bool *is_copied, target *t)
{
    const reshape_attr *a = f->attr;
    int64_t v;
    if (!cm_infer_const(f, e, &v)) {
        t->is_certain = t->is_certain && !cm_move_may_be_anything(f, e);
        t->is_numeric = false;
        CM_TRY(cm_move_size(f, "shape", e, &t->dims[i]));
    } else if (v == 0 && !a->allowzero) {
        return copy_dim(f, i, is_copied, t);
    } else if (v == -1) {
        if (t->inferred >= 0)
            return cm_fail(f->cx, CM_ERR_MODEL, "shape has -1 at %d and at %d, wanted at most one",
                           t->inferred, i);
        t->inferred = i;
        return CM_OK;
    } else if (v < -1) {
        return cm_fail(f->cx, CM_ERR_MODEL, "shape[%d] is %lld", i, (long long)v);
    } else {
        t->has_zero = t->has_zero || v == 0;
        t->dims[i] = v;
    }
    t->product = cm_infer_mul(f, t->product, t->dims[i]);
    return CM_OK;
}

/* The size that -1 stands for. */
static cm_status infer_rest(cm_infer *f, target *t)
{
    int64_t rest, product;
    cm_dim *d = &t->dims[t->inferred];
    if (t->has_zero)
        return cm_fail(f->cx, CM_ERR_MODEL, "shape has both 0 and -1, which allowzero forbids");
    if (!t->is_certain || !cm_infer_ranked(f, 0)) {
        *d = cm_infer_fresh(f, "size");
        return CM_OK;
    }
    if (cm_infer_const(f, t->rest, &rest) && cm_infer_const(f, t->product, &product)) {
        if (product == 0 || rest % product != 0)
            return cm_fail(f->cx, CM_ERR_MODEL,
                           "%lld elements cannot be divided into groups of %lld to find -1",
                           (long long)rest, (long long)product);
    }
    *d = cm_infer_floor_div(f, t->rest, t->product);
    return CM_OK;
}

static cm_status infer_reshape(cm_infer *f)
{
    cm_vector shape;
    CM_TRY(cm_move_vector(f, 1, "shape", &shape));
    if (shape.n > CM_MAX_RANK)
        return cm_fail(f->cx, CM_ERR_MODEL, "shape has %lld elements, the highest rank is %d",
                       (long long)shape.n, CM_MAX_RANK);
    if (!shape.known) {
        if (shape.n >= 0)
            return cm_move_fresh_shape(f, 0, shape.n);
        cm_infer_unknown(f, 0);
        return CM_OK;
    }
    target t = {.rest = 1, .product = 1, .inferred = -1, .is_certain = true, .is_numeric = true};
    bool is_copied[CM_MAX_RANK] = {false};
    for (int i = 0; i < shape.n; i++)
        CM_TRY(read_element(f, i, shape.v[i], is_copied, &t));
    for (int i = 0; i < cm_infer_rank(f, 0); i++)
        if (!is_copied[i])
            t.rest = cm_infer_mul(f, t.rest, cm_infer_dim(f, 0, i));
    if (t.product == CM_DIM_ERROR && t.is_numeric)
        return cm_fail(f->cx, CM_ERR_MODEL, "the product of the new shape overflows");
    if (t.inferred >= 0)
        CM_TRY(infer_rest(f, &t));
    else if (t.is_certain && cm_infer_ranked(f, 0))
        CM_TRY(cm_infer_equal(f, "elements of the new shape", t.product, t.rest));
    return cm_move_shape(f, 0, shape.n, t.dims);
}

static cm_status infer_flatten(cm_infer *f)
{
    const flatten_attr *a = f->attr;
    if (!cm_infer_ranked(f, 0))
        return cm_move_fresh_shape(f, 0, 2);
    int rank = cm_infer_rank(f, 0), axis = rank;
    if (a->axis != rank)
        CM_TRY(cm_axis(f->cx, a->axis, rank, &axis));
    const cm_dim *dims = f->in[0].type->dims;
    cm_dim out[2] = {cm_move_product(f, dims, 0, axis), cm_move_product(f, dims, axis, rank)};
    return cm_move_shape(f, 0, 2, out);
}

/* Without axes: every axis of size 1 goes, so a symbolic size hides the rank. */
static cm_status squeeze_all(cm_infer *f)
{
    cm_dim dims[CM_MAX_RANK];
    int rank = 0;
    for (int i = 0; i < cm_infer_rank(f, 0); i++) {
        int64_t v;
        dims[rank] = cm_infer_dim(f, 0, i);
        if (!cm_infer_const(f, dims[rank], &v)) {
            cm_infer_unknown(f, 0);
            return CM_OK;
        }
        rank += v != 1;
    }
    return cm_move_shape(f, 0, rank, dims);
}

static cm_status infer_squeeze(cm_infer *f)
{
    if (!cm_infer_ranked(f, 0)) {
        cm_infer_unknown(f, 0);
        return CM_OK;
    }
    if (!cm_infer_has(f, 1))
        return squeeze_all(f);
    int rank = cm_infer_rank(f, 0), n = 0;
    cm_vector axes;
    int64_t v[CM_MAX_ELEMS];
    CM_TRY(cm_move_numbers(f, 1, "axes", &axes, v));
    if (axes.n > rank)
        return cm_fail(f->cx, CM_ERR_MODEL, "axes has %lld entries for an input of rank %d",
                       (long long)axes.n, rank);
    if (!axes.known) {
        if (axes.n >= 0)
            return cm_move_fresh_shape(f, 0, rank - axes.n);
        cm_infer_unknown(f, 0);
        return CM_OK;
    }
    bool is_in[CM_MAX_RANK];
    cm_dim dims[CM_MAX_RANK];
    CM_TRY(cm_axes(f->cx, v, axes.n, rank, is_in));
    for (int i = 0; i < rank; i++) {
        if (is_in[i])
            CM_TRY(cm_infer_equal(f, "size of a squeezed axis", cm_infer_dim(f, 0, i), 1));
        else
            dims[n++] = cm_infer_dim(f, 0, i);
    }
    return cm_move_shape(f, 0, n, dims);
}

static cm_status infer_unsqueeze(cm_infer *f)
{
    cm_vector axes;
    int64_t v[CM_MAX_ELEMS];
    CM_TRY(cm_move_numbers(f, 1, "axes", &axes, v));
    if (!cm_infer_ranked(f, 0) || axes.n < 0) {
        cm_infer_unknown(f, 0);
        return CM_OK;
    }
    int64_t rank = cm_infer_rank(f, 0) + axes.n;
    if (!axes.known || rank > CM_MAX_RANK)
        return cm_move_fresh_shape(f, 0, rank);
    bool is_in[CM_MAX_RANK];
    cm_dim dims[CM_MAX_RANK];
    CM_TRY(cm_axes(f->cx, v, axes.n, (int)rank, is_in));
    for (int i = 0, from = 0; i < rank; i++)
        dims[i] = is_in[i] ? 1 : cm_infer_dim(f, 0, from++);
    return cm_move_shape(f, 0, rank, dims);
}

static cm_status infer(cm_infer *f)
{
    switch (f->op->id) {
    case CM_OP_RESHAPE:
        CM_TRY(infer_reshape(f));
        break;
    case CM_OP_FLATTEN:
        CM_TRY(infer_flatten(f));
        break;
    case CM_OP_SQUEEZE:
        CM_TRY(infer_squeeze(f));
        break;
    case CM_OP_UNSQUEEZE:
        CM_TRY(infer_unsqueeze(f));
        break;
    default: /* Identity: any kind of value */
        f->out[0].type = *f->in[0].type;
        if (f->out[0].type.kind != CM_TENSOR)
            return CM_OK;
    }
    cm_move_pass_elems(f);
    return CM_OK;
}

static cm_status eval(cm_eval *e)
{
    if (e->in[0]->kind == CM_TENSOR)
        cm_move_copy(cm_eval_in(e, 0), cm_eval_out(e, 0));
    else
        *e->out[0] = *e->in[0];
    return CM_OK;
}

const cm_family cm_family_reshape = {"reshape", infer, eval, cm_move_cost};
