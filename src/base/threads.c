/* threads.c -- a pool whose caller never waits for a thread that has not begun.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A loop is cut into pieces, and every thread has a share of them that is its own: the same one in the next run, so
 * that its caches hold what belongs to it. Who is done with its share takes from the ends of others' shares, and the
 * caller waits only for pieces that somebody has taken. A worker that the system did not run in time takes none, and
 * costs nothing: small loops stay small on a busy machine.
 *
 * A cache line that changes hands costs as much as a few hundred instructions, so there are few of them: the loop's
 * description and number are one line, which the caller writes and workers look at; each thread's share and what
 * it has done are another, which its owner writes and others look at when they have nothing left to do.
 *
 * A share is one word with the loop's number in it, and taking is a compare-and-swap of the whole word. The caller
 * does not write the workers' shares: one that has another loop's number was not begun, and whoever takes its first
 * piece, owner or not, writes it. So a worker that comes late can take nothing of a loop that it read about but that
 * is over: all its shares have changed by then. */
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
    ARG_LINES = 8, /* of what a loop is given, fetched at once: it lies on the caller's stack */
    SPINS =
        10000, /* looks at the next loop's number before a worker sleeps: some hundreds of microseconds */
};

/* What one thread has to do. */
typedef struct {
    _Alignas(128) _Atomic uint64_t
        share; /* loop << 16 | first piece that is left << 8 | end, both from its begin */
    _Atomic uint64_t done; /* loop << 16 | pieces that this thread did, whosever they were */
} member;

/* A loop as its workers see it. */
typedef struct {
    cm_range_fn fn; /* or */
    cm_numbered_fn numbered;
    void *arg;
    int64_t total, pieces;
    int most;  /* threads that may take part: the first ones */
    int parts; /* that have a share: the first of those */
    uint64_t loop;
} task;

struct cm_threads {
    /* The loop. `loop` is written before the rest and `number`, its lower half, after it: who finds the same in `loop`
     * before and after reading has read one loop. */
    _Alignas(128) _Atomic uint64_t loop;
    _Atomic(cm_range_fn) fn;
    _Atomic(cm_numbered_fn) numbered;
    _Atomic(void *) arg;
    _Atomic int64_t total, pieces;
    _Atomic int most;
    _Atomic uint32_t number; /* workers sleep on it */
    _Alignas(128) _Atomic int sleepers;
    _Atomic bool stop;
    const cm_allocator *allocator;
    int n, n_workers; /* with the caller; without */
    pthread_t *workers;
    member *members;
    _Atomic(cm_stint_fn) stint; /* NULL: nobody looks */
    void *stint_user;
    _Alignas(128) _Atomic(const cm_ctx *) watched; /* NULL: nobody can stop it */
    _Alignas(128) _Atomic int telling;             /* threads that may still tell them */
    _Atomic int n_named;                           /* workers that know their number */
};

static void futex_wait(_Atomic uint32_t *word, uint32_t seen)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word, int n)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
}

static int64_t begin_of_share(const task *k, int i)
{
    return k->pieces * i / k->parts;
}

static uint64_t share_word(uint64_t loop, int64_t first, int64_t end)
{
    return loop << 16 | (uint64_t)first << 8 | (uint64_t)end;
}

/* Take a piece of thread i's share: its owner the first, others the last. False: none is left, or the loop is over. */
static bool take_piece(cm_threads *t, const task *k, int i, bool own, int64_t *piece)
{
    _Atomic uint64_t *share = &t->members[i].share;
    int64_t begin = begin_of_share(k, i);
    uint64_t word = atomic_load_explicit(share, memory_order_acquire);
    for (;;) {
        int64_t first = (int64_t)(word >> 8 & 255), end = (int64_t)(word & 255);
        if (word >> 16 != k->loop) {
            if (atomic_load_explicit(&t->loop, memory_order_acquire) != k->loop)
                return false; /* we are late */
            first = 0;
            end = begin_of_share(k, i + 1) - begin;
        }
        if (first >= end)
            return false;
        *piece = begin + (own ? first : end - 1);
        uint64_t rest = share_word(k->loop, first + own, end - !own);
        if (atomic_compare_exchange_weak_explicit(share, &word, rest, memory_order_acq_rel,
                                                  memory_order_acquire))
            return true; /* else `word` is what it is now */
    }
}

