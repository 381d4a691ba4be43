/* attr_serial.c -- attributes as bytes in a plan: (name, kind, value) for every field that was given.
 * SPDX-License-Identifier: Apache-2.0
 *
 *     u32 count, then per field:  u32 name length, name, u8 kind, value
 *     int: u64   float: u32 bits   str: u32 n, bytes   lists: u32 n, then the elements
 *     tensor: u8 present, u32 dtype, u32 rank, u64 dims..., u64 n, bytes (packed; str: as a list)
 *     type: u8 kind, then by kind (see write_type) */
#include <string.h>

#include "base/size.h"
#include "ops/attr_impl.h"

static void write_str(cm_buf *b, cm_str s)
{
    cm_buf_u32(b, (uint32_t)s.n);
    cm_buf_bytes(b, s.p, s.n);
}

static void write_tensor(cm_buf *b, const cm_tensor *t)
{
    cm_buf_u8(b, t != NULL);
    if (!t)
        return;
    cm_buf_u32(b, t->dtype);
    cm_buf_u32(b, (uint32_t)t->rank);
    for (int i = 0; i < t->rank; i++)
        cm_buf_u64(b, (uint64_t)t->dims[i]);
    if (t->dtype == CM_STR) {
        for (int64_t i = 0, n = cm_tensor_elems(t); i < n; i++)
            write_str(b, ((const cm_str *)t->data)[i]);
        return;
    }
    size_t bytes = 0;
    if (!cm_tensor_bytes(t, &bytes))
        b->failed = true;
    cm_buf_u64(b, bytes);
    cm_buf_bytes(b, t->data, bytes);
}

static void write_type(cm_buf *b, const cm_type *t)
{
    cm_buf_u8(b, t ? (uint8_t)t->kind : CM_NOTHING);
    if (!t)
        return;
    if (t->kind == CM_TENSOR) {
        cm_buf_u32(b, t->dtype);
        cm_buf_u32(b, (uint32_t)t->rank);
        for (int i = 0; i < t->rank; i++)
            cm_buf_u64(b, (uint64_t)t->dims[i]);
    } else if (t->kind == CM_MAP) {
        cm_buf_u32(b, t->key);
        cm_buf_u32(b, t->dtype);
    } else if (t->kind == CM_SEQUENCE || t->kind == CM_OPTIONAL) {
        write_type(b, t->elem);
    }
}

static void write_value(cm_buf *b, cm_attr_kind kind, const void *p)
{
    switch (kind) {
    case CM_A_INT:
        cm_buf_u64(b, (uint64_t) * (const int64_t *)p);
        break;
    case CM_A_FLOAT:
        cm_buf_bytes(b, p, 4);
        break;
    case CM_A_STR:
        write_str(b, *(const cm_str *)p);
        break;
    case CM_A_INTS: {
        const cm_ints *l = p;
        cm_buf_u32(b, (uint32_t)l->n);
        cm_buf_bytes(b, l->v, (size_t)l->n * 8);
        break;
    }
    case CM_A_FLOATS: {
        const cm_floats *l = p;
        cm_buf_u32(b, (uint32_t)l->n);
        cm_buf_bytes(b, l->v, (size_t)l->n * 4);
        break;
    }
    case CM_A_STRS: {
        const cm_strs *l = p;
        cm_buf_u32(b, (uint32_t)l->n);
        for (int64_t i = 0; i < l->n; i++)
            write_str(b, l->v[i]);
        break;
    }
    case CM_A_TENSOR:
        write_tensor(b, *(cm_tensor *const *)p);
        break;
    case CM_A_TYPE:
        write_type(b, *(cm_type *const *)p);
        break;
    }
}

void cm_attr_write(const cm_attr_desc *d, const void *attr, cm_buf *out)
{
    uint32_t n = 0;
    for (int i = 0; i < d->n_fields; i++)
        n += cm_attr_present(d, attr, &d->fields[i]);
    cm_buf_u32(out, n);
    for (int i = 0; i < d->n_fields; i++) {
        const cm_attr_field *f = &d->fields[i];
        if (!cm_attr_present(d, attr, f))
            continue;
        write_str(out, cm_str_of(f->name));
        cm_buf_u8(out, (uint8_t)f->kind);
        write_value(out, f->kind, cm_attr_get(attr, f));
    }
}

