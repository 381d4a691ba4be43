/* transpose.h -- transposes of blocks and copies of short runs: one body for every level.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A block of B x B elements is turned in registers. Blocks are visited in squares of a cache line's
 * width, so that lines are read and written whole while they are in L1; the last block of a row or a
 * column overlaps the one before it. Fewer than B rows or columns are interleaved by plain loops. */
#ifndef CM_CPU_SIMD_TRANSPOSE_H
#define CM_CPU_SIMD_TRANSPOSE_H

#include "cpu/copy_kernels.h"
#include "cpu/simd/vec.h"

VINLINE __m128i load16(const char *p)
{
    return _mm_loadu_si128((const __m128i *)p);
}
VINLINE void store16(char *p, __m128i v)
{
    _mm_storeu_si128((__m128i *)p, v);
}

/* Bytes, 16 x 16: four rounds, each of which interleaves row i with row i + 8. */
VINLINE void turn_1(const char *from, int64_t fs, char *to, int64_t ts)
{
    __m128i a[16], b[16];
    for (int i = 0; i < 16; i++)
        a[i] = load16(from + i * fs);
#define ROUND(x, y)                                                                                \
    for (int i = 0; i < 8; i++) {                                                                  \
        y[2 * i] = _mm_unpacklo_epi8(x[i], x[i + 8]);                                              \
        y[2 * i + 1] = _mm_unpackhi_epi8(x[i], x[i + 8]);                                          \
    }
    ROUND(a, b)
    ROUND(b, a)
    ROUND(a, b)
    ROUND(b, a)
#undef ROUND
    for (int i = 0; i < 16; i++)
        store16(to + i * ts, a[i]);
}

/* 2 bytes, 8 x 8: three rounds. */
VINLINE void turn_2(const char *from, int64_t fs, char *to, int64_t ts)
{
    __m128i a[8], b[8];
    for (int i = 0; i < 8; i++)
        a[i] = load16(from + i * fs);
#define ROUND(x, y)                                                                                \
    for (int i = 0; i < 4; i++) {                                                                  \
        y[2 * i] = _mm_unpacklo_epi16(x[i], x[i + 4]);                                             \
        y[2 * i + 1] = _mm_unpackhi_epi16(x[i], x[i + 4]);                                         \
    }
    ROUND(a, b)
    ROUND(b, a)
    ROUND(a, b)
#undef ROUND
    for (int i = 0; i < 8; i++)
        store16(to + i * ts, b[i]);
}

/* 4 bytes, 4 x 4. */
VINLINE void turn_4_small(const char *from, int64_t fs, char *to, int64_t ts)
{
    __m128i a = load16(from), b = load16(from + fs);
    __m128i c = load16(from + 2 * fs), d = load16(from + 3 * fs);
    __m128i ab0 = _mm_unpacklo_epi32(a, b), ab1 = _mm_unpackhi_epi32(a, b);
    __m128i cd0 = _mm_unpacklo_epi32(c, d), cd1 = _mm_unpackhi_epi32(c, d);
    store16(to, _mm_unpacklo_epi64(ab0, cd0));
    store16(to + ts, _mm_unpackhi_epi64(ab0, cd0));
    store16(to + 2 * ts, _mm_unpacklo_epi64(ab1, cd1));
    store16(to + 3 * ts, _mm_unpackhi_epi64(ab1, cd1));
}

#ifdef __AVX2__
enum { BLOCK_4 = 8, BLOCK_8 = 4 };

/* 4 bytes, 8 x 8: halves of two rows are joined while they are loaded, then turned within lanes. */
VINLINE void turn_4(const char *from, int64_t fs, char *to, int64_t ts)
{
    __m256 a[8], b[8];
    for (int i = 0; i < 4; i++) {
        const char *p = from + i * fs, *q = p + 4 * fs;
        a[i] = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps((const float *)p)),
                                    _mm_loadu_ps((const float *)q), 1);
        a[i + 4] =
            _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps((const float *)(p + 16))),
                                 _mm_loadu_ps((const float *)(q + 16)), 1);
    }
    for (int h = 0; h < 8; h += 4) {
        b[h + 0] = _mm256_unpacklo_ps(a[h], a[h + 1]);
        b[h + 1] = _mm256_unpackhi_ps(a[h], a[h + 1]);
        b[h + 2] = _mm256_unpacklo_ps(a[h + 2], a[h + 3]);
        b[h + 3] = _mm256_unpackhi_ps(a[h + 2], a[h + 3]);
        __m256d lo0 = _mm256_castps_pd(b[h]), lo1 = _mm256_castps_pd(b[h + 2]);
        __m256d hi0 = _mm256_castps_pd(b[h + 1]), hi1 = _mm256_castps_pd(b[h + 3]);
        char *t = to + h * ts;
        _mm256_storeu_pd((double *)t, _mm256_unpacklo_pd(lo0, lo1));
        _mm256_storeu_pd((double *)(t + ts), _mm256_unpackhi_pd(lo0, lo1));
        _mm256_storeu_pd((double *)(t + 2 * ts), _mm256_unpacklo_pd(hi0, hi1));
        _mm256_storeu_pd((double *)(t + 3 * ts), _mm256_unpackhi_pd(hi0, hi1));
    }
}

