/* alloc.c -- the default allocator and the calls through a user's one.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { HUGE_PAGE = 2 << 20 };

/* Large blocks are weights and activations, which are read from end to end: with pages of 4 KB, walking the
 * page tables takes as long as the reading. Whole huge pages only, so that none is wasted. */
static void *libc_alloc(void *user, size_t bytes, size_t align)
{
    (void)user;
    void *p = NULL;
    if (align < sizeof(void *))
        align = sizeof(void *);
    if (bytes >= HUGE_PAGE && align < HUGE_PAGE)
        align = HUGE_PAGE;
    if (posix_memalign(&p, align, bytes ? bytes : 1) != 0)
        return NULL;
    if (bytes >= HUGE_PAGE)
        (void)madvise(p, bytes / HUGE_PAGE * HUGE_PAGE, MADV_HUGEPAGE); /* a hint: may fail */
    return p;
}

/* Memory that is written once and read once, then given back: small pages are more likely to have been another's a moment
 * ago, where a huge one has to be found, and on a virtual machine asked for. */
static void *passing_alloc(void *user, size_t bytes, size_t align)
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
const cm_allocator cm_allocator_passing = {passing_alloc, libc_release, NULL};

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

void cm_alloc_empty(void *p, size_t bytes)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const uintptr_t begin = ((uintptr_t)p + page - 1) & ~(page - 1);
    const uintptr_t end = ((uintptr_t)p + bytes) & ~(page - 1);
    if (begin < end)
        (void)madvise((void *)begin, end - begin, MADV_DONTNEED); /* a hint: may fail */
}
