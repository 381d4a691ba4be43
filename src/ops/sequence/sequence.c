/* sequence.c -- operators that make, change and take apart sequences of tensors.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/size.h"
#include "ops/nested.h"

typedef struct {
    uint64_t present;
    int64_t axis, new_axis;
} concat_attr;
CM_ATTRS(concat_from_sequence, concat_attr, CM_ATTR_INT_REQUIRED(concat_attr, axis),
         CM_ATTR_INT(concat_attr, new_axis, 0))

typedef struct {
    uint64_t present;
    int64_t dtype;
} empty_attr;
CM_ATTRS(sequence_empty, empty_attr, CM_ATTR_INT(empty_attr, dtype, CM_F32))

typedef struct {
    uint64_t present;
    int64_t axis, keepdims;
} split_attr;
CM_ATTRS(split_to_sequence, split_attr, CM_ATTR_INT(split_attr, axis, 0),
         CM_ATTR_INT(split_attr, keepdims, 1))

/* ---- type rules ---- */

/* Element type of the sequence that input 0 is; NULL when it is not known. */
static cm_status sequence_elem(cm_infer *f, const cm_type **elem)
{
    const cm_type *t = f->in[0].type;
    if (t->kind != CM_SEQUENCE && t->kind != CM_NOTHING)
        return cm_fail(f->cx, CM_ERR_MODEL, "input 0 is not a sequence");
    *elem = t->kind == CM_SEQUENCE ? t->elem : NULL;
    return CM_OK;
}

static cm_status check_position(cm_infer *f, int i)
{
    if (!cm_infer_has(f, i) || !cm_infer_ranked(f, i))
        return CM_OK;
    cm_dim n = 1;
    for (int a = 0; a < cm_infer_rank(f, i); a++)
        n = cm_infer_mul(f, n, cm_infer_dim(f, i, a));
    return n == CM_DIM_ERROR ? CM_OK : cm_infer_equal(f, "elements of 'position'", n, 1);
}

static cm_status infer_construct(cm_infer *f)
{
    cm_type elem = *f->in[0].type;
    for (int i = 1; i < f->n_in; i++) {
        cm_type so_far = elem;
        if (!f->in[i].type)
            return cm_fail(f->cx, CM_ERR_MODEL, "input %d is required but absent", i);
        CM_TRY(cm_infer_join(f, "items of a sequence", &so_far, f->in[i].type, &elem));
    }
    const cm_type *kept;
    CM_TRY(cm_infer_elem(f, &elem, &kept));
    cm_infer_holder(f, 0, CM_SEQUENCE, kept);
    return CM_OK;
}

static cm_status infer_insert(cm_infer *f)
{
    const cm_type *elem, *kept;
    cm_type joined;
    CM_TRY(sequence_elem(f, &elem));
    CM_TRY(check_position(f, 2));
    CM_TRY(cm_infer_join(f, "item to insert", elem, f->in[1].type, &joined));
    CM_TRY(cm_infer_elem(f, &joined, &kept));
    cm_infer_holder(f, 0, CM_SEQUENCE, kept);
    return CM_OK;
}

static cm_status infer_erase(cm_infer *f)
{
    const cm_type *elem, *kept;
    CM_TRY(sequence_elem(f, &elem));
    CM_TRY(check_position(f, 1));
    CM_TRY(cm_infer_elem(f, elem, &kept));
    cm_infer_holder(f, 0, CM_SEQUENCE, kept);
    return CM_OK;
}

static cm_status infer_at(cm_infer *f)
{
    const cm_type *elem;
    CM_TRY(sequence_elem(f, &elem));
    CM_TRY(check_position(f, 1));
    return cm_infer_item(f, 0, elem);
}

static cm_status infer_concat(cm_infer *f)
{
    const concat_attr *a = f->attr;
    const cm_type *elem;
    CM_TRY(sequence_elem(f, &elem));
    if (a->new_axis != 0 && a->new_axis != 1)
        return cm_fail(f->cx, CM_ERR_MODEL, "new_axis is %lld, wanted 0 or 1",
                       (long long)a->new_axis);
    CM_TRY(cm_infer_item(f, 0, elem));
    cm_type *out = &f->out[0].type;
    if (!f->dims || !elem || elem->kind != CM_TENSOR || elem->rank < 0)
        return CM_OK;
    const int rank = out->rank + (int)a->new_axis;
    if (rank > CM_MAX_RANK)
        return cm_fail(f->cx, CM_ERR_UNSUPPORTED, "rank %d, the most is %d", rank, CM_MAX_RANK);
    int axis;
    CM_TRY(cm_axis(f->cx, a->axis, rank, &axis));
    if (a->new_axis)
        memmove(out->dims + axis + 1, out->dims + axis,
                (size_t)(out->rank - axis) * sizeof *out->dims);
    out->rank = rank;
    out->dims[axis] = cm_infer_fresh(f, "n");
    return out->dims[axis] == CM_DIM_ERROR ? cm_fail_memory(f->cx) : CM_OK;
}