static void do_piece(cm_threads *t, const task *k, int thread, int64_t piece)
{
    int64_t begin = piece * k->total / k->pieces, end = (piece + 1) * k->total / k->pieces;
    if (cm_threads_stopped(t))
        return;
    if (k->fn)
        k->fn(k->arg, begin, end);
    else
        k->numbered(k->arg, thread, begin, end);
}

/* Take pieces until none is left; how many it were. The caller's first is taken already. */
static int64_t take_pieces(cm_threads *t, const task *k, int thread)
{
    int64_t n = 0, piece = 0;
    for (int i = 0; i < k->parts; i++) {
        int whose = (thread + i) % k->parts;
        while ((thread == 0 && n == 0) || take_piece(t, k, whose, whose == thread, &piece)) {
            do_piece(t, k, thread, piece);
            atomic_store_explicit(&t->members[thread].done, k->loop << 16 | (uint64_t)++n,
                                  memory_order_release);
        }
    }
    return n;
}

/* The same, told to whoever looks. A thread that means to tell says so before it looks for whom: either it finds
 * that they have left, or they find it and wait (cm_threads_observe). */
static int64_t work_along(cm_threads *t, const task *k, int thread)
{
    if (!atomic_load_explicit(&t->stint, memory_order_relaxed))
        return take_pieces(t, k, thread);
    atomic_fetch_add(&t->telling, 1);
    cm_stint_fn fn = atomic_load(&t->stint);
    uint64_t start = cm_now_ns();
    int64_t taken = take_pieces(t, k, thread);
    if (taken && fn)
        fn(t->stint_user, thread, start, cm_now_ns());
    atomic_fetch_sub(&t->telling, 1);
    return taken;
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

/* The loop of that number. False: there is another by now. */
static bool read_task(const cm_threads *t, uint32_t number, task *k)
{
    k->loop = atomic_load_explicit(&t->loop, memory_order_acquire);
    k->fn = atomic_load_explicit(&t->fn, memory_order_acquire);
    k->numbered = atomic_load_explicit(&t->numbered, memory_order_acquire);
    k->arg = atomic_load_explicit(&t->arg, memory_order_acquire);
    k->total = atomic_load_explicit(&t->total, memory_order_acquire);
    k->pieces = atomic_load_explicit(&t->pieces, memory_order_acquire);
    k->most = atomic_load_explicit(&t->most, memory_order_acquire);
    if ((uint32_t)k->loop != number ||
        atomic_load_explicit(&t->loop, memory_order_relaxed) != k->loop)
        return false;
    k->parts = (int)cm_min_i64(k->pieces, k->most);
    for (int i = 0; i < ARG_LINES; i++) /* rather than one after the other */
        __builtin_prefetch((const char *)k->arg + 64 * i);
    return true;
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
        task k;
        seen = wait_for_loop(t, seen);
        if (atomic_load_explicit(&t->stop, memory_order_acquire))
            return NULL;
        if (read_task(t, seen, &k) && number < k.most)
            work_along(t, &k, number);
    }
}

/* Wake workers that sleep. One that is about to may be missed: it takes no part in this loop, and is woken for the
 * next. To be sure of all of them would cost every loop a wait for the other cores' caches. */
static void wake_sleepers(cm_threads *t, int wanted)
{
    int asleep = atomic_load_explicit(&t->sleepers, memory_order_relaxed);
    if (asleep > 0)
        futex_wake(&t->number, asleep < wanted ? asleep : wanted);
}

static void stop_workers(cm_threads *t)
{
    atomic_store(&t->stop, true);
    atomic_fetch_add(&t->number, 1);
    futex_wake(&t->number, MOST_THREADS);
    for (int i = 0; i < t->n_workers; i++)
        pthread_join(t->workers[i], NULL);
}

static void release(cm_threads *t)
{
    if (t->workers)
        cm_release(t->allocator, t->workers, (size_t)t->n * sizeof *t->workers);
    if (t->members)
        cm_release(t->allocator, t->members, (size_t)t->n * sizeof *t->members);
    cm_release(t->allocator, t, sizeof *t);
}

