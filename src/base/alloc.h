/* alloc.h -- where memory comes from: the only door to malloc.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_BASE_ALLOC_H
#define CM_BASE_ALLOC_H

#include <stddef.h>

/* A user's allocator. `alloc` returns `bytes` aligned to `align` (a power of two) or NULL;
 * `release` is given the same size. Both may be called from any thread. */
typedef struct cm_allocator {
    void *(*alloc)(void *user, size_t bytes, size_t align);
    void (*release)(void *user, void *p, size_t bytes);
    void *user;
} cm_allocator;

extern const cm_allocator cm_allocator_default; /* the C library's */
extern const cm_allocator cm_allocator_passing; /* the same, for large blocks that are used once */

/* `a` may be NULL: the default. Memory is not zeroed. NULL when there is none. */
void *cm_alloc(const cm_allocator *a, size_t bytes, size_t align);
void cm_release(const cm_allocator *a, void *p, size_t bytes);

/* Nobody needs what the block holds: the system may have its pages. It can be written again; what is read
 * before that is anything. */
void cm_alloc_empty(void *p, size_t bytes);

#endif
