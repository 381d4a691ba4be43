/* tensor.c -- TensorProto to tensor: from raw bytes, typed lists, or a file beside the model.
 * SPDX-License-Identifier: Apache-2.0 */
#include "onnx/tensor.h"

#include <string.h>

#include "base/copy.h"
#include "base/file.h"
#include "base/size.h"

typedef enum {
    FROM_BYTES,
    FROM_FILE,
    FROM_I32,
    FROM_I64,
    FROM_U64,
    FROM_F32,
    FROM_F64,
    FROM_STR
} from;

/* A tensor found and measured, not yet read. */
typedef struct located {
    cm_tensor shape; /* data NULL */
    int64_t n;
    size_t bytes; /* dense, packed */
    from from;
    cm_str raw;      /* FROM_BYTES, FROM_FILE */
    cm_mapping file; /* FROM_FILE without a source: to be closed */
} located;

static cm_status read_shape(cm_ctx *cx, const pb_tensor *p, located *l)
{
    if (p->data_type <= 0 || p->data_type >= CM_DTYPE_COUNT)
        return cm_fail(cx, CM_ERR_MODEL, "element type %d is unknown", p->data_type);
    if (p->dims.n > CM_MAX_RANK)
        return cm_fail(cx, CM_ERR_MODEL, "rank %zu is over %d", p->dims.n, CM_MAX_RANK);
    for (size_t i = 0; i < p->dims.n; i++)
        if (p->dims.v[i] < 0)
            return cm_fail(cx, CM_ERR_MODEL, "dim %zu is %lld", i, (long long)p->dims.v[i]);
    if (p->has_segment)
        return cm_fail(cx, CM_ERR_UNSUPPORTED, "tensors in segments are not supported");
    if (!cm_tensor_shape(&l->shape, (cm_dtype)p->data_type, (int)p->dims.n, p->dims.v))
        return cm_fail(cx, CM_ERR_MODEL, "the shape has more elements than memory can hold");
    l->n = cm_tensor_elems(&l->shape);
    if (!cm_dtype_bytes(l->shape.dtype, l->n, &l->bytes))
        return cm_fail(cx, CM_ERR_MODEL, "the shape has more elements than memory can hold");
    return CM_OK;
}

static bool parse_size(cm_str s, size_t *out)
{
    size_t v = 0;
    for (size_t i = 0; i < s.n; i++)
        if (s.p[i] < '0' || s.p[i] > '9' || !cm_mul(v, 10, &v) ||
            !cm_add(v, (size_t)(s.p[i] - '0'), &v))
            return false;
    *out = v;
    return s.n > 0;
}

static bool is_key(const pb_entry *e, const char *key)
{
    return cm_str_equal(e->key, cm_str_of(key));
}

typedef struct external {
    cm_str location;
    size_t offset, length;
    bool has_length;
    cm_str checksum; /* of weights that were left out */
} external;

static cm_status read_entries(cm_ctx *cx, const pb_tensor *p, external *x)
{
    for (size_t i = 0; i < p->external_data.n; i++) {
        const pb_entry *e = &p->external_data.v[i];
        bool ok = true;
        if (is_key(e, "location"))
            x->location = e->value;
        else if (is_key(e, "offset"))
            ok = parse_size(e->value, &x->offset);
        else if (is_key(e, "length"))
            ok = x->has_length = parse_size(e->value, &x->length);
        else if (is_key(e, "checksum"))
            x->checksum = e->value;
        if (!ok)
            return cm_fail(cx, CM_ERR_MODEL, "external data: %.*s '%.*s' is not a number",
                           (int)e->key.n, e->key.p, (int)cm_min_i64((int64_t)e->value.n, 40),
                           e->value.p);
    }
    if (x->location.n == 0)
        return cm_fail(cx, CM_ERR_MODEL, "external data without a location");
    if (memchr(x->location.p, 0, x->location.n))
        return cm_fail(cx, CM_ERR_MODEL, "external data: its location holds a NUL byte");
    return CM_OK;
}

