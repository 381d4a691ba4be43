/* attr.c -- attribute structs through their descriptors: make, set, check, compare, copy.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops/attr.h"

#include <string.h>

#include "ops/attr_impl.h"

static unsigned char *at(const void *attr, const cm_attr_field *f)
{
    return (unsigned char *)attr + f->offset;
}

static int field_index(const cm_attr_desc *d, const cm_attr_field *f)
{
    return (int)(f - d->fields);
}

size_t cm_attr_field_bytes(cm_attr_kind kind)
{
    switch (kind) {
    case CM_A_INT:
        return sizeof(int64_t);
    case CM_A_FLOAT:
        return sizeof(float);
    case CM_A_STR:
        return sizeof(cm_str);
    case CM_A_INTS:
        return sizeof(cm_ints);
    case CM_A_FLOATS:
        return sizeof(cm_floats);
    case CM_A_STRS:
        return sizeof(cm_strs);
    case CM_A_TENSOR:
    case CM_A_TYPE:
        return sizeof(void *);
    }
    return 0;
}

cm_status cm_attr_new(cm_ctx *cx, cm_arena *arena, const cm_attr_desc *d, void **out)
{
    *out = NULL;
    if (d->bytes == 0)
        return CM_OK;
    void *attr = cm_arena_alloc(arena, d->bytes);
    if (!attr)
        return cm_fail_memory(cx);
    for (int i = 0; i < d->n_fields; i++) {
        const cm_attr_field *f = &d->fields[i];
        if (f->kind == CM_A_INT)
            *(int64_t *)at(attr, f) = (int64_t)f->default_number;
        else if (f->kind == CM_A_FLOAT)
            *(float *)at(attr, f) = (float)f->default_number;
        else if (f->kind == CM_A_STR)
            *(cm_str *)at(attr, f) = cm_str_of(f->default_str ? f->default_str : "");
    }
    *out = attr;
    return CM_OK;
}

const cm_attr_field *cm_attr_find(const cm_attr_desc *d, const char *name)
{
    for (int i = 0; i < d->n_fields; i++)
        if (strcmp(d->fields[i].name, name) == 0)
            return &d->fields[i];
    return NULL;
}

bool cm_attr_present(const cm_attr_desc *d, const void *attr, const cm_attr_field *f)
{
    return attr && (*(const uint64_t *)attr >> field_index(d, f) & 1);
}

bool cm_attr_has(const cm_attr_desc *d, const void *attr, const char *name)
{
    const cm_attr_field *f = cm_attr_find(d, name);
    return f && cm_attr_present(d, attr, f);
}

void cm_attr_set(const cm_attr_desc *d, void *attr, const cm_attr_field *f, const void *value)
{
    memcpy(at(attr, f), value, cm_attr_field_bytes(f->kind));
    *(uint64_t *)attr |= (uint64_t)1 << field_index(d, f);
}

const void *cm_attr_get(const void *attr, const cm_attr_field *f)
{
    return at(attr, f);
}

cm_status cm_attr_check(cm_ctx *cx, const cm_attr_desc *d, const void *attr)
{
    for (int i = 0; i < d->n_fields; i++)
        if ((d->fields[i].flags & CM_REQUIRED) && !cm_attr_present(d, attr, &d->fields[i]))
            return cm_fail(cx, CM_ERR_MODEL, "attribute '%s' is missing", d->fields[i].name);
    return CM_OK;
}

static bool tensors_equal(const cm_tensor *a, const cm_tensor *b)
{
    if (!a || !b)
        return a == b;
    if (a->dtype != b->dtype || a->packed != b->packed || !cm_tensor_same_shape(a, b))
        return false;
    if (a->dtype == CM_STR) {
        for (int64_t i = 0, n = cm_tensor_elems(a); i < n; i++)
            if (!cm_str_equal(((cm_str *)a->data)[i], ((cm_str *)b->data)[i]))
                return false;
        return true;
    }
    size_t bytes;
    return cm_tensor_bytes(a, &bytes) && (bytes == 0 || memcmp(a->data, b->data, bytes) == 0);
}

static bool fields_equal(const cm_attr_field *f, const void *pa, const void *pb)
{
    switch (f->kind) {
    case CM_A_INT:
        return *(const int64_t *)pa == *(const int64_t *)pb;
    case CM_A_FLOAT:
        return memcmp(pa, pb, sizeof(float)) == 0;
    case CM_A_STR:
        return cm_str_equal(*(const cm_str *)pa, *(const cm_str *)pb);
    case CM_A_INTS: {
        const cm_ints *a = pa, *b = pb;
        return a->n == b->n && (a->n == 0 || !memcmp(a->v, b->v, (size_t)a->n * sizeof *a->v));
    }
    case CM_A_FLOATS: {
        const cm_floats *a = pa, *b = pb;
        return a->n == b->n && (a->n == 0 || !memcmp(a->v, b->v, (size_t)a->n * sizeof *a->v));
    }
    case CM_A_STRS: {
        const cm_strs *a = pa, *b = pb;
        if (a->n != b->n)
            return false;
        for (int64_t i = 0; i < a->n; i++)
            if (!cm_str_equal(a->v[i], b->v[i]))
                return false;
        return true;
    }
    case CM_A_TENSOR:
        return tensors_equal(*(cm_tensor *const *)pa, *(cm_tensor *const *)pb);
    case CM_A_TYPE: {
        const cm_type *a = *(cm_type *const *)pa, *b = *(cm_type *const *)pb;
        return a && b ? cm_type_equal(a, b) : a == b;
    }
    }
    return false;
}

bool cm_attr_equal(const cm_attr_desc *d, const void *a, const void *b)
{
    if (d->bytes == 0)
        return true;
    if (*(const uint64_t *)a != *(const uint64_t *)b)
        return false;
    for (int i = 0; i < d->n_fields; i++)
        if (!fields_equal(&d->fields[i], at(a, &d->fields[i]), at(b, &d->fields[i])))
            return false;
    return true;
}

/* A copy goes through the serial form: one piece of code knows what a field points to. */
cm_status cm_attr_copy(cm_ctx *cx, cm_arena *arena, const cm_attr_desc *d, const void *attr,
                       void **out)
{
    *out = NULL;
    if (d->bytes == 0 || !attr)
        return cm_attr_new(cx, arena, d, out);
    cm_buf b;
    cm_buf_init(&b, cx->allocator);
    cm_attr_write(d, attr, &b);
    cm_status st = b.failed ? cm_fail_memory(cx) : cm_attr_read(cx, arena, d, b.data, b.n, out);
    cm_buf_deinit(&b);
    return st;
}