typedef struct {
    cm_ctx *cx;
    cm_arena *arena;
    const unsigned char *p;
    size_t n;
} reader;

static cm_status cut_short(reader *r)
{
    return cm_fail(r->cx, CM_ERR_PLAN, "attributes end too early");
}

static cm_status take(reader *r, size_t n, const void **out)
{
    if (n > r->n)
        return cut_short(r);
    *out = r->p;
    r->p += n;
    r->n -= n;
    return CM_OK;
}

static cm_status take_u8(reader *r, uint8_t *v)
{
    const void *p;
    CM_TRY(take(r, 1, &p));
    *v = *(const uint8_t *)p;
    return CM_OK;
}

static cm_status take_u32(reader *r, uint32_t *v)
{
    const void *p;
    CM_TRY(take(r, 4, &p));
    memcpy(v, p, 4);
    return CM_OK;
}

static cm_status take_u64(reader *r, uint64_t *v)
{
    const void *p;
    CM_TRY(take(r, 8, &p));
    memcpy(v, p, 8);
    return CM_OK;
}

static cm_status take_str(reader *r, cm_str *s)
{
    uint32_t n;
    const void *p;
    CM_TRY(take_u32(r, &n));
    CM_TRY(take(r, n, &p));
    char *copy = cm_arena_strndup(r->arena, p, n);
    if (!copy)
        return cm_fail_memory(r->cx);
    *s = (cm_str){copy, n};
    return CM_OK;
}

/* A list of n elements of `size` bytes each, copied out. */
static cm_status take_list(reader *r, size_t size, int64_t *n, const void **v)
{
    uint32_t count;
    const void *p;
    size_t bytes;
    CM_TRY(take_u32(r, &count));
    if (!cm_mul(count, size, &bytes))
        return cut_short(r);
    CM_TRY(take(r, bytes, &p));
    *v = cm_arena_memdup(r->arena, p, bytes);
    if (!*v)
        return cm_fail_memory(r->cx);
    *n = count;
    return CM_OK;
}

static cm_status take_strs(reader *r, uint64_t n, const cm_str **out)
{
    if (n > r->n / 4) /* each takes at least its length */
        return cut_short(r);
    cm_str *v;
    CM_NEW_N(r->cx, r->arena, v, n, cm_str);
    for (uint64_t i = 0; i < n; i++)
        CM_TRY(take_str(r, &v[i]));
    *out = v;
    return CM_OK;
}

static cm_status take_dtype(reader *r, cm_dtype *out)
{
    uint32_t v;
    CM_TRY(take_u32(r, &v));
    if (!cm_dtype_valid((int)v))
        return cm_fail(r->cx, CM_ERR_PLAN, "element type %u is unknown", v);
    *out = (cm_dtype)v;
    return CM_OK;
}

static cm_status take_rank(reader *r, int lowest, int *rank)
{
    uint32_t v;
    CM_TRY(take_u32(r, &v));
    if ((int32_t)v < lowest || (int32_t)v > CM_MAX_RANK)
        return cm_fail(r->cx, CM_ERR_PLAN, "rank %d is out of range", (int32_t)v);
    *rank = (int32_t)v;
    return CM_OK;
}

static cm_status take_tensor(reader *r, const cm_tensor **out)
{
    uint8_t present;
    CM_TRY(take_u8(r, &present));
    *out = NULL;
    if (!present)
        return CM_OK;
    cm_tensor *t;
    CM_NEW(r->cx, r->arena, t, cm_tensor);
    cm_dtype dtype;
    int rank;
    uint64_t dims[CM_MAX_RANK];
    CM_TRY(take_dtype(r, &dtype));
    CM_TRY(take_rank(r, 0, &rank));
    for (int i = 0; i < rank; i++)
        CM_TRY(take_u64(r, &dims[i]));
    if (!cm_tensor_shape(t, dtype, rank, (const int64_t *)dims))
        return cm_fail(r->cx, CM_ERR_PLAN, "an attribute tensor has an impossible shape");
    t->packed = cm_dtype_is_sub_byte(dtype);
    if (dtype == CM_STR) {
        const cm_str *v;
        CM_TRY(take_strs(r, (uint64_t)cm_tensor_elems(t), &v));
        t->data = (void *)v;
    } else {
        uint64_t bytes;
        size_t want;
        const void *p;
        CM_TRY(take_u64(r, &bytes));
        if (!cm_tensor_bytes(t, &want) || bytes != want)
            return cm_fail(r->cx, CM_ERR_PLAN, "an attribute tensor holds %llu bytes, wanted %zu",
                           (unsigned long long)bytes, want);
        CM_TRY(take(r, want, &p));
        t->data = cm_arena_memdup(r->arena, p, want);
        if (!t->data)
            return cm_fail_memory(r->cx);
        t->capacity_bytes = want;
    }
    *out = t;
    return CM_OK;
}

