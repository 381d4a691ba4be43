/* move_copy.c -- strided copies against one element at a time.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cpu.h"
#include "cpu/copy.h"

enum { GUARD = 64, FILL = 0xa5 };

typedef struct {
    size_t elem;
    int rank;
    int64_t dims[5], from[5], to[5];
} shape;

/* Elements that strides reach, and where element 0 is when some are negative. */
static int64_t extent(int rank, const int64_t *dims, const int64_t *strides, int64_t *zero)
{
    int64_t lo = 0, hi = 0;
    for (int d = 0; d < rank; d++) {
        if (dims[d] == 0)
            return 0;
        *(strides[d] < 0 ? &lo : &hi) += (dims[d] - 1) * strides[d];
    }
    *zero = -lo;
    return hi - lo + 1;
}

static void slow_copy(const shape *s, int axis, const char *from, char *to)
{
    if (axis == s->rank) {
        memcpy(to, from, s->elem);
        return;
    }
    for (int64_t i = 0; i < s->dims[axis]; i++)
        slow_copy(s, axis + 1, from + i * s->from[axis] * (int64_t)s->elem,
                  to + i * s->to[axis] * (int64_t)s->elem);
}

/* Buffers of exactly the size that is reached, at odd addresses, bytes after them watched. */
static void check(const shape *s, cm_threads *t)
{
    int64_t from_zero = 0, to_zero = 0;
    size_t n_from = (size_t)extent(s->rank, s->dims, s->from, &from_zero) * s->elem;
    size_t n_to = (size_t)extent(s->rank, s->dims, s->to, &to_zero) * s->elem;
    unsigned char *from = malloc(n_from + 1), *to = malloc(n_to + GUARD + 1);
    unsigned char *want = malloc(n_to + GUARD + 1);
    for (size_t i = 0; i < n_from + 1; i++)
        from[i] = (unsigned char)rand();
    memset(want, FILL, n_to + GUARD + 1);
    const char *f = (const char *)from + 1 + from_zero * (int64_t)s->elem;
    int64_t at = 1 + to_zero * (int64_t)s->elem;
    slow_copy(s, 0, f, (char *)want + at);
    for (int level = CM_ISA_GENERIC; level <= (int)cm_cpu_info()->isa; level++) {
        memset(to, FILL, n_to + GUARD + 1);
        cm_copy_strided(level, t, s->elem, s->rank, s->dims, f, s->from, (char *)to + at, s->to);
        assert_memory_equal(to, want, n_to + GUARD + 1);
    }
    free(from);
    free(to);
    free(want);
}

/* Row-major strides in the order of a random permutation, with gaps at times. */
static void random_strides(shape *s, int64_t *strides, bool source)
{
    int order[5];
    for (int d = 0; d < s->rank; d++)
        order[d] = d;
    for (int d = s->rank - 1; d > 0 && rand() % 3; d--) {
        int k = rand() % (d + 1), x = order[d];
        order[d] = order[k];
        order[k] = x;
    }
    int64_t step = rand() % 8 ? 1 : 1 + rand() % 3;
    for (int d = s->rank - 1; d >= 0; d--) {
        strides[order[d]] = step;
        step *= s->dims[order[d]];
        if (rand() % 6 == 0)
            step += rand() % 5;
    }
    for (int d = 0; d < s->rank; d++) {
        if (source && rand() % 8 == 0)
            strides[d] = 0;
        else if (rand() % 10 == 0)
            strides[d] = -strides[d];
    }
}

static void random_copies(void **state)
{
    (void)state;
    static const int64_t sizes[] = {1, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 64, 70};
    cm_ctx cx = {0};
    cm_threads *t = NULL;
    assert_int_equal(cm_threads_create(&cx, 2, &t), CM_OK);
    srand(1);
    for (int i = 0; i < 4000; i++) {
        shape s = {.elem = (size_t)1 << rand() % 5, .rank = rand() % 6};
        int64_t n = 1;
        for (int d = 0; d < s.rank; d++) {
            s.dims[d] = n > 4000 ? 1 + rand() % 3 : sizes[rand() % 16];
            if (rand() % 200 == 0)
                s.dims[d] = 0;
            n *= s.dims[d];
        }
        random_strides(&s, s.from, true);
        random_strides(&s, s.to, false);
        check(&s, i % 2 ? t : NULL);
    }
    cm_threads_destroy(t);
}

/* Large enough to be split among threads. */
static void large_transposes(void **state)
{
    (void)state;
    cm_ctx cx = {0};
    cm_threads *t = NULL;
    assert_int_equal(cm_threads_create(&cx, 2, &t), CM_OK);
    static const int64_t sizes[][2] = {{3, 50177}, {50177, 3},  {64, 3137},  {300, 301}, {4, 40000},
                                       {40000, 5}, {1, 400001}, {1000, 257}, {6, 4001},  {4003, 7}};
    for (int i = 0; i < CM_COUNT(sizes); i++)
        for (size_t elem = 1; elem <= 16; elem *= 2) {
            shape s = {elem, 2, {sizes[i][0], sizes[i][1]}};
            s.from[0] = s.dims[1], s.from[1] = 1;
            s.to[0] = 1, s.to[1] = s.dims[0];
            check(&s, t);
        }
    cm_threads_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_copies),
        cmocka_unit_test(large_transposes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