static cm_status check_extent(cm_ctx *cx, const external *x, const located *l, size_t file_bytes)
{
    size_t end;
    if (x->has_length && x->length != l->bytes)
        return cm_fail(cx, CM_ERR_MODEL, "external data: length is %zu, the tensor has %zu bytes",
                       x->length, l->bytes);
    if (!cm_add(x->offset, l->bytes, &end) || end > file_bytes)
        return cm_fail(
            cx, CM_ERR_MODEL,
            "external data: %zu bytes at offset %zu pass the end of the file (%zu bytes)", l->bytes,
            x->offset, file_bytes);
    return CM_OK;
}

static uint64_t parse_checksum(cm_str s)
{
    uint64_t v = 0;
    for (size_t i = 0; i < s.n && i < 16; i++) {
        const char *digits = "0123456789abcdef", *d = strchr(digits, s.p[i]);
        v = v << 4 | (d && *d ? (uint64_t)(d - digits) : 0);
    }
    return v;
}

static cm_status locate_stripped(const pb_context *c, const pb_tensor *p, const external *x,
                                 located *l)
{
    const void *bytes;
    if (!c->stripped)
        return cm_fail(c->cx, CM_ERR_MODEL,
                       "its data was left out of the model: `cameo edit restore-weights` puts it "
                       "back");
    if (x->has_length && x->length != l->bytes)
        return cm_fail(c->cx, CM_ERR_MODEL, "%zu bytes were left out, the tensor has %zu",
                       x->length, l->bytes);
    CM_TRY(c->stripped->find(c->stripped->user, c->cx, p->name, &l->shape,
                             parse_checksum(x->checksum), &bytes));
    l->from = FROM_FILE;
    l->raw = (cm_str){bytes, l->bytes};
    return CM_OK;
}

static cm_status locate_external(const pb_context *c, const pb_tensor *p, located *l)
{
    external x = {0};
    const char *path;
    cm_str file;
    CM_TRY(read_entries(c->cx, p, &x));
    if (l->shape.dtype == CM_STR)
        return cm_fail(c->cx, CM_ERR_MODEL, "strings as external data");
    if (cm_str_equal(x.location, cm_str_of(CM_ONNX_STRIPPED)))
        return locate_stripped(c, p, &x, l);
    if (!c->folder)
        return cm_fail(c->cx, CM_ERR_MODEL, "external data, but the model has no folder");
    const char *relative = cm_arena_strndup(c->arena, x.location.p, x.location.n);
    if (!relative)
        return cm_fail_memory(c->cx);
    CM_TRY(cm_path_inside(c->cx, c->arena, c->folder, relative, &path));
    l->from = FROM_FILE;
    if (c->source) {
        CM_TRY(cm_onnx_source_map(c->cx, c->source, path, &file));
    } else {
        CM_TRY(cm_file_map(c->cx, path, &l->file));
        file = (cm_str){(const char *)l->file.data, l->file.n};
    }
    CM_TRY(check_extent(c->cx, &x, l, file.n));
    l->raw = (cm_str){file.p + x.offset, l->bytes};
    return CM_OK;
}

/* The typed list that ONNX keeps elements of `t` in, and how many entries `n` elements take. */
static from typed_list(cm_dtype t, int64_t n, size_t *entries)
{
    *entries = (size_t)n;
    switch (t) {
    case CM_F32:
        return FROM_F32;
    case CM_C64:
        *entries *= 2;
        return FROM_F32;
    case CM_F64:
        return FROM_F64;
    case CM_C128:
        *entries *= 2;
        return FROM_F64;
    case CM_I64:
        return FROM_I64;
    case CM_U32:
    case CM_U64:
        return FROM_U64;
    case CM_STR:
        return FROM_STR;
    case CM_U4:
    case CM_I4:
    case CM_F4E2M1:
        *entries = (size_t)cm_ceil_div(n, 2);
        return FROM_I32;
    case CM_U2:
    case CM_I2:
        *entries = (size_t)cm_ceil_div(n, 4);
        return FROM_I32;
    default:
        return FROM_I32;
    }
}