static cm_status take_type(reader *r, int depth, const cm_type **out)
{
    uint8_t kind;
    CM_TRY(take_u8(r, &kind));
    *out = NULL;
    if (kind == CM_NOTHING)
        return CM_OK;
    if (kind > CM_MAP || depth > 16)
        return cm_fail(r->cx, CM_ERR_PLAN, "an attribute type is malformed");
    cm_type *t;
    CM_NEW(r->cx, r->arena, t, cm_type);
    t->kind = kind;
    if (kind == CM_TENSOR) {
        CM_TRY(take_dtype(r, &t->dtype));
        CM_TRY(take_rank(r, -1, &t->rank));
        for (int i = 0; i < t->rank; i++) {
            uint64_t d;
            CM_TRY(take_u64(r, &d));
            t->dims[i] = (cm_dim)d;
        }
    } else if (kind == CM_MAP) {
        CM_TRY(take_dtype(r, &t->key));
        CM_TRY(take_dtype(r, &t->dtype));
    } else {
        CM_TRY(take_type(r, depth + 1, &t->elem));
    }
    *out = t;
    return CM_OK;
}

static cm_status take_value(reader *r, cm_attr_kind kind, void *field)
{
    switch (kind) {
    case CM_A_INT:
        return take_u64(r, field);
    case CM_A_FLOAT:
        return take_u32(r, field);
    case CM_A_STR:
        return take_str(r, field);
    case CM_A_INTS: {
        cm_ints *l = field;
        return take_list(r, 8, &l->n, (const void **)&l->v);
    }
    case CM_A_FLOATS: {
        cm_floats *l = field;
        return take_list(r, 4, &l->n, (const void **)&l->v);
    }
    case CM_A_STRS: {
        cm_strs *l = field;
        uint32_t n;
        CM_TRY(take_u32(r, &n));
        l->n = n;
        return take_strs(r, n, &l->v);
    }
    case CM_A_TENSOR:
        return take_tensor(r, field);
    case CM_A_TYPE:
        return take_type(r, 0, field);
    }
    return cm_fail(r->cx, CM_ERR_PLAN, "attribute kind %d is unknown", kind);
}

cm_status cm_attr_read(cm_ctx *cx, cm_arena *arena, const cm_attr_desc *d, const void *bytes,
                       size_t n, void **out)
{
    reader r = {cx, arena, bytes, n};
    uint32_t count = 0;
    void *attr;
    CM_TRY(cm_attr_new(cx, arena, d, &attr));
    if (n) /* no bytes at all: all defaults */
        CM_TRY(take_u32(&r, &count));
    for (uint32_t i = 0; i < count; i++) {
        cm_str name;
        uint8_t kind;
        CM_TRY(take_str(&r, &name));
        CM_TRY(take_u8(&r, &kind));
        const cm_attr_field *f = cm_attr_find(d, name.p);
        if (!f)
            return cm_fail(cx, CM_ERR_PLAN, "attribute '%s' is unknown to this version", name.p);
        if (kind != f->kind)
            return cm_fail(cx, CM_ERR_PLAN, "attribute '%s' has kind %d, wanted %d", name.p, kind,
                           f->kind);
        union {
            int64_t i;
            float f;
            cm_str s;
            cm_ints list;
            void *p;
        } field = {0};
        CM_TRY(take_value(&r, f->kind, &field));
        cm_attr_set(d, attr, f, &field);
    }
    if (r.n)
        return cm_fail(cx, CM_ERR_PLAN, "%zu bytes follow the attributes", r.n);
    CM_TRY(cm_attr_check(cx, d, attr));
    *out = attr;
    return CM_OK;
}