/* The length of every part along the axis, when they are all the same number; else -1. */
static int64_t part_size(const cm_infer *f, cm_dim total)
{
    int64_t sizes[CM_MAX_ELEMS], n, size;
    if (!cm_infer_has(f, 1))
        return 1;
    if (!cm_infer_ints(f, 1, sizes, CM_MAX_ELEMS, &n) || n == 0)
        return -1;
    for (int64_t i = 1; i < n; i++)
        if (sizes[i] != sizes[0])
            return -1;
    if (cm_infer_rank(f, 1) == 1)
        return sizes[0];
    return cm_infer_const(f, total, &size) && sizes[0] > 0 && size % sizes[0] == 0 ? sizes[0] : -1;
}

static cm_status infer_split(cm_infer *f)
{
    const split_attr *a = f->attr;
    const cm_type *in = f->in[0].type, *kept;
    cm_type elem = *in;
    if (cm_infer_has(f, 1) && cm_infer_rank(f, 1) > 1)
        return cm_fail(f->cx, CM_ERR_MODEL, "'split' has rank %d, wanted 0 or 1",
                       cm_infer_rank(f, 1));
    if (in->rank >= 0) {
        int axis;
        CM_TRY(cm_axis(f->cx, a->axis, in->rank, &axis));
        if (!cm_infer_has(f, 1) && a->keepdims == 0) {
            memmove(elem.dims + axis, elem.dims + axis + 1,
                    (size_t)(in->rank - axis - 1) * sizeof *elem.dims);
            elem.rank--;
        } else if (f->dims) {
            int64_t size = part_size(f, in->dims[axis]);
            elem.dims[axis] = size >= 0 ? size : cm_infer_fresh(f, "part");
            if (elem.dims[axis] == CM_DIM_ERROR)
                return cm_fail_memory(f->cx);
        }
    }
    CM_TRY(cm_infer_elem(f, &elem, &kept));
    cm_infer_holder(f, 0, CM_SEQUENCE, kept);
    return CM_OK;
}

static cm_status infer(cm_infer *f)
{
    const empty_attr *empty = f->attr;
    const cm_type *elem;
    switch (f->op->id) {
    case CM_OP_SEQUENCE_CONSTRUCT:
        return infer_construct(f);
    case CM_OP_SEQUENCE_EMPTY:
        if (!cm_dtype_valid((int)empty->dtype) || empty->dtype != (int)empty->dtype)
            return cm_fail(f->cx, CM_ERR_MODEL, "dtype %lld is no element type",
                           (long long)empty->dtype);
        cm_infer_holder(f, 0, CM_SEQUENCE, cm_elem_tensor((cm_dtype)empty->dtype));
        return CM_OK;
    case CM_OP_SEQUENCE_INSERT:
        return infer_insert(f);
    case CM_OP_SEQUENCE_ERASE:
        return infer_erase(f);
    case CM_OP_SEQUENCE_AT:
        return infer_at(f);
    case CM_OP_SEQUENCE_LENGTH:
        CM_TRY(sequence_elem(f, &elem));
        return cm_infer_tensor(f, 0, 0, NULL);
    case CM_OP_CONCAT_FROM_SEQUENCE:
        return infer_concat(f);
    default:
        return infer_split(f);
    }
}

/* ---- evaluators ---- */

/* Position input i (absent: `dflt`) in [-n, n + over), made non-negative. */
static cm_status position(cm_eval *e, int i, int64_t n, int over, int64_t dflt, int64_t *out)
{
    int64_t p = cm_eval_has(e, i) ? cm_eval_int(e, i, 0) : dflt;
    if (p < -n || p >= n + over)
        return cm_fail(e->cx, CM_ERR_DATA, "position %lld is out of range for a sequence of %lld",
                       (long long)p, (long long)n);
    *out = p < 0 ? p + n : p;
    return CM_OK;
}

