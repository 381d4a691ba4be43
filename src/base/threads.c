/* threads.c -- a pool whose caller never waits for a thread that has not begun.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A loop is cut into pieces that are handed out by a counter; the caller takes pieces like every other
 * thread, and waits only for those that somebody has taken. A worker that the system did not run in time
 * takes none, and costs nothing: small loops stay small on a busy machine.
 *
 * The counter is one word with the loop's number in its upper half, so that a worker that comes late cannot
 * take a piece of a loop that it has not read: taking is a compare-and-swap of the whole word, and the word
 * is closed before a new loop's description is written. */
#include "base/threads.h"

#include <errno.h>
#include <immintrin.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cpu.h"
#include "base/ranges.h"
#include "base/size.h"

enum {
    MOST_THREADS = 1024,
    SPINS =
        10000, /* looks at the next loop's number before a worker sleeps: some hundreds of microseconds */
};

struct cm_threads {
    const cm_allocator *allocator;
    int n, n_workers; /* with the caller; without */
    pthread_t *workers;
    /* The loop. Written while the ticket is closed; read by workers that may find it closed after all. */
    _Atomic(cm_range_fn) fn;
    _Atomic(void *) arg;
    _Atomic int64_t total, tile;
    _Atomic(const cm_ctx *) watched; /* NULL: nobody can stop it */
    _Atomic(cm_stint_fn) stint;      /* NULL: nobody looks */
    void *stint_user;
    _Atomic int telling;                  /* threads that may still tell them */
    _Atomic int n_named;                  /* workers that know their number */
    _Alignas(64) _Atomic uint64_t ticket; /* loop number << 32 | next piece */
    _Alignas(64) _Atomic int64_t left;    /* pieces that are not done */
    _Alignas(64) _Atomic uint32_t number; /* of the latest loop; workers sleep on it */
    _Atomic int sleepers;
    _Atomic bool stop;
};

static void futex_wait(_Atomic uint32_t *word, uint32_t seen)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word, int n)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
}

/* Take pieces until none is left; how many it were. */
static int64_t take_pieces(cm_threads *t)
{
    int64_t taken = 0;
    uint64_t ticket = atomic_load_explicit(&t->ticket, memory_order_acquire);
    for (;;) {
        int64_t piece = (int64_t)(uint32_t)ticket;
        int64_t total = atomic_load_explicit(&t->total, memory_order_relaxed);
        int64_t tile = atomic_load_explicit(&t->tile, memory_order_relaxed);
        cm_range_fn fn = atomic_load_explicit(&t->fn, memory_order_relaxed);
        void *arg = atomic_load_explicit(&t->arg, memory_order_relaxed);
        if ((uint32_t)ticket == UINT32_MAX || tile < 1 || piece > (total - 1) / tile)
            return taken;
        if (!atomic_compare_exchange_weak_explicit(&t->ticket, &ticket, ticket + 1,
                                                   memory_order_acq_rel, memory_order_acquire))
            continue; /* `ticket` is the word as it is now */
        int64_t begin = piece * tile;
        taken++;
        if (!cm_threads_stopped(t))
            fn(arg, begin, cm_min_i64(begin + tile, total));
        atomic_fetch_sub_explicit(&t->left, 1, memory_order_acq_rel);
        ticket = atomic_load_explicit(&t->ticket, memory_order_acquire);
    }
}

/* The same, told to whoever looks. A thread that means to tell says so before it looks for whom: either it finds
 * that they have left, or they find it and wait (cm_threads_observe). */
static void work_along(cm_threads *t, int thread)
{
    if (!atomic_load_explicit(&t->stint, memory_order_relaxed)) {
        take_pieces(t);
        return;
    }
    atomic_fetch_add(&t->telling, 1);
    cm_stint_fn fn = atomic_load(&t->stint);
    uint64_t start = cm_now_ns();
    if (take_pieces(t) && fn)
        fn(t->stint_user, thread, start, cm_now_ns());
    atomic_fetch_sub(&t->telling, 1);
}

static uint32_t wait_for_loop(cm_threads *t, uint32_t seen)
{
    for (int i = 0; i < SPINS; i++) {
        uint32_t now = atomic_load_explicit(&t->number, memory_order_acquire);
        if (now != seen)
            return now;
        _mm_pause();
    }
    atomic_fetch_add(&t->sleepers, 1);
    while (atomic_load(&t->number) == seen)
        futex_wait(&t->number, seen);
    atomic_fetch_sub(&t->sleepers, 1);
    return atomic_load(&t->number);
}

static void *work(void *user)
{
    cm_threads *t = user;
    uint32_t seen = 0;
    char name[32];
    int number = atomic_fetch_add(&t->n_named, 1) + 1;
    snprintf(name, sizeof name, "cameo worker %d", number);
    cm_name_thread(name);
    for (;;) {
        seen = wait_for_loop(t, seen);
        if (atomic_load_explicit(&t->stop, memory_order_acquire))
            return NULL;
        work_along(t, number);
    }
}

static void announce(cm_threads *t, int wanted)
{
    atomic_fetch_add(&t->number, 1);
    int asleep = atomic_load(&t->sleepers); /* after the number: a sleeper looked at it before */
    if (asleep > 0)
        futex_wake(&t->number, asleep < wanted ? asleep : wanted);
}