static size_t list_entries(const pb_tensor *p, from f)
{
    switch (f) {
    case FROM_I32:
        return p->int32_data.n;
    case FROM_I64:
        return p->int64_data.n;
    case FROM_U64:
        return p->uint64_data.n;
    case FROM_F32:
        return p->float_data.n;
    case FROM_F64:
        return p->double_data.n;
    case FROM_STR:
        return p->string_data.n;
    default:
        return 0;
    }
}

static cm_status locate_typed(cm_ctx *cx, const pb_tensor *p, located *l)
{
    size_t wanted;
    l->from = typed_list(l->shape.dtype, l->n, &wanted);
    size_t found = list_entries(p, l->from);
    if (found != wanted)
        return cm_fail(cx, CM_ERR_MODEL, "found %zu entries of data, wanted %zu", found, wanted);
    size_t all = p->int32_data.n + p->int64_data.n + p->uint64_data.n + p->float_data.n +
                 p->double_data.n + p->string_data.n;
    if (all != found)
        return cm_fail(cx, CM_ERR_MODEL, "data of another element type beside its own");
    return CM_OK;
}

static cm_status locate(const pb_context *c, const pb_tensor *p, located *l)
{
    *l = (located){0};
    CM_TRY(read_shape(c->cx, p, l));
    if (p->data_location == 1)
        return locate_external(c, p, l);
    if (p->data_location != 0)
        return cm_fail(c->cx, CM_ERR_MODEL, "data location %d is unknown", p->data_location);
    if (!p->has_raw || (p->raw_data.n == 0 && l->bytes > 0 && l->shape.dtype != CM_STR))
        return locate_typed(c->cx, p, l);
    if (l->shape.dtype == CM_STR) {
        if (p->raw_data.n == 0)
            return locate_typed(c->cx, p, l);
        return cm_fail(c->cx, CM_ERR_MODEL, "strings as raw data");
    }
    if (p->raw_data.n != l->bytes)
        return cm_fail(c->cx, CM_ERR_MODEL, "found %zu bytes of raw data, wanted %zu",
                       p->raw_data.n, l->bytes);
    l->from = FROM_BYTES;
    l->raw = p->raw_data;
    return CM_OK;
}

static void finish(located *l)
{
    if (l->file.data)
        cm_file_unmap(&l->file);
}

cm_status pb_tensor_check(const pb_context *c, const pb_tensor *p)
{
    located l;
    cm_status st = locate(c, p, &l);
    finish(&l);
    return st;
}

static size_t alignment(cm_dtype t)
{
    size_t n = cm_dtype_size(t);
    return n > 8 ? 8 : n;
}

static bool has_odd_bool(cm_str s)
{
    for (size_t i = 0; i < s.n; i++)
        if ((unsigned char)s.p[i] > 1)
            return true;
    return false;
}

/* Bytes that may stay where they are, else a copy. */
static cm_status read_bytes(const pb_context *c, located *l, cm_tensor *out)
{
    bool stays = l->file.data == NULL && (uintptr_t)l->raw.p % alignment(out->dtype) == 0;
    bool odd = out->dtype == CM_BOOL && has_odd_bool(l->raw);
    enum { LARGE = 64 << 10 };
    if (stays && !odd) {
        out->data = (void *)(uintptr_t)l->raw.p;
        return CM_OK;
    }
    if (c->source && !l->file.data && !odd && l->bytes >= LARGE)
        return cm_onnx_source_copy(c->cx, c->source, l->raw, &out->data);
    unsigned char *copy = cm_arena_alloc_n(c->arena, l->bytes ? l->bytes : 1, 1, 64, 0);
    if (!copy)
        return cm_fail_memory(c->cx);
    if (l->bytes)
        cm_copy_large(copy, l->raw.p, l->bytes);
    for (size_t i = 0; odd && i < l->bytes; i++)
        copy[i] = copy[i] != 0;
    out->data = copy;
    return CM_OK;
}

