/* threads.c -- parallel loops.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/threads.h"

enum { MOST = 4099 };

typedef struct {
    atomic_int visits[MOST];
    atomic_int pieces, short_pieces;
    int64_t n, grain;
} record;

static void visit(void *arg, int64_t begin, int64_t end)
{
    record *r = arg;
    atomic_fetch_add(&r->pieces, 1);
    if (end - begin < r->grain && end != r->n)
        atomic_fetch_add(&r->short_pieces, 1);
    for (int64_t i = begin; i < end; i++)
        atomic_fetch_add(&r->visits[i], 1);
}

static void cover(cm_threads *t, int64_t n, int64_t grain)
{
    static record r;
    for (int i = 0; i < MOST; i++)
        atomic_store(&r.visits[i], 0);
    atomic_store(&r.pieces, 0);
    atomic_store(&r.short_pieces, 0);
    r.n = n;
    r.grain = grain;
    cm_parallel(t, n, grain, visit, &r);
    for (int i = 0; i < MOST; i++)
        assert_int_equal(atomic_load(&r.visits[i]), i < n);
    assert_int_equal(atomic_load(&r.short_pieces), 0);
    if (n <= 0)
        assert_int_equal(atomic_load(&r.pieces), 0);
}

static void every_index_is_visited_once(void **state)
{
    (void)state;
    static const int64_t sizes[] = {-1, 0, 1, 2, 3, 16, 17, 1000, MOST};
    static const int64_t grains[] = {0, 1, 2, 7, 100, 5000};
    cm_ctx cx = {0};
    for (int n = -1; n <= 4; n++) { /* -1: no pool at all */
        cm_threads *t = NULL;
        if (n >= 0)
            assert_int_equal(cm_threads_create(&cx, n, &t), CM_OK);
        assert_true(n <= 0 || cm_threads_count(t) == n);
        for (int i = 0; i < CM_COUNT(sizes); i++) {
            for (int k = 0; k < CM_COUNT(grains); k++)
                cover(t, sizes[i], grains[k]);
        }
        cm_threads_destroy(t);
    }
    assert_int_equal(cm_threads_count(NULL), 1);
}

static void add(void *arg, int64_t begin, int64_t end)
{
    int64_t *sums = arg;
    for (int64_t i = begin; i < end; i++)
        sums[i] += i;
}

/* Thousands of short loops, one right after the other: what a network of small layers is. */
static void loops_follow_each_other(void **state)
{
    (void)state;
    cm_ctx cx = {0};
    cm_threads *t;
    int64_t sums[64] = {0};
    assert_int_equal(cm_threads_create(&cx, 4, &t), CM_OK);
    for (int i = 0; i < 20000; i++)
        cm_parallel(t, 64, 1, add, sums);
    for (int i = 0; i < 64; i++)
        assert_int_equal(sums[i], 20000 * i);
    cm_threads_destroy(t);
    cm_parallel(NULL, 64, 1, add, sums);
    assert_int_equal(sums[63], 20001 * 63);
}

typedef struct {
    atomic_int visits[100], inside[4];
    atomic_bool wrong;
    int most;
} numbered;

/* A worker that is late, looking for pieces of a loop that is over, takes nothing of the next. */
static void short_loops_do_not_mix(void **state)
{
    (void)state;
    enum { LOOPS = 200000, PIECES = 16 };
    cm_ctx cx = {0};
    cm_threads *t;
    static record r;
    assert_int_equal(cm_threads_create(&cx, 3, &t), CM_OK);
    for (int loop = 0; loop < LOOPS; loop++) {
        int n = 2 + loop % (PIECES - 1);
        for (int i = 0; i < n; i++)
            atomic_store_explicit(&r.visits[i], 0, memory_order_relaxed);
        r.n = n;
        cm_parallel(t, n, 1, visit, &r);
        for (int i = 0; i < n; i++)
            assert_int_equal(atomic_load(&r.visits[i]), 1);
    }
    cm_threads_destroy(t);
}