static cm_status eval_construct(cm_eval *e)
{
    CM_TRY(cm_eval_sequence(e, 0, e->n_in, e->out[0]->elem));
    for (int i = 0; i < e->n_in; i++)
        e->out[0]->items[i] = *e->in[i];
    return CM_OK;
}

static cm_status eval_insert(cm_eval *e)
{
    const cm_datum *s = e->in[0];
    int64_t at;
    CM_TRY(position(e, 2, s->n, 1, s->n, &at));
    CM_TRY(cm_eval_sequence(e, 0, s->n + 1, e->out[0]->elem));
    cm_datum *items = e->out[0]->items;
    for (int64_t i = 0; i < s->n; i++)
        items[i + (i >= at)] = s->items[i];
    items[at] = *e->in[1];
    return CM_OK;
}

static cm_status eval_erase(cm_eval *e)
{
    const cm_datum *s = e->in[0];
    int64_t at;
    CM_TRY(position(e, 1, s->n, 0, -1, &at));
    CM_TRY(cm_eval_sequence(e, 0, s->n - 1, e->out[0]->elem));
    for (int64_t i = 0; i < s->n; i++)
        if (i != at)
            e->out[0]->items[i - (i > at)] = s->items[i];
    return CM_OK;
}

static cm_status eval_at(cm_eval *e)
{
    int64_t at;
    CM_TRY(position(e, 1, e->in[0]->n, 0, 0, &at));
    return cm_eval_give(e, 0, &e->in[0]->items[at]);
}

/* Copy `n_outer` blocks of `bytes` from src (dense) to places `stride` bytes apart. */
static void copy_blocks(const char *src, int64_t n_outer, size_t bytes, char *dst, size_t stride)
{
    if (bytes)
        for (int64_t i = 0; i < n_outer; i++)
            memcpy(dst + (size_t)i * stride, src + (size_t)i * bytes, bytes);
}

/* The shape of the result, and whether the items go together. */
static cm_status concat_shape(cm_eval *e, int axis, int *rank, int64_t *dims)
{
    const concat_attr *a = e->attr;
    const cm_datum *s = e->in[0];
    const cm_tensor *first = &s->items[0].tensor;
    *rank = first->rank + (int)a->new_axis;
    for (int k = 0, from = 0; k < *rank; k++)
        dims[k] = k == axis ? 0 : first->dims[a->new_axis ? from++ : k];
    for (int64_t i = 0; i < s->n; i++) {
        const cm_tensor *t = &s->items[i].tensor;
        bool fits = t->dtype == first->dtype && t->rank == first->rank;
        for (int k = 0; fits && k < t->rank; k++)
            fits = t->dims[k] == first->dims[k] || (!a->new_axis && k == axis);
        if (!fits)
            return cm_fail(e->cx, CM_ERR_DATA,
                           "item %lld of the sequence does not have the shape "
                           "of item 0",
                           (long long)i);
        if (!cm_add_i64(dims[axis], a->new_axis ? 1 : t->dims[axis], &dims[axis]))
            return cm_fail(e->cx, CM_ERR_DATA, "the concatenation is too large");
    }
    return CM_OK;
}

static cm_status eval_concat(cm_eval *e)
{
    const concat_attr *a = e->attr;
    const cm_datum *s = e->in[0];
    int64_t dims[CM_MAX_RANK];
    int axis, rank;
    if (s->n == 0)
        return cm_fail(e->cx, CM_ERR_DATA, "an empty sequence cannot be concatenated");
    if (s->items[0].tensor.rank + a->new_axis > CM_MAX_RANK)
        return cm_fail(e->cx, CM_ERR_DATA, "the concatenation has more than %d dims", CM_MAX_RANK);
    CM_TRY(cm_axis(e->cx, a->axis, s->items[0].tensor.rank + (int)a->new_axis, &axis));
    CM_TRY(concat_shape(e, axis, &rank, dims));
    const cm_dtype dtype = s->items[0].tensor.dtype;
    CM_TRY(cm_eval_alloc(e, 0, dtype, rank, dims));
    cm_tensor *out = cm_eval_out(e, 0);
    const int64_t n_outer = cm_dims_product(dims, 0, axis);
    const size_t inner = (size_t)cm_dims_product(dims, axis + 1, rank) * cm_dtype_size(dtype);
    char *dst = out->data;
    for (int64_t i = 0; i < s->n; i++) {
        cm_datum item;
        CM_TRY(cm_eval_plain(e, &s->items[i], &item));
        size_t bytes = inner * (size_t)(a->new_axis ? 1 : item.tensor.dims[axis]);
        copy_blocks(item.tensor.data, n_outer, bytes, dst, inner * (size_t)dims[axis]);
        dst += bytes;
    }
    return CM_OK;
}

