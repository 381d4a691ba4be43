/* stack.c -- stacks tensors in a slot's room; the room grows by halves when the number of items is
 * not known.
 * SPDX-License-Identifier: Apache-2.0 */
#include "runtime/stack.h"

#include <string.h>

#include "base/size.h"

void cm_stack_begin(cm_stack *s, int64_t length, int64_t hint, int64_t axis, bool reversed)
{
    *s = (cm_stack){.length = length, .hint = hint, .axis = axis, .reversed = reversed};
}

static cm_status find_axis(cm_ctx *cx, int64_t axis, int rank, int *out)
{
    if (axis < -rank || axis >= rank)
        return cm_fail(cx, CM_ERR_DATA, "output axis %lld is out of range for rank %d",
                       (long long)axis, rank);
    *out = (int)(axis < 0 ? axis + rank : axis);
    return CM_OK;
}

static cm_status first_item(cm_ctx *cx, cm_stack *s, cm_slot *out, const cm_tensor *t)
{
    if (t->rank >= CM_MAX_RANK)
        return cm_fail(cx, CM_ERR_DATA, "a scanned output has rank %d, the most is %d", t->rank,
                       CM_MAX_RANK - 1);
    int at;
    CM_TRY(find_axis(cx, s->axis, t->rank + 1, &at));
    s->axis = at;
    s->each = *t;
    s->each.data = NULL;
    if (!cm_mul((size_t)cm_tensor_elems(t), cm_dtype_size(t->dtype), &s->item_bytes))
        return cm_fail(cx, CM_ERR_DATA, "a scanned output is too large");
    cm_arena *unused;
    if (t->dtype == CM_STR)
        CM_TRY(cm_room_arena(cx, &out->room, &unused)); /* where characters go */
    size_t likely;
    if (s->length < 0 && s->hint > 0 && cm_mul((size_t)s->hint, s->item_bytes, &likely) &&
        likely <= (size_t)64 << 20)
        CM_TRY(cm_room_reserve(cx, &out->room, likely, 0));
    return CM_OK;
}

static cm_status check_item(cm_ctx *cx, const cm_stack *s, const cm_tensor *t)
{
    char found[256], wanted[256];
    if (t->dtype == s->each.dtype && cm_tensor_same_shape(t, &s->each))
        return CM_OK;
    return cm_fail(cx, CM_ERR_DATA,
                   "a scanned output is %s%s in iteration %lld, before it was %s%s",
                   cm_dtype_name(t->dtype), cm_shape_text(found, sizeof found, t->rank, t->dims),
                   (long long)s->n, cm_dtype_name(s->each.dtype),
                   cm_shape_text(wanted, sizeof wanted, s->each.rank, s->each.dims));
}

/* The item's elements as they are stacked: unpacked, strings in the room's own memory. */
static cm_status own_elements(cm_ctx *cx, const cm_stack *s, const cm_slot *out, const cm_tensor *t,
                              const void **data)
{
    int64_t n = cm_tensor_elems(t);
    *data = t->data;
    bool packed = t->packed && cm_dtype_is_sub_byte(t->dtype);
    if (!packed && t->dtype != CM_STR)
        return CM_OK;
    void *own = cm_arena_alloc_n(cx->scratch, s->item_bytes, 1, 64, 0);
    if (!own)
        return cm_fail_memory(cx);
    *data = own;
    if (packed) {
        cm_unpack_sub_byte(t->dtype, t->data, n, own);
        return CM_OK;
    }
    memcpy(own, t->data, s->item_bytes);
    for (int64_t i = 0; i < n; i++)
        CM_TRY(cm_string_copy(cx, cm_room_current(&out->room), (cm_str *)own + i));
    return CM_OK;
}

/* Put one item's elements at index `at` of `length` along the axis. */
static void place(const cm_stack *s, unsigned char *to, const unsigned char *from, int64_t at,
                  int64_t length)
{
    size_t inner = (size_t)cm_dims_product(s->each.dims, (int)s->axis, s->each.rank) *
                   cm_dtype_size(s->each.dtype);
    int64_t outer = cm_dims_product(s->each.dims, 0, (int)s->axis);
    for (int64_t i = 0; inner && i < outer; i++)
        memcpy(to + (size_t)(i * length + at) * inner, from + (size_t)i * inner, inner);
}

