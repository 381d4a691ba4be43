/* datum.c -- serialised tensors, sequences, optionals and maps, and tensors serialised.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "onnx/tensor.h"
#include "onnx/wire.h"

static cm_status from_tensor(const pb_context *c, const pb_tensor *p, cm_datum *out)
{
    *out = (cm_datum){.kind = CM_TENSOR};
    return pb_tensor_read(c, p, &out->tensor);
}

static cm_status from_sequence(const pb_context *c, const pb_sequence *p, const cm_type *elem,
                               cm_datum *out);
static cm_status from_optional(const pb_context *c, const pb_optional *p, const cm_type *elem,
                               cm_datum *out);

static cm_status new_items(const pb_context *c, cm_datum *d, cm_kind kind, size_t n,
                           const cm_type *elem)
{
    *d = (cm_datum){.kind = kind, .elem = elem, .n = (int64_t)n};
    CM_NEW_N(c->cx, c->arena, d->items, n, cm_datum);
    return CM_OK;
}

/* Values of a map as a sequence of scalars, or of one-dim tensors: one tensor of them all. */
static cm_status join_scalars(const pb_context *c, const pb_sequence *p, cm_tensor *out)
{
    int64_t n = (int64_t)p->tensor_values.n;
    cm_tensor one = {0};
    if (n == 1) { /* all values in one tensor */
        CM_TRY(pb_tensor_read(c, &p->tensor_values.v[0], out));
        int64_t elems = cm_tensor_elems(out);
        void *data = out->data;
        if (!cm_tensor_shape(out, out->dtype, 1, &elems))
            return cm_fail_memory(c->cx);
        out->data = data;
        return CM_OK;
    }
    for (int64_t i = 0; i < n; i++) {
        CM_TRY(pb_tensor_read(c, &p->tensor_values.v[i], &one));
        if (cm_tensor_elems(&one) != 1 || one.packed || (i > 0 && one.dtype != out->dtype))
            return cm_fail(c->cx, CM_ERR_MODEL, "value %lld of a map is no scalar of its type",
                           (long long)i);
        size_t size = cm_dtype_size(one.dtype);
        if (i == 0) {
            if (!cm_tensor_shape(out, one.dtype, 1, &n))
                return cm_fail_memory(c->cx);
            out->data = cm_arena_alloc_n(c->arena, (size_t)n, size, 64, 1);
            out->capacity_bytes = (size_t)n * size;
            if (!out->data)
                return cm_fail_memory(c->cx);
        }
        memcpy((char *)out->data + (size_t)i * size, one.data, size);
    }
    return CM_OK;
}

static cm_status from_map(const pb_context *c, const pb_map *p, cm_datum *out)
{
    int64_t n = (int64_t)(p->string_keys.n ? p->string_keys.n : p->keys.n);
    cm_dtype key = p->key_type == CM_STR || p->string_keys.n ? CM_STR : CM_I64;
    CM_TRY(new_items(c, out, CM_MAP, 2, NULL));
    cm_tensor *keys = &out->items[0].tensor, *values = &out->items[1].tensor;
    out->items[0].kind = out->items[1].kind = CM_TENSOR;
    if (!cm_tensor_shape(keys, key, 1, &n))
        return cm_fail_memory(c->cx);
    size_t size = cm_dtype_size(key);
    keys->data = cm_arena_alloc_n(c->arena, (size_t)n, size, 16, 1);
    keys->capacity_bytes = (size_t)n * size;
    if (!keys->data)
        return cm_fail_memory(c->cx);
    if (n)
        memcpy(keys->data, key == CM_STR ? (const void *)p->string_keys.v : p->keys.v,
               (size_t)n * size);
    int64_t none = 0;
    if (!cm_tensor_shape(values, CM_F32, 1, &none))
        return cm_fail_memory(c->cx);
    if (p->values)
        CM_TRY(join_scalars(c, p->values, values));
    if (values->dims[0] != n)
        return cm_fail(c->cx, CM_ERR_MODEL, "a map of %lld keys and %lld values", (long long)n,
                       (long long)values->dims[0]);
    return CM_OK;
}

static cm_status from_sequence(const pb_context *c, const pb_sequence *p, const cm_type *elem,
                               cm_datum *out)
{
    size_t nt = p->tensor_values.n, ns = p->sequence_values.n, nm = p->map_values.n,
           no = p->optional_values.n;
    size_t n = nt + ns + nm + no;
    const cm_type *inner = elem ? elem->elem : NULL;
    if (n != nt && n != ns && n != nm && n != no)
        return cm_fail(c->cx, CM_ERR_MODEL, "a sequence of several kinds");
    CM_TRY(new_items(c, out, CM_SEQUENCE, n, elem));
    for (size_t i = 0; i < nt; i++)
        CM_TRY(from_tensor(c, &p->tensor_values.v[i], &out->items[i]));
    for (size_t i = 0; i < ns; i++)
        CM_TRY(from_sequence(c, &p->sequence_values.v[i], inner, &out->items[i]));
    for (size_t i = 0; i < nm; i++)
        CM_TRY(from_map(c, &p->map_values.v[i], &out->items[i]));
    for (size_t i = 0; i < no; i++)
        CM_TRY(from_optional(c, &p->optional_values.v[i], inner, &out->items[i]));
    return CM_OK;
}

