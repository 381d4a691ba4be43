/* gemm_bf16.c -- tiles of bfloat16 with AMX: 32 x 32, as two by two tile registers of sums.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Registers 0..3 hold sums, [row half * 2 + column half]; 4 and 5 rows of A, 6 and 7 columns of B. A tile of A
 * is 16 rows of 32 elements, one of B 16 pairs of rows by 16 columns, as panels hold them. */
#include <immintrin.h>
#include <string.h>

#include "cpu/gemm_half.h"

enum { MR = 32, ROWS = 16, ROW_BYTES = 64, HALF = 16 * CM_BF16_K };

/* The layout that ldtilecfg reads. */
typedef struct {
    uint8_t palette, start_row, reserved[14];
    uint16_t bytes[16];
    uint8_t rows[16];
} tile_config;

/* The compiler does not know what tile instructions read and write. */
#define MEMORY_IS_SEEN() __asm__ volatile("" ::: "memory")

/* Rows of the upper and lower half. A half without rows is not used, but must have a legal shape. */
static void configure(int upper, int lower)
{
    tile_config t;
    memset(&t, 0, sizeof t);
    t.palette = 1;
    for (int i = 0; i < 8; i++) {
        t.bytes[i] = ROW_BYTES;
        t.rows[i] = ROWS;
    }
    t.rows[0] = t.rows[1] = t.rows[4] = (uint8_t)upper;
    t.rows[2] = t.rows[3] = t.rows[5] = (uint8_t)(lower > 0 ? lower : ROWS);
    __asm__ volatile("" ::"r"(&t) : "memory");
    _tile_loadconfig(&t);
    MEMORY_IS_SEEN();
}

static void begin(void)
{
    configure(ROWS, ROWS);
}

static void end(void)
{
    _tile_release();
}

/* Asked for while tiles are multiplied. */
static inline void ask(cm_bf16_ahead *a)
{
    for (int i = 0; i < a->lines; i++, a->from += a->step)
        _mm_prefetch(a->from, _MM_HINT_T1);
}

static inline void ask_to_write(cm_bf16_ahead *a)
{
    for (int i = 0; i < a->lines; i++, a->from += a->step)
        __asm__ volatile("prefetchw %0" ::"m"(*a->from));
}

static inline int64_t square_at(const cm_bf16_tile *t, int64_t square)
{
    return t->at ? t->at[square] : square * CM_BF16_K;
}

static void two_halves(const cm_bf16_tile *t)
{
    const uint16_t *b = t->b;
    cm_bf16_ahead rows = t->ahead[0], more = t->ahead[1], out = t->out_ahead;
    const int64_t a_bytes = t->lda * 2, c_bytes = t->ldc * 4, squares = t->k / CM_BF16_K;
    float *c = t->c, *low = c + ROWS * t->ldc;
    if (t->add) {
        _tile_loadd(0, c, c_bytes);
        _tile_loadd(1, c + 16, c_bytes);
        _tile_loadd(2, low, c_bytes);
        _tile_loadd(3, low + 16, c_bytes);
    } else {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    }
    for (int64_t i = 0; i < squares; i++, b += CM_BF16_K * CM_BF16_NR) {
        const uint16_t *a = t->a + square_at(t, i);
        _tile_loadd(4, a, a_bytes);
        _tile_loadd(6, b, ROW_BYTES);
        _tile_loadd(7, b + HALF, ROW_BYTES);
        _tile_loadd(5, a + ROWS * t->lda, a_bytes);
        ask(&rows);
        ask(&more);
        ask_to_write(&out);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, c, c_bytes);
    _tile_stored(1, c + 16, c_bytes);
    _tile_stored(2, low, c_bytes);
    _tile_stored(3, low + 16, c_bytes);
}

static void one_half(const cm_bf16_tile *t)
{
    const uint16_t *b = t->b;
    cm_bf16_ahead rows = t->ahead[0], more = t->ahead[1], out = t->out_ahead;
    const int64_t a_bytes = t->lda * 2, c_bytes = t->ldc * 4, squares = t->k / CM_BF16_K;
    if (t->add) {
        _tile_loadd(0, t->c, c_bytes);
        _tile_loadd(1, t->c + 16, c_bytes);
    } else {
        _tile_zero(0);
        _tile_zero(1);
    }
    for (int64_t i = 0; i < squares; i++, b += CM_BF16_K * CM_BF16_NR) {
        _tile_loadd(4, t->a + square_at(t, i), a_bytes);
        _tile_loadd(6, b, ROW_BYTES);
        _tile_loadd(7, b + HALF, ROW_BYTES);
        ask(&rows);
        ask(&more);
        ask_to_write(&out);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
    }
    _tile_stored(0, t->c, c_bytes);
    _tile_stored(1, t->c + 16, c_bytes);
}

/* The configuration is that of 32 rows, but for the tile itself where it has fewer. */
static void tile(const cm_bf16_tile *t)
{
    int m = (int)t->m;
    MEMORY_IS_SEEN();
    if (m < MR && m != ROWS)
        configure(m < ROWS ? m : ROWS, m > ROWS ? m - ROWS : 0);
    if (m > ROWS)
        two_halves(t);
    else
        one_half(t);
    MEMORY_IS_SEEN();
    if (m < MR && m != ROWS)
        configure(ROWS, ROWS);
}

const cm_gemm_bf16_kernel cm_gemm_bf16__amx = {MR, 60, tile, begin, end};