static void stop_workers(cm_threads *t)
{
    atomic_store(&t->stop, true);
    announce(t, MOST_THREADS);
    for (int i = 0; i < t->n_workers; i++)
        pthread_join(t->workers[i], NULL);
}

static void release(cm_threads *t)
{
    cm_release(t->allocator, t->workers, (size_t)t->n * sizeof *t->workers);
    cm_release(t->allocator, t, sizeof *t);
}

cm_status cm_threads_create(cm_ctx *cx, int n, cm_threads **out)
{
    if (n <= 0)
        n = cm_cpu_cores();
    if (n > MOST_THREADS)
        n = MOST_THREADS;
    cm_threads *t = cm_alloc(cx->allocator, sizeof *t, 64);
    if (!t)
        return cm_fail_memory(cx);
    memset(t, 0, sizeof *t);
    t->allocator = cx->allocator;
    t->n = n;
    t->workers = cm_alloc(cx->allocator, (size_t)n * sizeof *t->workers, 16);
    if (!t->workers) {
        cm_release(t->allocator, t, sizeof *t);
        return cm_fail_memory(cx);
    }
    for (; t->n_workers < n - 1; t->n_workers++) {
        int error = pthread_create(&t->workers[t->n_workers], NULL, work, t);
        if (error) {
            stop_workers(t);
            release(t);
            return cm_fail(cx, CM_ERR_MEMORY, "cannot start %d threads: %s", n, strerror(error));
        }
    }
    *out = t;
    return CM_OK;
}

void cm_threads_destroy(cm_threads *t)
{
    if (!t)
        return;
    stop_workers(t);
    release(t);
}

int cm_threads_count(const cm_threads *t)
{
    return t ? t->n : 1;
}

/* Only pieces that somebody has taken are waited for. */
static void wait_until_done(cm_threads *t)
{
    for (int i = 0; atomic_load_explicit(&t->left, memory_order_acquire) > 0; i++) {
        if (i < SPINS)
            _mm_pause();
        else
            sched_yield();
    }
}

void cm_threads_watch(cm_threads *t, const cm_ctx *cx)
{
    atomic_store_explicit(&t->watched, cx, memory_order_relaxed);
}

void cm_threads_observe(cm_threads *t, cm_stint_fn fn, void *user)
{
    atomic_store(&t->stint, NULL);
    while (atomic_load(&t->telling) > 0)
        sched_yield();
    t->stint_user = user;
    atomic_store(&t->stint, fn);
}

bool cm_threads_stopped(const cm_threads *t)
{
    const cm_ctx *cx = t ? atomic_load_explicit(&t->watched, memory_order_relaxed) : NULL;
    return cx && cm_is_cancelled(cx);
}

/* Pieces that a thread gets on average: a few, so that an unlucky one does not hold up the rest; more where
 * time may run out. */
static int64_t pieces_each(const cm_threads *t)
{
    const cm_ctx *cx = atomic_load_explicit(&t->watched, memory_order_relaxed);
    return cx && cx->deadline_ns ? 32 : 4;
}

static void run_inline(cm_threads *t, int64_t n, int64_t grain, cm_range_fn fn, void *arg)
{
    const cm_ctx *cx = t ? atomic_load_explicit(&t->watched, memory_order_relaxed) : NULL;
    int64_t tile = n;
    if (cx && cx->deadline_ns)
        tile = cm_max_i64(grain, cm_ceil_div(n, pieces_each(t)));
    for (int64_t i = 0; i < n && (tile == n || !cm_is_cancelled(cx)); i += tile)
        fn(arg, i, cm_min_i64(i + tile, n));
}

void cm_parallel(cm_threads *t, int64_t n, int64_t grain, cm_range_fn fn, void *arg)
{
    if (n <= 0)
        return;
    if (grain < 1)
        grain = 1;
    if (!t || t->n_workers == 0 || n <= grain) {
        run_inline(t, n, grain, fn, arg);
        return;
    }
    int64_t tile = cm_max_i64(grain, cm_ceil_div(n, t->n * pieces_each(t)));
    int64_t pieces = cm_ceil_div(n, tile);
    uint64_t loop = ((atomic_load_explicit(&t->ticket, memory_order_relaxed) >> 32) + 1) << 32;
    atomic_store_explicit(&t->ticket, loop | UINT32_MAX, memory_order_release); /* closed */
    atomic_thread_fence(memory_order_seq_cst);
    atomic_store_explicit(&t->fn, fn, memory_order_relaxed);
    atomic_store_explicit(&t->arg, arg, memory_order_relaxed);
    atomic_store_explicit(&t->total, n, memory_order_relaxed);
    atomic_store_explicit(&t->tile, tile, memory_order_relaxed);
    atomic_store_explicit(&t->left, pieces, memory_order_relaxed);
    atomic_store_explicit(&t->ticket, loop, memory_order_release);
    announce(t, (int)cm_min_i64(pieces - 1, t->n_workers));
    work_along(t, 0);
    wait_until_done(t);
}