cm_status cm_stack_add(cm_ctx *cx, cm_stack *s, cm_slot *out, const cm_datum *item)
{
    if (item->kind != CM_TENSOR)
        return cm_fail(cx, CM_ERR_DATA, "a scanned output is not a tensor");
    const cm_tensor *t = &item->tensor;
    CM_TRY(s->n == 0 ? first_item(cx, s, out, t) : check_item(cx, s, t));
    int64_t length = s->length >= 0 ? s->length : s->n + 1;
    size_t bytes;
    if (!cm_mul((size_t)length, s->item_bytes, &bytes))
        return cm_fail(cx, CM_ERR_DATA, "a scanned output is too large");
    size_t keep = s->length >= 0 ? 0 : (size_t)s->n * s->item_bytes;
    if (s->n == 0 || s->length < 0)
        CM_TRY(cm_room_reserve(cx, &out->room, bytes, keep));
    cm_arena_mark mark = cm_arena_save(cx->scratch);
    const void *data;
    cm_status st = own_elements(cx, s, out, t, &data);
    if (st == CM_OK)
        place(s, out->room.data, data, s->reversed ? length - 1 - s->n : s->n, length);
    cm_arena_restore(cx->scratch, mark);
    s->n++;
    return st;
}

/* Nothing came: the shape is the type's, with 0 along the axis and for what is not known. */
static cm_status empty_shape(cm_ctx *cx, const cm_context *c, const cm_stack *s,
                             const cm_type *type, cm_tensor *t)
{
    int64_t dims[CM_MAX_RANK] = {0};
    int axis = 0, rank = type->kind == CM_TENSOR && type->rank > 0 ? type->rank : 1;
    CM_TRY(find_axis(cx, s->axis, rank, &axis));
    if (type->kind == CM_TENSOR && type->rank > 0)
        for (int i = 0; i < rank; i++)
            if (i == axis ||
                !cm_dim_eval(c->engine->plan->dims, type->dims[i], c->symbols, &dims[i]) ||
                dims[i] < 0)
                dims[i] = 0;
    if (!cm_tensor_shape(t, type->dtype, rank, dims))
        return cm_fail(cx, CM_ERR_DATA, "a scanned output of unknown type is empty");
    return CM_OK;
}

/* Sub-byte elements were stacked a byte each. */
static cm_status pack(cm_ctx *cx, cm_tensor *t)
{
    size_t bytes;
    int64_t n = cm_tensor_elems(t);
    if (!cm_dtype_bytes(t->dtype, n, &bytes))
        return cm_fail(cx, CM_ERR_DATA, "a scanned output is too large");
    cm_arena_mark mark = cm_arena_save(cx->scratch);
    void *packed = cm_arena_alloc_n(cx->scratch, bytes, 1, 64, 1);
    if (!packed)
        return cm_fail_memory(cx);
    cm_pack_sub_byte(t->dtype, t->data, n, packed);
    if (bytes)
        memcpy(t->data, packed, bytes);
    cm_arena_restore(cx->scratch, mark);
    t->packed = true;
    return CM_OK;
}

cm_status cm_stack_end(cm_ctx *cx, const cm_context *c, cm_stack *s, cm_slot *out,
                       const cm_type *type)
{
    cm_datum d = {.kind = CM_TENSOR};
    if (s->n == 0) {
        CM_TRY(empty_shape(cx, c, s, type, &d.tensor));
    } else {
        int64_t dims[CM_MAX_RANK];
        for (int i = 0, k = 0; i <= s->each.rank; i++)
            dims[i] = i == s->axis ? s->n : s->each.dims[k++];
        if (!cm_tensor_shape(&d.tensor, s->each.dtype, s->each.rank + 1, dims))
            return cm_fail(cx, CM_ERR_DATA, "a scanned output is too large");
    }
    CM_TRY(cm_room_reserve(cx, &out->room, 0, 0));
    d.tensor.data = out->room.data;
    d.tensor.capacity_bytes = out->room.bytes;
    if (cm_dtype_is_sub_byte(d.tensor.dtype))
        CM_TRY(pack(cx, &d.tensor));
    out->datum = d;
    out->owned = true;
    return CM_OK;
}
