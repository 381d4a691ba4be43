/* quant_gemm.h -- tiles of 8-bit products, and what becomes of their sums: one body for every level.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_CPU_SIMD_QUANT_GEMM_H
#define CM_CPU_SIMD_QUANT_GEMM_H

#include "cpu/simd/quant_finish.h"

/* Sums of a tile to where they go. sums: of the rows of A, where f->zero_b. */
VINLINE void finish(const cm_qfinish *f, int32_t *acc, int width, int64_t row, int m, int64_t col,
                    int n, const int32_t *sums)
{
    for (int i = 0; f->zero_b && i < m; i++)
        for (int j = 0; j < n; j++)
            acc[i * width + j] = (int32_t)((uint32_t)acc[i * width + j] -
                                           (uint32_t)f->zero_b[col + j] * (uint32_t)sums[i]);
    if (!f->epilogue) {
        for (int i = 0; i < m; i++)
            finish_row(f, acc + i * width, row + i, col, n);
        return;
    }
    float x[CM_QGEMM_TALLEST * CM_QGEMM_WIDEST];
    cm_qfinish plain = *f;
    plain.y = x;
    plain.ld = width;
    plain.add += col;
    plain.factor += col;
    if (plain.bias)
        plain.bias += col;
    for (int i = 0; i < m; i++)
        finish_row(&plain, acc + i * width, i, 0, n);
    cm_epilogue_tile(f->epilogue, row, col, m, n, x, width);
}

#if VW == 16
enum { TALL = 8 };
#elif VW == 8
enum { TALL = 5 }; /* with 6, a sum is kept in memory, and its latency with it */
#else
enum { TALL = 4 };
#endif
enum { PAIRS_WIDTH = 2 * VW };

/* m rows, all of a panel's columns or the first half; both are constants where it is inlined. */
VINLINE void pairs_tile(int m, bool half, const int16_t *from, const cm_qrows *r, const int16_t *b,
                        int64_t depth, int32_t *acc)
{
    vi c0[TALL], c1[TALL];
    for (int i = 0; i < m; i++)
        c0[i] = c1[i] = vi_set(0);
    for (int64_t run = 0; run < r->runs; run++) {
        const int16_t *a = from + r->offsets[run];
        for (int64_t l = 0; l < depth; l += 2, b += 2 * PAIRS_WIDTH) {
            vi b0 = vi_load(b), b1 = vi_load(b + 2 * VW);
            for (int i = 0; i < m; i++) {
                int32_t two;
                memcpy(&two, a + i * r->step + l, sizeof two);
                vi x = vi_set(two);
                c0[i] = vi_add(c0[i], vi_madd(x, b0));
                if (!half)
                    c1[i] = vi_add(c1[i], vi_madd(x, b1));
            }
        }
    }
    for (int i = 0; i < m; i++) {
        vi_store(acc + i * PAIRS_WIDTH, c0[i]);
        vi_store(acc + i * PAIRS_WIDTH + VW, c1[i]);
    }
}

#define TILES(fn, ...)                                                                             \
    switch (m) {                                                                                   \
    case 1:                                                                                        \
        fn(1, __VA_ARGS__);                                                                        \
        break;                                                                                     \
    case 2:                                                                                        \
        fn(2, __VA_ARGS__);                                                                        \
        break;                                                                                     \
    case 3:                                                                                        \
        fn(3, __VA_ARGS__);                                                                        \
        break;                                                                                     \
    case 4:                                                                                        \
        fn(4, __VA_ARGS__);                                                                        \
        break;                                                                                     \
        MORE_TILES(fn, __VA_ARGS__)                                                                \
    }
#if VW == 16
#define MORE_TILES(fn, ...)                                                                        \
    case 5:                                                                                        \
        fn(5, __VA_ARGS__);                                                                        \
        break;                                                                                     \
    case 6:                                                                                        \
        fn(6, __VA_ARGS__);                                                                        \
        break;                                                                                     \
    case 7:                                                                                        \
        fn(7, __VA_ARGS__);                                                                        \
        break;                                                                                     \
    default:                                                                                       \
        fn(8, __VA_ARGS__);                                                                        \
        break;
#elif VW == 8
#define MORE_TILES(fn, ...)                                                                        \
    default:                                                                                       \
        fn(5, __VA_ARGS__);                                                                        \
        break;
#else
#define MORE_TILES(fn, ...)                                                                        \
    default:                                                                                       \
        break;
#endif

static void pairs_rows(int m, int64_t n, const int16_t *from, const cm_qrows *r, const int16_t *b,
                       int64_t depth, int32_t *acc)
{
    if (n <= VW) {
        TILES(pairs_tile, true, from, r, b, depth, acc)
    } else {
        TILES(pairs_tile, false, from, r, b, depth, acc)
    }
}