static void visit_numbered(void *arg, int thread, int64_t begin, int64_t end)
{
    numbered *r = arg;
    if (thread < 0 || thread >= r->most || atomic_fetch_add(&r->inside[thread], 1))
        atomic_store(&r->wrong, true);
    for (int64_t i = begin; i < end; i++)
        atomic_fetch_add(&r->visits[i], 1);
    atomic_fetch_sub(&r->inside[thread], 1);
}

/* Memory that belongs to a number is used by one thread at a time. */
static void numbers_are_never_used_twice_at_once(void **state)
{
    (void)state;
    cm_ctx cx = {0};
    cm_threads *t;
    assert_int_equal(cm_threads_create(&cx, 4, &t), CM_OK);
    for (int loop = 0; loop < 3000; loop++) {
        static numbered r;
        int n = loop % 101;
        for (int i = 0; i < 100; i++)
            atomic_store(&r.visits[i], 0);
        r.most = 1 + loop % 4;
        cm_parallel_numbered(loop % 7 ? t : NULL, r.most, n, visit_numbered, &r);
        for (int i = 0; i < 100; i++)
            assert_int_equal(atomic_load(&r.visits[i]), i < n);
        assert_false(atomic_load(&r.wrong));
    }
    cm_threads_destroy(t);
}

typedef struct {
    atomic_int n[4];
    atomic_bool backwards;
} stints;

static void note(void *user, int thread, uint64_t start, uint64_t end)
{
    stints *s = user;
    if (end < start)
        atomic_store(&s->backwards, true);
    atomic_fetch_add(&s->n[thread], 1);
}

/* Each thread says what it did, once for loops that it took in one go; those who did nothing say nothing. */
static void threads_are_observed(void **state)
{
    (void)state;
    enum { LOOPS = 1000 };
    cm_ctx cx = {0};
    cm_threads *t;
    int64_t sums[64] = {0};
    stints s = {0};
    assert_int_equal(cm_threads_create(&cx, 4, &t), CM_OK);
    cm_threads_observe(t, note, &s);
    for (int i = 0; i < LOOPS; i++)
        cm_parallel(t, 64, 1, add, sums);
    cm_threads_observe(t, NULL, NULL);
    cm_parallel(t, 64, 1, add, sums);
    cm_threads_destroy(t);
    assert_int_equal(sums[63], (LOOPS + 1) * 63);
    assert_false(atomic_load(&s.backwards));
    for (int i = 0; i < 4; i++)
        assert_in_range(atomic_load(&s.n[i]), 0, LOOPS);
    assert_true(atomic_load(&s.n[0]) > 0);
}

/* Who looks may go when it says so: no worker tells it anything afterwards, however late it is. */
static void observers_may_leave(void **state)
{
    (void)state;
    cm_ctx cx = {0};
    cm_threads *t;
    int64_t sums[64] = {0};
    int64_t all = 0;
    assert_int_equal(cm_threads_create(&cx, 4, &t), CM_OK);
    for (int i = 0; i < 20000; i++) {
        stints s = {0};
        cm_threads_observe(t, note, &s);
        cm_parallel(t, 64, 1, add, sums);
        cm_threads_observe(t, NULL, NULL);
        int told = 0;
        for (int k = 0; k < 4; k++)
            told += atomic_exchange(&s.n[k], 0);
        assert_in_range(told, 0,
                        4); /* 0: workers that are late from the loop before took all of it */
        all += told;
        for (int k = 0; k < 4; k++)
            assert_int_equal(atomic_load(&s.n[k]), 0);
    }
    cm_threads_destroy(t);
    assert_true(all > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_index_is_visited_once),
        cmocka_unit_test(loops_follow_each_other),
        cmocka_unit_test(short_loops_do_not_mix),
        cmocka_unit_test(numbers_are_never_used_twice_at_once),
        cmocka_unit_test(threads_are_observed),
        cmocka_unit_test(observers_may_leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
