/* packing.c -- packed constants: found out, described, undone.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "plan/packing.h"

typedef struct {
    cm_ctx cx;
    cm_arena arena;
} bench;

static int setup(void **state)
{
    bench *b = test_calloc(1, sizeof *b);
    cm_arena_init(&b->arena, NULL);
    *state = b;
    return 0;
}

static int teardown(void **state)
{
    bench *b = *state;
    cm_arena_deinit(&b->arena);
    test_free(b);
    return 0;
}

/* Pack 16-bit numbers by the places, undo it, and compare. */
static const cm_packing *round_trip(bench *b, const uint32_t *place, int64_t packed, int64_t plain)
{
    const cm_packing *p;
    assert_int_equal(CM_OK, cm_packing_find(&b->cx, &b->arena, 2, plain, place, packed, &p));
    assert_non_null(p);
    uint16_t *from = cm_arena_alloc_n(&b->arena, (size_t)packed, 2, 16, 1);
    uint16_t *to = cm_arena_alloc_n(&b->arena, (size_t)plain, 2, 16, 1);
    for (int64_t i = 0; i < packed; i++)
        from[i] = place[i] ? (uint16_t)(place[i] * 7919) : 0xAAAA;
    cm_packing_undo(p, from, to);
    for (int64_t i = 0; i < plain; i++)
        assert_int_equal(to[i], (uint16_t)((i + 1) * 7919));
    uint16_t *again = cm_arena_alloc_n(&b->arena, (size_t)packed, 2, 16, 1);
    memset(again, 0xAA, (size_t)packed * 2);
    cm_packing_redo(p, to, again);
    assert_memory_equal(again, from, (size_t)packed * 2);
    return p;
}

/* [panels][k][nr] of a matrix [k][n], the last panel padded. */
static void panels_come_back_and_take_few_nests(void **state)
{
    enum { NR = 16 };
    for (int64_t n = 1; n < 70; n += 3) {
        for (int64_t k = 1; k < 30; k += 7) {
            int64_t panels = (n + NR - 1) / NR, at = 0;
            static uint32_t place[70 * 64 * NR];
            memset(place, 0, sizeof place);
            for (int64_t q = 0; q < panels; q++)
                for (int64_t l = 0; l < k; l++)
                    for (int64_t j = 0; j < NR; j++, at++)
                        if (q * NR + j < n)
                            place[at] = (uint32_t)(l * n + q * NR + j + 1);
            const cm_packing *p = round_trip(*state, place, at, n * k);
            assert_true(p->n_nests <= 3);
        }
    }
}

/* Rows in tiles of nearly equal size, each with its columns one after the other, as for the left operand. */
static void uneven_tiles_come_back(void **state)
{
    enum { M = 53, K = 11, TILES = 9 };
    static uint32_t place[M * K];
    int64_t at = 0;
    for (int t = 0; t < TILES; t++)
        for (int l = 0; l < K; l++)
            for (int i = t * M / TILES; i < (t + 1) * M / TILES; i++)
                place[at++] = (uint32_t)(i * K + l + 1);
    const cm_packing *p = round_trip(*state, place, at, M * K);
    assert_true(p->n_nests <= 2 * TILES);
}

static void what_is_no_packing_has_no_description(void **state)
{
    bench *b = *state;
    const cm_packing *p;
    static uint32_t noise[8192];
    uint32_t seed = 1;
    for (int i = 0; i < 8192; i++) {
        seed = seed * 1664525u + 1013904223u;
        noise[i] = seed % 8192 + 1;
    }
    assert_int_equal(CM_OK, cm_packing_find(&b->cx, &b->arena, 4, 8192, noise, 8192, &p));
    assert_null(p);
    uint32_t beyond[] = {1, 2, 9};
    assert_int_equal(CM_OK, cm_packing_find(&b->cx, &b->arena, 4, 3, beyond, 3, &p));
    assert_null(p);
    uint32_t lost[] = {1, 0, 0};
    assert_int_equal(CM_OK, cm_packing_find(&b->cx, &b->arena, 4, 3, lost, 3, &p));
    assert_null(p);
}

static void nests_that_leave_their_forms_are_unsound(void **state)
{
    (void)state;
    cm_nest n = {.dims = {{4, 1, 1}, {1}, {1}, {1}, {1}, {1}}};
    cm_packing p = {4, 4, 4, 1, &n};
    assert_true(cm_packing_is_sound(&p));
    const struct {
        int64_t plain, packed, count, plain_step, packed_step;
    } bad[] = {{1, 0, 4, 1, 1},         {0, 1, 4, 1, 1},         {0, 0, 4, 2, 1},
               {0, 0, 4, 1, -1},        {0, 0, 4, -1, 1},        {-1, 0, 4, 1, 1},
               {0, 0, 3, 1, 1},         {0, 0, 0, 1, 1},         {0, 0, 5, 0, 0},
               {0, 0, 4, INT64_MAX, 1}, {0, 0, 4, 1, INT64_MIN}, {INT64_MAX, 0, 4, 1, 1}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        n = (cm_nest){
            bad[i].plain,
            bad[i].packed,
            {{bad[i].count, bad[i].plain_step, bad[i].packed_step}, {1}, {1}, {1}, {1}, {1}}};
        assert_false(cm_packing_is_sound(&p));
    }
    n = (cm_nest){.dims = {{4, 1, 1}, {1}, {1}, {1}, {1}, {1}}};
    p.elem_bytes = 3;
    assert_false(cm_packing_is_sound(&p));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(panels_come_back_and_take_few_nests, setup, teardown),
        cmocka_unit_test_setup_teardown(uneven_tiles_come_back, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_no_packing_has_no_description, setup, teardown),
        cmocka_unit_test_setup_teardown(nests_that_leave_their_forms_are_unsound, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