static cm_status from_optional(const pb_context *c, const pb_optional *p, const cm_type *elem,
                               cm_datum *out)
{
    const cm_type *inner = elem ? elem->elem : NULL;
    bool full = p->tensor_value || p->sequence_value || p->map_value || p->optional_value;
    CM_TRY(new_items(c, out, CM_OPTIONAL, full ? 1 : 0, elem));
    if (p->tensor_value)
        return from_tensor(c, p->tensor_value, &out->items[0]);
    if (p->sequence_value)
        return from_sequence(c, p->sequence_value, inner, &out->items[0]);
    if (p->map_value)
        return from_map(c, p->map_value, &out->items[0]);
    if (p->optional_value)
        return from_optional(c, p->optional_value, inner, &out->items[0]);
    return CM_OK;
}

static cm_status read_datum(const pb_context *c, cm_arena *tmp, const void *bytes, size_t n,
                            const cm_type *expected, cm_datum *out)
{
    const cm_type *elem = expected ? expected->elem : NULL;
    pb_sequence sequence = {0};
    pb_optional optional = {0};
    pb_map map = {0};
    pb_tensor tensor = {0};
    switch (expected ? expected->kind : CM_TENSOR) {
    case CM_SEQUENCE:
        CM_TRY(pb_decode(c->cx, tmp, &pb_sequence_message, bytes, n, &sequence));
        return from_sequence(c, &sequence, elem, out);
    case CM_OPTIONAL:
        CM_TRY(pb_decode(c->cx, tmp, &pb_optional_message, bytes, n, &optional));
        return from_optional(c, &optional, elem, out);
    case CM_MAP:
        CM_TRY(pb_decode(c->cx, tmp, &pb_map_message, bytes, n, &map));
        return from_map(c, &map, out);
    default:
        CM_TRY(pb_decode(c->cx, tmp, &pb_tensor_message, bytes, n, &tensor));
        return from_tensor(c, &tensor, out);
    }
}

cm_status cm_onnx_read_datum(cm_ctx *cx, cm_arena *arena, const void *bytes, size_t n,
                             const cm_type *expected, cm_datum *out)
{
    pb_context c = {.cx = cx, .arena = arena};
    cm_arena tmp;
    cm_arena_init(&tmp, cx->allocator);
    cm_status st = read_datum(&c, &tmp, bytes, n, expected, out);
    cm_arena_deinit(&tmp);
    return st;
}

static void write_strings(const cm_tensor *t, const cm_str *v, cm_buf *out)
{
    for (int64_t i = 0; i < cm_tensor_elems(t); i++)
        pb_write_bytes(out, 6, v[i].p, v[i].n);
}

/* The elements, dense and packed. */
static cm_status write_elements(const pb_context *c, const cm_tensor *t, cm_buf *out)
{
    int64_t n = cm_tensor_elems(t);
    size_t bytes;
    if (!cm_dtype_bytes(t->dtype, n, &bytes))
        return cm_fail(c->cx, CM_ERR_ARGUMENT, "the tensor is too large");
    const void *data = t->data;
    if (!cm_tensor_is_dense(t)) {
        void *copy = cm_arena_alloc_n(c->arena, (size_t)n, cm_dtype_size(t->dtype), 64, 0);
        if (!copy)
            return cm_fail_memory(c->cx);
        cm_tensor_copy_dense(t, copy);
        data = copy;
    }
    if (t->dtype == CM_STR) {
        write_strings(t, data, out);
        return CM_OK;
    }
    if (cm_dtype_is_sub_byte(t->dtype) && !t->packed) {
        void *packed = cm_arena_alloc_n(c->arena, bytes, 1, 16, 1);
        if (!packed)
            return cm_fail_memory(c->cx);
        cm_pack_sub_byte(t->dtype, data, n, packed);
        data = packed;
    }
    pb_write_bytes(out, 9, data, bytes);
    return CM_OK;
}

cm_status cm_onnx_write_tensor(cm_ctx *cx, const char *name, const cm_tensor *t, cm_buf *out)
{
    pb_context c = {.cx = cx};
    cm_arena tmp;
    cm_arena_init(&tmp, cx->allocator);
    c.arena = &tmp;
    for (int i = 0; i < t->rank; i++)
        pb_write_int(out, 1, t->dims[i]);
    pb_write_int(out, 2, t->dtype);
    if (name)
        pb_write_text(out, 8, name);
    cm_status st = write_elements(&c, t, out);
    cm_arena_deinit(&tmp);
    if (st == CM_OK && out->failed)
        return cm_fail_memory(cx);
    return st;
}
