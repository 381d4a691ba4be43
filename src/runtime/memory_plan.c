/* memory_plan.c -- some ways to place lifetimes in memory; the best one is taken.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Sweep: over time, keeping the blocks that are taken sorted by offset. Blocks that have died are
 * dropped, then the smallest gap that fits is taken, the lowest of equals; when none fits the arena
 * grows at its end. Often this reaches what is alive at once, below which nothing can go. Where it does
 * not and there are few values, they are placed in order of their weight, the largest first, or those that
 * take most memory for the longest time; each in the lowest gap that is free for all of its time, or, in an
 * arena as large as what is alive at once, at one of its ends where that is free, so that what lies between
 * stays in one piece. */
#include "runtime/memory_plan.h"

#include <stdlib.h>
#include <string.h>

#include "base/size.h"

enum { MANY = 1024 }; /* more values than this are not placed in order: it takes n * n */

typedef struct {
    size_t offset, end;
    int first, last;
} block;

static size_t padded(size_t bytes) /* of a size that was checked */
{
    return (bytes + CM_MEMORY_ALIGN - 1) & ~(size_t)(CM_MEMORY_ALIGN - 1);
}

/* Drop blocks whose last reader stands before `now`; *live is the size of the others. */
static int drop_dead(block *b, int n, int now, size_t *live)
{
    int kept = 0;
    *live = 0;
    for (int i = 0; i < n; i++) {
        if (b[i].last < now)
            continue;
        *live += b[i].end - b[i].offset;
        b[kept++] = b[i];
    }
    return kept;
}

/* Where among b[0..n) to put `bytes`: the index of the block that will follow it. */
static int best_gap(const block *b, int n, size_t bytes, size_t *offset)
{
    size_t begin = 0, best = SIZE_MAX;
    int at = n;
    for (int i = 0; i < n; i++) {
        size_t gap = b[i].offset - begin;
        if (gap >= bytes && gap < best) {
            best = gap;
            at = i;
            *offset = begin;
        }
        begin = b[i].end;
    }
    if (best == SIZE_MAX)
        *offset = begin;
    return at;
}

static void insert(block *b, int n, int at, block x)
{
    memmove(b + at + 1, b + at, (size_t)(n - at) * sizeof *b);
    b[at] = x;
}

/* *least is the most that is alive at once. */
static cm_status sweep(cm_ctx *cx, block *b, cm_interval *v, int n, size_t *total, size_t *least)
{
    int n_taken = 0;
    *total = *least = 0;
    for (int i = 0; i < n; i++) {
        size_t offset = 0, bytes = padded(v[i].bytes), end, live;
        v[i].offset = 0;
        if (i % MANY == MANY - 1)
            CM_TRY(cm_check_cancel(cx));
        if (bytes == 0)
            continue;
        n_taken = drop_dead(b, n_taken, v[i].first, &live);
        int at = best_gap(b, n_taken, bytes, &offset);
        if (!cm_add(offset, bytes, &end))
            return cm_fail_memory(cx);
        insert(b, n_taken++, at, (block){offset, end, v[i].first, v[i].last});
        v[i].offset = offset;
        *total = end > *total ? end : *total;
        *least = live + bytes > *least ? live + bytes : *least;
    }
    return CM_OK;
}

typedef struct {
    double weight; /* the heaviest are placed first */
    size_t offset;
    int index;
} ranked;

static int heavier_first(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    if (x->weight != y->weight)
        return x->weight < y->weight ? 1 : -1;
    return (x->index > y->index) - (x->index < y->index);
}

/* The lowest place that is free from x->first to x->last; in an arena of `most` bytes (0: of any size) rather its end, unless its begin
 * is free. `at` is where it goes among the others. */
static size_t free_place(const block *b, int n, const cm_interval *x, size_t bytes, size_t most,
                         int *at)
{
    size_t begin = 0, offset = SIZE_MAX;
    for (int i = 0; i < n && offset != 0 && (most || offset == SIZE_MAX); i++) {
        if (b[i].last < x->first || b[i].first > x->last)
            continue;
        if (offset == SIZE_MAX && b[i].offset >= begin && b[i].offset - begin >= bytes)
            offset = begin;
        begin = b[i].end > begin ? b[i].end : begin;
    }
    if (offset && begin && begin <= most && most - begin >= bytes)
        offset = most - bytes;
    else if (offset == SIZE_MAX)
        offset = begin;
    for (*at = 0; *at < n && b[*at].offset < offset; ++*at)
        ;
    return offset;
}

/* Offsets go to r[], which has the weights; the total. Sizes are known to fit: the sweep placed them all. `most`: 0, or
 * the arena whose ends are taken. */
static size_t in_order(block *b, ranked *r, const cm_interval *v, int n, size_t most)
{
    size_t total = 0;
    int placed = 0;
    qsort(r, (size_t)n, sizeof *r, heavier_first);
    for (int i = 0; i < n; i++) {
        const cm_interval *x = &v[r[i].index];
        size_t bytes = padded(x->bytes);
        int at;
        if (!bytes)
            continue;
        r[i].offset = free_place(b, placed, x, bytes, most, &at);
        block here = {r[i].offset, r[i].offset + bytes, x->first, x->last};
        insert(b, placed++, at, here);
        total = here.end > total ? here.end : total;
    }
    return total;
}

static double weight_of(const cm_interval *x, int end, bool by_time)
{
    double time = (x->last < end ? x->last : end) - (double)x->first + 1;
    return by_time ? (double)x->bytes * time : (double)x->bytes;
}

static cm_status place(cm_ctx *cx, cm_arena *scratch, cm_interval *v, int n, size_t *total)
{
    block *b = cm_arena_alloc_n(scratch, (size_t)n, sizeof *b, 16, 0);
    if (!b)
        return cm_fail_memory(cx);
    for (int i = 0; i < n; i++)
        if (v[i].bytes > SIZE_MAX / 4)
            return cm_fail_memory(cx);
    size_t least;
    CM_TRY(sweep(cx, b, v, n, total, &least));
    if (*total == least || n > MANY || *total > SIZE_MAX / 4)
        return CM_OK;
    ranked *r = cm_arena_alloc_n(scratch, (size_t)n, sizeof *r, 16, 0);
    if (!r)
        return cm_fail_memory(cx);
    for (int way = 0; way < 4 && *total > least; way++) {
        for (int i = 0; i < n; i++)
            r[i] = (ranked){weight_of(&v[i], v[n - 1].first, way % 2), 0, i};
        size_t other = in_order(b, r, v, n, way < 2 ? 0 : least);
        if (other >= *total)
            continue;
        for (int i = 0; i < n; i++)
            v[r[i].index].offset = r[i].offset;
        *total = other;
    }
    return CM_OK;
}

cm_status cm_memory_plan(cm_ctx *cx, cm_arena *scratch, cm_interval *v, int n, size_t *total)
{
    cm_arena_mark mark = cm_arena_save(scratch);
    cm_status st = place(cx, scratch, v, n, total);
    cm_arena_restore(scratch, mark);
    return st;
}