VINLINE void turn_8(const char *from, int64_t fs, char *to, int64_t ts)
{
    for (int h = 0; h < 2; h++) {
        const char *p = from + 16 * h;
        __m256d a = _mm256_insertf128_pd(_mm256_castpd128_pd256(_mm_loadu_pd((const double *)p)),
                                         _mm_loadu_pd((const double *)(p + 2 * fs)), 1);
        __m256d b =
            _mm256_insertf128_pd(_mm256_castpd128_pd256(_mm_loadu_pd((const double *)(p + fs))),
                                 _mm_loadu_pd((const double *)(p + 3 * fs)), 1);
        _mm256_storeu_pd((double *)(to + 2 * h * ts), _mm256_unpacklo_pd(a, b));
        _mm256_storeu_pd((double *)(to + (2 * h + 1) * ts), _mm256_unpackhi_pd(a, b));
    }
}
#else
enum { BLOCK_4 = 4, BLOCK_8 = 2 };

#define turn_4 turn_4_small

VINLINE void turn_8(const char *from, int64_t fs, char *to, int64_t ts)
{
    __m128i a = load16(from), b = load16(from + fs);
    store16(to, _mm_unpacklo_epi64(a, b));
    store16(to + ts, _mm_unpackhi_epi64(a, b));
}
#endif
enum { BLOCK_1 = 16, BLOCK_2 = 8 };

typedef uint8_t __attribute__((may_alias, aligned(1))) elem_1;
typedef uint16_t __attribute__((may_alias, aligned(1))) elem_2;
typedef uint32_t __attribute__((may_alias, aligned(1))) elem_4;
typedef uint64_t __attribute__((may_alias, aligned(1))) elem_8;

/* N columns that lie side by side, or N rows that do: loops of constant step, which the compiler
 * makes vectors of. */
#define INTERLEAVE(E, N)                                                                           \
    static void zip_##E##_##N(int64_t rows, const char *from, int64_t fs, char *to)                \
    {                                                                                              \
        elem_##E *restrict t = (elem_##E *)to;                                                     \
        const elem_##E *c0 = (const elem_##E *)from, *c1 = (const elem_##E *)(from + fs);          \
        const elem_##E *c2 = (const elem_##E *)(from + (N > 2 ? 2 : 0) * fs);                      \
        const elem_##E *c3 = (const elem_##E *)(from + (N > 3 ? 3 : 0) * fs);                      \
        for (int64_t r = 0; r < rows; r++) {                                                       \
            t[N * r] = c0[r];                                                                      \
            t[N * r + 1] = c1[r];                                                                  \
            if (N > 2)                                                                             \
                t[N * r + 2] = c2[r];                                                              \
            if (N > 3)                                                                             \
                t[N * r + 3] = c3[r];                                                              \
        }                                                                                          \
    }                                                                                              \
    static void unzip_##E##_##N(int64_t cols, const char *from, char *to, int64_t ts)              \
    {                                                                                              \
        const elem_##E *restrict f = (const elem_##E *)from;                                       \
        elem_##E *restrict r0 = (elem_##E *)to, *restrict r1 = (elem_##E *)(to + ts);              \
        elem_##E *restrict r2 = (elem_##E *)(to + (N > 2 ? 2 : 0) * ts);                           \
        elem_##E *restrict r3 = (elem_##E *)(to + (N > 3 ? 3 : 0) * ts);                           \
        for (int64_t c = 0; c < cols; c++) {                                                       \
            r0[c] = f[N * c];                                                                      \
            r1[c] = f[N * c + 1];                                                                  \
            if (N > 2)                                                                             \
                r2[c] = f[N * c + 2];                                                              \
            if (N > 3)                                                                             \
                r3[c] = f[N * c + 3];                                                              \
        }                                                                                          \
    }