cm_status cm_threads_create(cm_ctx *cx, int n, cm_threads **out)
{
    if (n <= 0)
        n = cm_cpu_cores();
    if (n > MOST_THREADS)
        n = MOST_THREADS;
    cm_threads *t = cm_alloc(cx->allocator, sizeof *t, _Alignof(cm_threads));
    if (!t)
        return cm_fail_memory(cx);
    memset(t, 0, sizeof *t);
    t->allocator = cx->allocator;
    t->n = n;
    t->workers = cm_alloc(cx->allocator, (size_t)n * sizeof *t->workers, 16);
    t->members = cm_alloc(cx->allocator, (size_t)n * sizeof *t->members, _Alignof(member));
    if (!t->workers || !t->members) {
        release(t);
        return cm_fail_memory(cx);
    }
    memset(t->members, 0, (size_t)n * sizeof *t->members);
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

/* Pieces of this loop that workers have done. */
static int64_t done_by_workers(const cm_threads *t, const task *k)
{
    int64_t n = 0;
    for (int i = 1; i < t->n; i++) {
        uint64_t done = atomic_load_explicit(&t->members[i].done, memory_order_acquire);
        if (done >> 16 == k->loop)
            n += (int64_t)(done & 0xffff);
    }
    return n;
}

/* Every piece is taken, by somebody who runs. */
static void wait_until_done(const cm_threads *t, const task *k, int64_t by_workers)
{
    for (int i = 0; done_by_workers(t, k) < by_workers; i++) {
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

/* All of it on the thread that called. */
static void run_inline(cm_threads *t, task *k, int64_t grain)
{
    const cm_ctx *cx = t ? atomic_load_explicit(&t->watched, memory_order_relaxed) : NULL;
    k->pieces = 1;
    if (cx && cx->deadline_ns)
        k->pieces = cm_max_i64(1, cm_min_i64(k->total / grain, pieces_each(t)));
    for (int64_t i = 0; i < k->pieces; i++)
        do_piece(k->pieces > 1 ? t : NULL, k, 0, i);
}

/* Hand a loop out. Nobody takes of the caller's share before it is written, nor of any when the loop before is over: who
 * finds the new share in a loop that is over finds the new number too, so that comes first. */
static void describe(cm_threads *t, const task *k)
{
    atomic_store_explicit(&t->loop, k->loop, memory_order_relaxed);
    atomic_store_explicit(&t->members[0].share, share_word(k->loop, 1, begin_of_share(k, 1)),
                          memory_order_release);
    atomic_store_explicit(&t->fn, k->fn, memory_order_release);
    atomic_store_explicit(&t->numbered, k->numbered, memory_order_release);
    atomic_store_explicit(&t->arg, k->arg, memory_order_release);
    atomic_store_explicit(&t->total, k->total, memory_order_release);
    atomic_store_explicit(&t->pieces, k->pieces, memory_order_release);
    atomic_store_explicit(&t->most, k->most, memory_order_release);
    atomic_store_explicit(&t->number, (uint32_t)k->loop, memory_order_release);
}

static void run_loop(cm_threads *t, task *k, int64_t grain)
{
    if (k->total <= 0)
        return;
    if (grain < 1)
        grain = 1;
    if (!t || t->n_workers == 0 || k->most <= 1 || k->total / grain < 2) {
        run_inline(t, k, grain);
        return;
    }
    k->pieces = cm_min_i64(k->total / grain, k->most * pieces_each(t));
    if (k->pieces > k->most)
        k->pieces -= k->pieces % k->most; /* equal shares */
    k->loop = atomic_load_explicit(&t->loop, memory_order_relaxed) + 1;
    k->parts = (int)cm_min_i64(k->pieces, k->most);
    describe(t, k);
    wake_sleepers(t, k->most < t->n ? t->n_workers : k->parts - 1);
    wait_until_done(t, k, k->pieces - work_along(t, k, 0));
}

void cm_parallel(cm_threads *t, int64_t n, int64_t grain, cm_range_fn fn, void *arg)
{
    task k = {.fn = fn, .arg = arg, .total = n, .most = cm_threads_count(t)};
    run_loop(t, &k, grain);
}

void cm_parallel_numbered(cm_threads *t, int most, int64_t n, cm_numbered_fn fn, void *arg)
{
    int count = cm_threads_count(t);
    task k = {.numbered = fn, .arg = arg, .total = n, .most = most < count ? most : count};
    run_loop(t, &k, 1);
}
