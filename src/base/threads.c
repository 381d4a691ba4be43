/* threads.c -- pthreadpool behind a range interface.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/threads.h"

#include <pthreadpool.h>

#include "base/cpu.h"
#include "base/size.h"

/* pthreadpool is not built for ThreadSanitizer, which must be told that a piece runs after the call
 * began and before it ends. */
#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#define GIVE(p) __tsan_release(p)
#define TAKE(p) __tsan_acquire(p)
#else
#define GIVE(p) ((void)(p))
#define TAKE(p) ((void)(p))
#endif

enum { MOST_THREADS = 1024 }; /* pthreadpool waits for ever for one that cannot be started */

struct cm_threads {
    const cm_allocator *allocator;
    pthreadpool_t pool; /* NULL: inline */
    int n;
};

cm_status cm_threads_create(cm_ctx *cx, int n, cm_threads **out)
{
    if (n <= 0)
        n = cm_cpu_cores();
    if (n > MOST_THREADS)
        n = MOST_THREADS;
    cm_threads *t = cm_alloc(cx->allocator, sizeof *t, 16);
    if (!t)
        return cm_fail_memory(cx);
    *t = (cm_threads){.allocator = cx->allocator, .n = n};
    if (n > 1) {
        t->pool = pthreadpool_create((size_t)n);
        if (!t->pool) {
            cm_release(cx->allocator, t, sizeof *t);
            return cm_fail(cx, CM_ERR_MEMORY, "cannot start %d threads", n);
        }
    }
    *out = t;
    return CM_OK;
}

void cm_threads_destroy(cm_threads *t)
{
    if (!t)
        return;
    if (t->pool)
        pthreadpool_destroy(t->pool);
    cm_release(t->allocator, t, sizeof *t);
}

int cm_threads_count(const cm_threads *t)
{
    return t ? t->n : 1;
}

typedef struct {
    cm_range_fn fn;
    void *arg;
} call;

static void run_piece(void *user, size_t start, size_t count)
{
    call *c = user;
    TAKE(c);
    c->fn(c->arg, (int64_t)start, (int64_t)(start + count));
    GIVE(c);
}

void cm_parallel(cm_threads *t, int64_t n, int64_t grain, cm_range_fn fn, void *arg)
{
    if (n <= 0)
        return;
    if (grain < 1)
        grain = 1;
    if (!t || !t->pool || n <= grain) {
        fn(arg, 0, n);
        return;
    }
    /* A few pieces per thread, so that an unlucky one does not hold up the rest. */
    int64_t tile = cm_max_i64(grain, cm_ceil_div(n, (int64_t)t->n * 4));
    call c = {fn, arg};
    GIVE(&c);
    pthreadpool_parallelize_1d_tile_1d(t->pool, run_piece, &c, (size_t)n, (size_t)tile, 0);
    TAKE(&c);
}
