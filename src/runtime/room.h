/* room.h -- memory that belongs to one value and only grows.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_RUNTIME_ROOM_H
#define CM_RUNTIME_ROOM_H

#include "plan/tensor.h"

/* A buffer for a plain tensor, and two arenas in turn for what is not: a new value may be made from
 * the old one that lies in the same room. */
typedef struct cm_room {
    void *data;
    size_t bytes;
    struct cm_room_store *store; /* NULL until a value that is not plain comes */
} cm_room;

void cm_room_deinit(const cm_allocator *a, cm_room *r);
size_t cm_room_total(const cm_room *r);
/* At least `bytes` in r->data, 64-aligned, never NULL. `keep`: the first `keep` bytes stay. */
cm_status cm_room_reserve(cm_ctx *cx, cm_room *r, size_t bytes, size_t keep) CM_MUST_USE;
/* The arena that is not in use, emptied; it is the one in use from now on. */
cm_status cm_room_arena(cm_ctx *cx, cm_room *r, cm_arena **out) CM_MUST_USE;
cm_arena *cm_room_current(const cm_room *r); /* the one in use; NULL before the first */
/* A copy of `src` that shares nothing with it, in the room. `src` may be what cm_room_copy or
 * cm_room_arena put there last, but not lie in r->data. */
cm_status cm_room_copy(cm_ctx *cx, cm_room *r, const cm_datum *src, cm_datum *dst) CM_MUST_USE;

/* A deep copy in an arena. */
cm_status cm_datum_copy(cm_ctx *cx, cm_arena *arena, const cm_datum *src,
                        cm_datum *dst) CM_MUST_USE;
cm_status cm_string_copy(cm_ctx *cx, cm_arena *arena, cm_str *s) CM_MUST_USE; /* in place */
/* A tensor of anything but strings: can be copied byte by byte. */
static inline bool cm_datum_is_plain(const cm_datum *d)
{
    return d->kind == CM_TENSOR && d->tensor.dtype != CM_STR;
}

#endif
