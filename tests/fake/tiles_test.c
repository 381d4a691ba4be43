/* tiles_test.c -- the tiles of this folder calculate as the processor's do, and refuse what it would.
 * SPDX-License-Identifier: Apache-2.0 */
#include "tiles.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

typedef struct {
    uint8_t palette, first_row, reserved[14];
    uint16_t bytes[16];
    uint8_t rows[16];
} configuration;

/* Tile 0: sums; 1: rows of A; 2: pairs of rows of B. */
static configuration of(int m, int pairs, int n)
{
    configuration c = {.palette = 1};
    c.rows[0] = c.rows[1] = (uint8_t)m;
    c.rows[2] = (uint8_t)pairs;
    c.bytes[0] = c.bytes[2] = (uint16_t)(n * 4);
    c.bytes[1] = (uint16_t)(pairs * 4);
    return c;
}

static uint16_t bf16(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return (uint16_t)(bits >> 16);
}

/* One row by one column: pairs of A and B. */
static float one_sum(float before, int pairs, const float *a, const float *b)
{
    configuration c = of(1, pairs, 1);
    uint16_t x[32], y[32];
    for (int i = 0; i < 2 * pairs; i++) {
        x[i] = bf16(a[i]);
        y[i] = bf16(b[i]);
    }
    _tile_loadconfig(&c);
    _tile_loadd(0, &before, 4);
    _tile_loadd(1, x, 64);
    _tile_loadd(2, y, 4);
    _tile_dpbf16ps(0, 1, 2);
    _tile_stored(0, &before, 4);
    _tile_release();
    return before;
}

static void sums_are_rounded_in_the_processors_order(void **state)
{
    (void)state;
    const float ones[4] = {1, 1, 1, 1};
    /* Elements 0 and 2 have one sum, 1 and 3 the other. */
    assert_true(one_sum(0, 2, (const float[]){0x1p24f, 1, 1, 1}, ones) == 0x1p24f + 2);
    assert_true(one_sum(0, 2, (const float[]){0x1p24f, 1, 1, -1}, ones) == 0x1p24f);
    /* What was there before comes last. */
    assert_true(one_sum(-0x1p24f, 1, (const float[]){0x1p24f, 1}, ones) == 0);
    assert_true(one_sum(-0x1p24f, 1, (const float[]){0x1p24f, 2}, ones) == 2);
}

static void denormals_are_zero(void **state)
{
    (void)state;
    const float big[2] = {0x1p100f, 0};
    assert_true(one_sum(0, 1, (const float[]){0x1p-130f, 0}, big) == 0);
    assert_true(one_sum(0, 1, (const float[]){0x1p-100f, 0}, (const float[]){0x1p-30f, 0}) == 0);
    assert_true(one_sum(0x1p-130f, 1, (const float[]){0, 0}, big) == 0);
    assert_true(one_sum(0, 1, (const float[]){0x1p-100f, 0}, big) == 1);
    assert_true(0x1p-100f * (volatile float){0x1p-40f} > 0); /* the caller's mode is its own */
}

static void only_configured_rows_and_columns_move(void **state)
{
    (void)state;
    configuration c = of(3, 2, 5);
    float in[4][8], out[4][8];
    for (int i = 0; i < 32; i++) {
        in[i / 8][i % 8] = (float)i;
        out[i / 8][i % 8] = -1;
    }
    _tile_loadconfig(&c);
    _tile_loadd(0, in, sizeof in[0]);
    _tile_stored(0, out, sizeof out[0]);
    for (int i = 0; i < 32; i++)
        assert_true(out[i / 8][i % 8] == (i / 8 < 3 && i % 8 < 5 ? (float)i : -1));
    _tile_zero(0);
    _tile_stored(0, out, sizeof out[0]);
    assert_true(out[2][4] == 0 && out[2][5] == -1);
    _tile_release();
}

static void bytes_are_multiplied_with_their_signs(void **state)
{
    (void)state;
    configuration c = of(1, 1, 1);
    int32_t sum = 100;
    const int8_t a[4] = {-128, 127, 3, -1}, b[4] = {-128, 1, -5, 7};
    _tile_loadconfig(&c);
    _tile_loadd(0, &sum, 4);
    _tile_loadd(1, a, 4);
    _tile_loadd(2, b, 4);
    _tile_dpbssd(0, 1, 2);
    _tile_stored(0, &sum, 4);
    _tile_release();
    assert_int_equal(sum, 100 + 16384 + 127 - 15 - 7);
}

/* ---- What ends the program -------------------------------------------------------------------- */

static void not_configured(void)
{
    _tile_zero(0);
}

static void released(void)
{
    configuration c = of(1, 1, 1);
    _tile_loadconfig(&c);
    _tile_release();
    _tile_zero(0);
}

static void unknown_tile(void)
{
    configuration c = of(1, 1, 1);
    _tile_loadconfig(&c);
    _tile_zero(3);
}

static void too_many_rows(void)
{
    configuration c = of(17, 1, 1);
    _tile_loadconfig(&c);
}

static void rows_without_columns(void)
{
    configuration c = of(4, 1, 1);
    c.rows[5] = 4;
    _tile_loadconfig(&c);
}

static void other_palette(void)
{
    configuration c = of(4, 1, 1);
    c.palette = 2;
    _tile_loadconfig(&c);
}

static void shapes_that_do_not_meet(void)
{
    configuration c = of(4, 2, 4);
    c.rows[1] = 5;
    _tile_loadconfig(&c);
    _tile_dpbf16ps(0, 1, 2);
}

static void sums_that_are_an_operand(void)
{
    configuration c = of(4, 4, 4);
    _tile_loadconfig(&c);
    _tile_dpbf16ps(0, 1, 1);
}

static void wrong_use_ends_the_program(void **state)
{
    (void)state;
    void (*const each[])(void) = {not_configured,
                                  released,
                                  unknown_tile,
                                  too_many_rows,
                                  rows_without_columns,
                                  other_palette,
                                  shapes_that_do_not_meet,
                                  sums_that_are_an_operand};
    for (size_t i = 0; i < sizeof each / sizeof *each; i++) {
        int status;
        fflush(NULL);
        pid_t child = fork();
        if (child == 0) {
            if (!freopen("/dev/null", "w", stderr))
                _exit(1);
            signal(SIGABRT, SIG_DFL);
            each[i]();
            _exit(0);
        }
        assert_true(child > 0 && waitpid(child, &status, 0) == child);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_rounded_in_the_processors_order),
        cmocka_unit_test(denormals_are_zero),
        cmocka_unit_test(only_configured_rows_and_columns_move),
        cmocka_unit_test(bytes_are_multiplied_with_their_signs),
        cmocka_unit_test(wrong_use_ends_the_program),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
