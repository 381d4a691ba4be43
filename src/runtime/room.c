/* room.c -- grow-only memory of a value, and deep copies into it.
 * SPDX-License-Identifier: Apache-2.0 */
#include "runtime/room.h"

#include <string.h>

#include "base/size.h"

struct cm_room_store {
    cm_arena arena[2];
    int current;
};

void cm_room_deinit(const cm_allocator *a, cm_room *r)
{
    cm_release(a, r->data, r->bytes);
    if (r->store) {
        cm_arena_deinit(&r->store->arena[0]);
        cm_arena_deinit(&r->store->arena[1]);
        cm_release(a, r->store, sizeof *r->store);
    }
    *r = (cm_room){0};
}

size_t cm_room_total(const cm_room *r)
{
    return r->bytes + (r->store ? r->store->arena[0].total + r->store->arena[1].total : 0);
}

cm_status cm_room_reserve(cm_ctx *cx, cm_room *r, size_t bytes, size_t keep)
{
    if (r->data && bytes <= r->bytes)
        return CM_OK;
    size_t want = bytes, more;
    if (cm_add(r->bytes, r->bytes / 2, &more) && want < more)
        want = more;
    if (!cm_align_up(want ? want : 1, 64, &want))
        return cm_fail_memory(cx);
    void *p = cm_alloc(cx->allocator, want, 64);
    if (!p)
        return cm_fail(cx, CM_ERR_MEMORY, "out of memory: %zu bytes wanted for one value", want);
    if (keep)
        memcpy(p, r->data, keep);
    cm_release(cx->allocator, r->data, r->bytes);
    r->data = p;
    r->bytes = want;
    return CM_OK;
}

cm_status cm_room_arena(cm_ctx *cx, cm_room *r, cm_arena **out)
{
    if (!r->store) {
        r->store = cm_alloc(cx->allocator, sizeof *r->store, 16);
        if (!r->store)
            return cm_fail_memory(cx);
        r->store->current = 0;
        cm_arena_init(&r->store->arena[0], cx->allocator);
        cm_arena_init(&r->store->arena[1], cx->allocator);
    }
    r->store->current ^= 1;
    *out = &r->store->arena[r->store->current];
    cm_arena_reset(*out);
    return CM_OK;
}

cm_arena *cm_room_current(const cm_room *r)
{
    return r->store ? &r->store->arena[r->store->current] : NULL;
}

cm_status cm_string_copy(cm_ctx *cx, cm_arena *arena, cm_str *s)
{
    s->p = cm_arena_strndup(arena, s->p, s->n);
    return s->p ? CM_OK : cm_fail_memory(cx);
}

static cm_status copy_type(cm_ctx *cx, cm_arena *arena, const cm_type *src, const cm_type **dst)
{
    *dst = NULL;
    if (!src)
        return CM_OK;
    cm_type *t;
    CM_NEW(cx, arena, t, cm_type);
    *t = *src;
    CM_TRY(copy_type(cx, arena, src->elem, &t->elem));
    *dst = t;
    return CM_OK;
}

static cm_status copy_tensor(cm_ctx *cx, cm_arena *arena, cm_tensor *t)
{
    size_t bytes;
    if (!cm_tensor_bytes(t, &bytes))
        return cm_fail(cx, CM_ERR_DATA, "a tensor's size in bytes overflows");
    void *data = cm_arena_alloc_n(arena, bytes, 1, 64, 0);
    if (!data)
        return cm_fail_memory(cx);
    if (bytes)
        memcpy(data, t->data, bytes);
    t->data = data;
    t->capacity_bytes = bytes;
    if (t->dtype == CM_STR) {
        cm_str *s = data;
        for (int64_t i = 0, n = cm_tensor_elems(t); i < n; i++)
            CM_TRY(cm_string_copy(cx, arena, &s[i]));
    }
    return CM_OK;
}

cm_status cm_datum_copy(cm_ctx *cx, cm_arena *arena, const cm_datum *src, cm_datum *dst)
{
    *dst = *src;
    if (src->kind == CM_TENSOR)
        return copy_tensor(cx, arena, &dst->tensor);
    CM_TRY(copy_type(cx, arena, src->elem, &dst->elem));
    int64_t n = src->kind == CM_NOTHING ? 0 : src->n;
    CM_NEW_N(cx, arena, dst->items, n, cm_datum);
    for (int64_t i = 0; i < n; i++)
        CM_TRY(cm_datum_copy(cx, arena, &src->items[i], &dst->items[i]));
    return CM_OK;
}

cm_status cm_room_copy(cm_ctx *cx, cm_room *r, const cm_datum *src, cm_datum *dst)
{
    if (cm_datum_is_plain(src)) {
        size_t bytes;
        if (!cm_tensor_bytes(&src->tensor, &bytes))
            return cm_fail(cx, CM_ERR_DATA, "a tensor's size in bytes overflows");
        CM_TRY(cm_room_reserve(cx, r, bytes, 0));
        if (bytes)
            memcpy(r->data, src->tensor.data, bytes);
        *dst = *src;
        dst->tensor.data = r->data;
        dst->tensor.capacity_bytes = r->bytes;
        return CM_OK;
    }
    cm_arena *arena;
    CM_TRY(cm_room_arena(cx, r, &arena));
    return cm_datum_copy(cx, arena, src, dst);
}