/* Lengths of the parts along the axis of length `total`. */
static cm_status split_sizes(cm_eval *e, int64_t total, int64_t *n, const int64_t **sizes)
{
    const cm_tensor *split = cm_eval_has(e, 1) ? cm_eval_in(e, 1) : NULL;
    if (split && split->rank == 1) {
        int64_t sum = 0;
        *n = cm_tensor_elems(split);
        CM_TRY(cm_eval_as_i64(e, 1, sizes));
        for (int64_t i = 0; i < *n; i++)
            if ((*sizes)[i] < 0 || !cm_add_i64(sum, (*sizes)[i], &sum))
                return cm_fail(e->cx, CM_ERR_DATA, "split[%lld] is %lld", (long long)i,
                               (long long)(*sizes)[i]);
        if (sum != total)
            return cm_fail(e->cx, CM_ERR_DATA, "parts of 'split' add up to %lld, wanted %lld",
                           (long long)sum, (long long)total);
        return CM_OK;
    }
    const int64_t each = split ? cm_eval_int(e, 1, 0) : 1;
    if (each <= 0)
        return cm_fail(e->cx, CM_ERR_DATA, "split is %lld, wanted a positive number",
                       (long long)each);
    *n = cm_ceil_div(total, each);
    void *v;
    CM_TRY(cm_eval_scratch(e, (size_t)*n + 1, sizeof(int64_t), &v));
    for (int64_t i = 0; i < *n; i++)
        ((int64_t *)v)[i] = cm_min_i64(each, total - i * each);
    *sizes = v;
    return CM_OK;
}

static cm_status eval_split(cm_eval *e)
{
    const split_attr *a = e->attr;
    const cm_tensor *in = cm_eval_in(e, 0);
    const bool squeeze = !cm_eval_has(e, 1) && a->keepdims == 0;
    const int64_t *sizes = NULL;
    int axis;
    int64_t n = 0;
    CM_TRY(cm_axis(e->cx, a->axis, in->rank, &axis));
    CM_TRY(split_sizes(e, in->dims[axis], &n, &sizes));
    CM_TRY(cm_eval_sequence(e, 0, n, e->out[0]->elem));
    const int64_t n_outer = cm_dims_product(in->dims, 0, axis);
    const size_t inner =
        (size_t)cm_dims_product(in->dims, axis + 1, in->rank) * cm_dtype_size(in->dtype);
    const size_t row = inner * (size_t)in->dims[axis];
    const char *src = in->data;
    for (int64_t i = 0; i < n; i++) {
        int64_t dims[CM_MAX_RANK];
        int rank = 0;
        for (int k = 0; k < in->rank; k++)
            if (k != axis || !squeeze)
                dims[rank++] = k == axis ? sizes[i] : in->dims[k];
        cm_datum *item = &e->out[0]->items[i];
        item->kind = CM_TENSOR;
        CM_TRY(cm_eval_temp(e, in->dtype, rank, dims, &item->tensor));
        const size_t bytes = inner * (size_t)sizes[i];
        for (int64_t k = 0; bytes && k < n_outer; k++)
            memcpy((char *)item->tensor.data + (size_t)k * bytes, src + (size_t)k * row, bytes);
        src += bytes;
    }
    return CM_OK;
}

static cm_status eval(cm_eval *e)
{
    if (!cm_eval_wants(e, 0))
        return CM_OK;
    switch (e->op->id) {
    case CM_OP_SEQUENCE_CONSTRUCT:
        return eval_construct(e);
    case CM_OP_SEQUENCE_EMPTY:
        return cm_eval_sequence(e, 0, 0, e->out[0]->elem);
    case CM_OP_SEQUENCE_INSERT:
        return eval_insert(e);
    case CM_OP_SEQUENCE_ERASE:
        return eval_erase(e);
    case CM_OP_SEQUENCE_AT:
        return eval_at(e);
    case CM_OP_SEQUENCE_LENGTH:
        *(int64_t *)cm_eval_out(e, 0)->data = e->in[0]->n;
        return CM_OK;
    case CM_OP_CONCAT_FROM_SEQUENCE:
        return eval_concat(e);
    default:
        return eval_split(e);
    }
}

const cm_family cm_family_sequence = {.name = "sequence", .infer = infer, .eval = eval};