/* Fewer than a block of rows or columns. */
#define NARROW(E)                                                                                  \
    INTERLEAVE(E, 2)                                                                               \
    INTERLEAVE(E, 3)                                                                               \
    INTERLEAVE(E, 4)                                                                               \
    static void narrow_##E(int64_t rows, int64_t cols, const char *from, int64_t fs, char *to,     \
                           int64_t ts)                                                             \
    {                                                                                              \
        if (ts == cols * E && cols > 1 && cols < 5) {                                              \
            (cols == 2 ? zip_##E##_2 : cols == 3 ? zip_##E##_3 : zip_##E##_4)(rows, from, fs, to); \
            return;                                                                                \
        }                                                                                          \
        if (fs == rows * E && rows > 1 && rows < 5) {                                              \
            (rows == 2   ? unzip_##E##_2                                                           \
             : rows == 3 ? unzip_##E##_3                                                           \
                         : unzip_##E##_4)(cols, from, to, ts);                                     \
            return;                                                                                \
        }                                                                                          \
        for (int64_t c = 0; c < cols; c++) {                                                       \
            const elem_##E *f = (const elem_##E *)(from + c * fs);                                 \
            char *t = to + c * E;                                                                  \
            for (int64_t r = 0; r < rows; r++, t += ts)                                            \
                *(elem_##E *)t = f[r];                                                             \
        }                                                                                          \
    }

#define SMALLER(a, b) ((a) < (b) ? (a) : (b))

/* Squares of 64 bytes by 64 bytes, of blocks of B x B; the last blocks begin where they still fit. */
#define BLOCKS(name, E, B, turn)                                                                   \
    static void name(int64_t rows, int64_t cols, const char *from, int64_t fs, char *to,           \
                     int64_t ts)                                                                   \
    {                                                                                              \
        const int64_t square = 64 / E;                                                             \
        for (int64_t c0 = 0; c0 < cols; c0 += square)                                              \
            for (int64_t r0 = 0; r0 < rows; r0 += square)                                          \
                for (int64_t r = r0; r < SMALLER(rows, r0 + square); r += B)                       \
                    for (int64_t c = c0; c < SMALLER(cols, c0 + square); c += B) {                 \
                        int64_t rr = SMALLER(r, rows - B), cc = SMALLER(c, cols - B);              \
                        turn(from + cc * fs + rr * E, fs, to + rr * ts + cc * E, ts);              \
                    }                                                                              \
    }
BLOCKS(small_blocks_4, 4, 4, turn_4_small)

#define TRANSPOSE(E)                                                                               \
    NARROW(E)                                                                                      \
    BLOCKS(blocks_##E, E, BLOCK_##E, turn_##E)                                                     \
    static void transpose_##E(int64_t rows, int64_t cols, const char *from, int64_t fs, char *to,  \
                              int64_t ts)                                                          \
    {                                                                                              \
        int64_t least = SMALLER(rows, cols);                                                       \
        if (least >= BLOCK_##E)                                                                    \
            blocks_##E(rows, cols, from, fs, to, ts);                                              \
        else if (E == 4 && least >= 5)                                                             \
            small_blocks_4(rows, cols, from, fs, to, ts);                                          \
        else                                                                                       \
            narrow_##E(rows, cols, from, fs, to, ts);                                              \
    }
TRANSPOSE(1)
TRANSPOSE(2)
TRANSPOSE(4)
TRANSPOSE(8)

void CM_LEVEL(cm_cpu_transpose)(size_t elem, int64_t rows, int64_t cols, const char *from,
                                int64_t from_col, char *to, int64_t to_row)
{
    switch (elem) {
    case 1:
        transpose_1(rows, cols, from, from_col, to, to_row);
        break;
    case 2:
        transpose_2(rows, cols, from, from_col, to, to_row);
        break;
    case 4:
        transpose_4(rows, cols, from, from_col, to, to_row);
        break;
    default:
        transpose_8(rows, cols, from, from_col, to, to_row);
        break;
    }
}

/* A run under 16 bytes. */
VINLINE void short_run(char *to, const char *from, size_t n)
{
    if (n >= 8) {
        uint64_t a = *(const elem_8 *)from, b = *(const elem_8 *)(from + n - 8);
        *(elem_8 *)to = a;
        *(elem_8 *)(to + n - 8) = b;
    } else if (n >= 4) {
        uint32_t a = *(const elem_4 *)from, b = *(const elem_4 *)(from + n - 4);
        *(elem_4 *)to = a;
        *(elem_4 *)(to + n - 4) = b;
    } else {
        for (size_t i = 0; i < n; i++)
            to[i] = from[i];
    }
}

#ifdef __AVX2__
enum { WIDE = 32 };
VINLINE void wide_copy(char *to, const char *from)
{
    _mm256_storeu_si256((__m256i *)to, _mm256_loadu_si256((const __m256i *)from));
}
#else
enum { WIDE = 16 };
VINLINE void wide_copy(char *to, const char *from)
{
    store16(to, load16(from));
}
#endif

/* Runs from here on are memcpy's. */
enum { LONG_RUN = 1024 };

void CM_LEVEL(cm_cpu_runs)(int64_t rows, size_t bytes, const char *from, int64_t from_row, char *to,
                           int64_t to_row)
{
    for (int64_t r = 0; r < rows; r++, from += from_row, to += to_row) {
        if (bytes >= LONG_RUN) {
            memcpy(to, from, bytes);
        } else if (bytes >= WIDE) {
            for (size_t i = 0; i + WIDE <= bytes; i += WIDE)
                wide_copy(to + i, from + i);
            if (bytes % WIDE)
                wide_copy(to + bytes - WIDE, from + bytes - WIDE);
        } else if (bytes >= 16) {
            __m128i a = load16(from), b = load16(from + bytes - 16);
            store16(to, a);
            store16(to + bytes - 16, b);
        } else {
            short_run(to, from, bytes);
        }
    }
}

#endif
