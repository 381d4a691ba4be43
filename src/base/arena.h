/* arena.h -- memory by lifetime: everything in an arena dies together.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A bump allocator. Nothing in it is freed alone. Not thread-safe: one arena, one owner. Reset keeps
 * the chunks, so an arena that is reset and refilled to the same size allocates nothing. */
#ifndef CM_BASE_ARENA_H
#define CM_BASE_ARENA_H

#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"

typedef struct cm_arena_chunk cm_arena_chunk;

typedef struct cm_arena {
    const cm_allocator *allocator;
    cm_arena_chunk *first, *current;
    size_t used;  /* bytes used in `current` */
    size_t total; /* bytes held from the allocator */
    size_t limit; /* 0: none; else allocation fails when `total` would pass it */
    int failed;   /* an allocation failed since init: tells want of memory from other failures */
    size_t fail_after; /* test hook: 0 off; n makes the n-th allocation from now fail, once */
} cm_arena;

/* Test hook: bytes of an arena's first chunk. At 1 every allocation is a chunk of its own, so that an
 * allocator sees each of them. */
extern size_t cm_arena_chunk_min;

void cm_arena_init(cm_arena *a, const cm_allocator *allocator);
void cm_arena_deinit(cm_arena *a);
void cm_arena_reset(cm_arena *a);

void *cm_arena_alloc(cm_arena *a, size_t bytes); /* zeroed, 16-aligned, or NULL */
/* `n * size` bytes with the product checked; not zeroed when `zero` is false. */
void *cm_arena_alloc_n(cm_arena *a, size_t n, size_t size, size_t align, int zero);
char *cm_arena_strdup(cm_arena *a, const char *s);            /* NULL when out of memory */
char *cm_arena_strndup(cm_arena *a, const char *s, size_t n); /* adds the terminator */
void *cm_arena_memdup(cm_arena *a, const void *p, size_t bytes);
char *cm_arena_printf(cm_arena *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* A place to come back to: what was allocated since is given back. */
typedef struct {
    cm_arena_chunk *current;
    size_t used;
} cm_arena_mark;
cm_arena_mark cm_arena_save(const cm_arena *a);
void cm_arena_restore(cm_arena *a, cm_arena_mark mark);

#define cm_new(a, type)      ((type *)cm_arena_alloc((a), sizeof(type)))
#define cm_new_n(a, n, type) ((type *)cm_arena_alloc_n((a), (size_t)(n), sizeof(type), 16, 1))

#endif