/* int32_data holds every type of 32 bits and less, one entry an element, or a byte of packed
 * ones. */
static void narrow(const pb_tensor *p, cm_tensor *out)
{
    size_t n = p->int32_data.n;
    const int32_t *v = p->int32_data.v;
    int bits = cm_dtype_is_sub_byte(out->dtype) ? 8 : (int)cm_dtype_size(out->dtype) * 8;
    for (size_t i = 0; i < n; i++) {
        if (out->dtype == CM_BOOL)
            ((uint8_t *)out->data)[i] = v[i] != 0;
        else if (bits == 8)
            ((uint8_t *)out->data)[i] = (uint8_t)v[i];
        else if (bits == 16)
            ((uint16_t *)out->data)[i] = (uint16_t)v[i];
        else
            ((int32_t *)out->data)[i] = v[i];
    }
}

static cm_status read_six_bit(const pb_context *c, const pb_tensor *p, cm_tensor *out)
{
    unsigned char *one_each;
    CM_NEW_N(c->cx, c->arena, one_each, p->int32_data.n + 1, unsigned char);
    for (size_t i = 0; i < p->int32_data.n; i++)
        one_each[i] = (unsigned char)(p->int32_data.v[i] & 63);
    cm_pack_sub_byte(out->dtype, one_each, (int64_t)p->int32_data.n, out->data);
    return CM_OK;
}

static cm_status read_strings(const pb_context *c, const pb_tensor *p, cm_tensor *out)
{
    cm_str *v = out->data;
    for (size_t i = 0; i < p->string_data.n; i++) {
        char *copy = cm_arena_strndup(c->arena, p->string_data.v[i].p, p->string_data.v[i].n);
        if (!copy)
            return cm_fail_memory(c->cx);
        v[i] = (cm_str){copy, p->string_data.v[i].n};
    }
    return CM_OK;
}

static cm_status read_typed(const pb_context *c, const pb_tensor *p, located *l, cm_tensor *out)
{
    size_t bytes = l->shape.dtype == CM_STR ? (size_t)l->n * sizeof(cm_str) : l->bytes;
    out->data = cm_arena_alloc_n(c->arena, bytes ? bytes : 1, 1, 64, 1);
    if (!out->data)
        return cm_fail_memory(c->cx);
    if (!bytes)
        return CM_OK;
    switch (l->from) {
    case FROM_STR:
        return read_strings(c, p, out);
    case FROM_I32:
        if (out->dtype == CM_F6E2M3 || out->dtype == CM_F6E3M2)
            return read_six_bit(c, p, out);
        narrow(p, out);
        return CM_OK;
    case FROM_U64:
        if (out->dtype == CM_U64)
            memcpy(out->data, p->uint64_data.v, bytes);
        for (size_t i = 0; out->dtype == CM_U32 && i < p->uint64_data.n; i++)
            ((uint32_t *)out->data)[i] = (uint32_t)p->uint64_data.v[i];
        return CM_OK;
    case FROM_I64:
        memcpy(out->data, p->int64_data.v, bytes);
        return CM_OK;
    case FROM_F32:
        memcpy(out->data, p->float_data.v, bytes);
        return CM_OK;
    default:
        memcpy(out->data, p->double_data.v, bytes);
        return CM_OK;
    }
}

cm_status pb_tensor_read(const pb_context *c, const pb_tensor *p, cm_tensor *out)
{
    located l;
    cm_status st = locate(c, p, &l);
    if (st == CM_OK) {
        *out = l.shape;
        out->packed = cm_dtype_is_sub_byte(out->dtype);
        st = l.from <= FROM_FILE ? read_bytes(c, &l, out) : read_typed(c, p, &l, out);
        out->capacity_bytes = l.bytes;
    }
    finish(&l);
    return st;
}
