/* arena.c -- a list of chunks, filled one after the other.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/arena.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/size.h"

/* With AddressSanitizer what is not handed out is poisoned: overruns and uses after a reset are found. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define POISONED 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define POISONED 1
#endif
#ifdef POISONED
#include <sanitizer/asan_interface.h>
#define POISON(p, n)   __asan_poison_memory_region(p, n)
#define UNPOISON(p, n) __asan_unpoison_memory_region(p, n)
enum { GAP = 16 }; /* between allocations */
#else
#define POISON(p, n)   ((void)(p), (void)(n))
#define UNPOISON(p, n) ((void)(p), (void)(n))
enum { GAP = 0 };
#endif

enum { CHUNK_MIN = 16 * 1024, CHUNK_MAX = 1024 * 1024, CHUNK_ALIGN = 64 };

size_t cm_arena_chunk_min = CHUNK_MIN;

struct cm_arena_chunk {
    cm_arena_chunk *next;
    size_t bytes; /* of data, which follows this header after CHUNK_ALIGN bytes */
};

static unsigned char *chunk_data(cm_arena_chunk *c)
{
    return (unsigned char *)c + CHUNK_ALIGN;
}

void cm_arena_init(cm_arena *a, const cm_allocator *allocator)
{
    *a = (cm_arena){.allocator = allocator};
}

void cm_arena_deinit(cm_arena *a)
{
    for (cm_arena_chunk *c = a->first, *next; c; c = next) {
        next = c->next;
        UNPOISON(chunk_data(c), c->bytes);
        cm_release(a->allocator, c, c->bytes + CHUNK_ALIGN);
    }
    cm_arena_init(a, a->allocator);
}

/* Go back to `used` bytes of chunk `to`. */
static void go_back(cm_arena *a, cm_arena_chunk *to, size_t used)
{
    a->current = to;
    a->used = used;
#ifdef POISONED
    for (cm_arena_chunk *c = to; c; c = c->next, used = 0)
        POISON(chunk_data(c) + used, c->bytes - used);
#endif
}

void cm_arena_reset(cm_arena *a)
{
    go_back(a, a->first, 0);
}

cm_arena_mark cm_arena_save(const cm_arena *a)
{
    return (cm_arena_mark){a->current, a->used};
}

void cm_arena_restore(cm_arena *a, cm_arena_mark mark)
{
    go_back(a, mark.current ? mark.current : a->first, mark.current ? mark.used : 0);
}

/* Append a chunk of at least `need` bytes after the current one. */
static bool add_chunk(cm_arena *a, size_t need)
{
    size_t bytes = a->total > CHUNK_MAX ? CHUNK_MAX : a->total;
    if (bytes < cm_arena_chunk_min || cm_arena_chunk_min < CHUNK_MIN)
        bytes = cm_arena_chunk_min;
    if (bytes < need)
        bytes = need;
    size_t whole;
    if (!cm_add(bytes, CHUNK_ALIGN, &whole))
        return false;
    if (a->limit && (whole > a->limit || a->total > a->limit - whole))
        return false;
    cm_arena_chunk *c = cm_alloc(a->allocator, whole, CHUNK_ALIGN);
    if (!c)
        return false;
    c->bytes = bytes;
    a->total += whole;
    if (a->current) {
        c->next = a->current->next;
        a->current->next = c;
    } else {
        c->next = a->first;
        a->first = c;
    }
    a->current = c;
    a->used = 0;
    POISON(chunk_data(c), bytes);
    return true;
}

static void *take(cm_arena *a, size_t bytes, size_t align)
{
    size_t at = (a->used + (a->used ? GAP : 0) + align - 1) & ~(align - 1);
    if (!a->current || at > a->current->bytes || bytes > a->current->bytes - at)
        return NULL;
    a->used = at + bytes;
    UNPOISON(chunk_data(a->current) + at, bytes);
    return chunk_data(a->current) + at;
}

static void *alloc_n(cm_arena *a, size_t n, size_t size, size_t align, int zero)
{
    size_t bytes;
    if (!cm_mul(n, size, &bytes) || align > CHUNK_ALIGN)
        return NULL;
    if (a->fail_after && --a->fail_after == 0)
        return NULL;
    if (bytes == 0)
        bytes = 1; /* distinct, non-NULL pointers for empty arrays */
    void *p = take(a, bytes, align);
    while (!p && a->current && a->current->next) { /* chunks kept by a reset */
        a->current = a->current->next;
        a->used = 0;
        p = take(a, bytes, align);
    }
    if (!p) {
        if (!add_chunk(a, bytes))
            return NULL;
        p = take(a, bytes, align);
    }
    if (zero)
        memset(p, 0, bytes);
    return p;
}

void *cm_arena_alloc_n(cm_arena *a, size_t n, size_t size, size_t align, int zero)
{
    void *p = alloc_n(a, n, size, align, zero);
    if (!p)
        a->failed = 1;
    return p;
}

void *cm_arena_alloc(cm_arena *a, size_t bytes)
{
    return cm_arena_alloc_n(a, bytes, 1, 16, 1);
}

void *cm_arena_memdup(cm_arena *a, const void *p, size_t bytes)
{
    void *q = cm_arena_alloc_n(a, bytes, 1, 16, 0);
    if (q && bytes)
        memcpy(q, p, bytes);
    return q;
}

char *cm_arena_strndup(cm_arena *a, const char *s, size_t n)
{
    char *q = n < SIZE_MAX ? cm_arena_alloc_n(a, n + 1, 1, 1, 0) : NULL;
    if (q) {
        if (n)
            memcpy(q, s, n);
        q[n] = 0;
    }
    return q;
}

char *cm_arena_strdup(cm_arena *a, const char *s)
{
    return cm_arena_strndup(a, s, strlen(s));
}

char *cm_arena_printf(cm_arena *a, const char *fmt, ...)
{
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    char *s = n < 0 ? NULL : cm_arena_alloc_n(a, (size_t)n + 1, 1, 1, 0);
    if (s)
        vsnprintf(s, (size_t)n + 1, fmt, again);
    va_end(again);
    return s;
}
