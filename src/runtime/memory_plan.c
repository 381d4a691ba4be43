/* memory_plan.c -- best fit over lifetimes.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A sweep over time keeps the blocks that are taken, sorted by offset. Before each placement blocks
 * that have died are dropped; then the smallest gap that fits is taken, the lowest of equals; when
 * none fits the arena grows at its end, over a free tail if there is one. */
#include "runtime/memory_plan.h"

#include <string.h>

#include "base/size.h"

typedef struct {
    size_t offset, end;
    int last;
} block;

/* Drop blocks whose last reader stands before `now`. */
static int drop_dead(block *b, int n, int now)
{
    int kept = 0;
    for (int i = 0; i < n; i++)
        if (b[i].last >= now)
            b[kept++] = b[i];
    return kept;
}

/* Where among b[0..n) to put `bytes`: index of the block that will follow it. */
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

cm_status cm_memory_plan(cm_ctx *cx, cm_arena *scratch, cm_interval *v, int n, size_t *total)
{
    cm_arena_mark mark = cm_arena_save(scratch);
    block *b = cm_arena_alloc_n(scratch, (size_t)n, sizeof *b, 16, 0);
    if (!b)
        return cm_fail_memory(cx);
    int n_taken = 0;
    size_t top = 0;
    cm_status st = CM_OK;
    for (int i = 0; i < n && st == CM_OK; i++) {
        size_t bytes, offset = 0, end;
        v[i].offset = 0;
        if (v[i].bytes == 0)
            continue;
        if (i % 1024 == 1023 && (st = cm_check_cancel(cx)) != CM_OK)
            break;
        n_taken = drop_dead(b, n_taken, v[i].first);
        if (!cm_align_up(v[i].bytes, CM_MEMORY_ALIGN, &bytes)) {
            st = cm_fail_memory(cx);
            break;
        }
        int at = best_gap(b, n_taken, bytes, &offset);
        if (!cm_add(offset, bytes, &end)) {
            st = cm_fail_memory(cx);
            break;
        }
        memmove(b + at + 1, b + at, (size_t)(n_taken - at) * sizeof *b);
        b[at] = (block){offset, end, v[i].last};
        n_taken++;
        v[i].offset = offset;
        top = end > top ? end : top;
    }
    cm_arena_restore(scratch, mark);
    *total = top;
    return st;
}