void CM_LEVEL(cm_cpu_qgemm_pairs)(const cm_qpack *q, const void *packed, const cm_qrows *r,
                                  int64_t begin, int64_t end, const cm_qfinish *f)
{
    int32_t acc[TALL * PAIRS_WIDTH];
    for (int64_t p = begin; p < end; p++) {
        const int16_t *b = (const int16_t *)packed + p * q->depth * PAIRS_WIDTH;
        int64_t col = p * PAIRS_WIDTH, n = q->n - col < PAIRS_WIDTH ? q->n - col : PAIRS_WIDTH;
        for (int64_t line = 0; line < r->lines; line++)
            for (int64_t i = 0; i < r->m; i += TALL) {
                int rows = (int)(r->m - i < TALL ? r->m - i : TALL);
                const int16_t *a = (const int16_t *)r->a + line * r->line_step + i * r->step;
                pairs_rows(rows, n, a, r, b, q->depth / q->runs, acc);
                finish(f, acc, PAIRS_WIDTH, r->row + line * r->m + i, rows, col, (int)n, NULL);
            }
    }
}

#if VW == 16
enum { DOTS_WIDTH = 32 };

VINLINE void dots_tile(int m, bool half, const uint8_t *from, const cm_qrows *r, const int8_t *b,
                       int64_t depth, int32_t *acc)
{
    vi c0[TALL], c1[TALL];
    for (int i = 0; i < m; i++)
        c0[i] = c1[i] = vi_set(0);
    for (int64_t run = 0; run < r->runs; run++) {
        const uint8_t *a = from + r->offsets[run];
        for (int64_t l = 0; l < depth; l += 4, b += 4 * DOTS_WIDTH) {
            vi b0 = vi_load(b), b1 = vi_load(b + 4 * VW);
            for (int i = 0; i < m; i++) {
                int32_t four;
                memcpy(&four, a + i * r->step + l, sizeof four);
                vi x = vi_set(four);
                c0[i] = _mm512_dpbusd_epi32(c0[i], x, b0);
                if (!half)
                    c1[i] = _mm512_dpbusd_epi32(c1[i], x, b1);
            }
        }
    }
    for (int i = 0; i < m; i++) {
        vi_store(acc + i * DOTS_WIDTH, c0[i]);
        vi_store(acc + i * DOTS_WIDTH + VW, c1[i]);
    }
}

static void dots_rows(int m, int64_t n, const uint8_t *from, const cm_qrows *r, const int8_t *b,
                      int64_t depth, int32_t *acc)
{
    if (n <= VW) {
        TILES(dots_tile, true, from, r, b, depth, acc)
    } else {
        TILES(dots_tile, false, from, r, b, depth, acc)
    }
}

/* Of all elements of a row that count. */
static int32_t sum_of_row(const uint8_t *from, const cm_qrows *r)
{
    const vi ones = _mm512_set1_epi8(1);
    vi s = vi_set(0);
    for (int64_t run = 0; run < r->runs; run++) {
        const uint8_t *a = from + r->offsets[run];
        int64_t l = 0;
        for (; l + 64 <= r->length; l += 64)
            s = _mm512_dpbusd_epi32(s, vi_load(a + l), ones);
        __mmask64 rest = ((uint64_t)1 << (r->length - l)) - 1;
        s = _mm512_dpbusd_epi32(s, _mm512_maskz_loadu_epi8(rest, a + l), ones);
    }
    return _mm512_reduce_add_epi32(s);
}

void cm_cpu_qgemm_dots__avx512(const cm_qpack *q, const void *packed, const cm_qrows *r,
                               int64_t begin, int64_t end, const cm_qfinish *f)
{
    int32_t acc[TALL * DOTS_WIDTH], sums[CM_QGEMM_ROWS];
    const uint8_t *all = r->a;
    for (int64_t i = 0; f->zero_b && i < r->m * r->lines; i++)
        sums[i] = sum_of_row(all + i / r->m * r->line_step + i % r->m * r->step, r);
    for (int64_t p = begin; p < end; p++) {
        const int8_t *b = (const int8_t *)packed + p * q->depth * DOTS_WIDTH;
        int64_t col = p * DOTS_WIDTH, n = q->n - col < DOTS_WIDTH ? q->n - col : DOTS_WIDTH;
        for (int64_t line = 0; line < r->lines; line++)
            for (int64_t i = 0; i < r->m; i += TALL) {
                int rows = (int)(r->m - i < TALL ? r->m - i : TALL);
                int64_t row = line * r->m + i;
                dots_rows(rows, n, all + line * r->line_step + i * r->step, r, b,
                          q->depth / q->runs, acc);
                finish(f, acc, DOTS_WIDTH, r->row + row, rows, col, (int)n, sums + row);
            }
    }
}
#endif

#endif
