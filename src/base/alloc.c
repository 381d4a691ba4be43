/* alloc.c -- the default allocator and the calls through a user's one.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"

#include <stdlib.h>

static void *libc_alloc(void *user, size_t bytes, size_t align)
{
    (void)user;
    void *p = NULL;
    if (align < sizeof(void *))
        align = sizeof(void *);
    return posix_memalign(&p, align, bytes ? bytes : 1) == 0 ? p : NULL;
}

static void libc_release(void *user, void *p, size_t bytes)
{
    (void)user;
    (void)bytes;
    free(p);
}

const cm_allocator cm_allocator_default = {libc_alloc, libc_release, NULL};

void *cm_alloc(const cm_allocator *a, size_t bytes, size_t align)
{
    if (!a)
        a = &cm_allocator_default;
    return a->alloc(a->user, bytes, align);
}

void cm_release(const cm_allocator *a, void *p, size_t bytes)
{
    if (!p)
        return;
    if (!a)
        a = &cm_allocator_default;
    a->release(a->user, p, bytes);
}
