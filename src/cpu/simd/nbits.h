/* nbits.h -- products with weights of 2, 4 or 8 bits, built once per ISA level.
 * SPDX-License-Identifier: Apache-2.0
 *
 * `bits`, `vectors` and the members of a shape are constants where these functions are inlined. */
#ifndef CM_CPU_SIMD_NBITS_H
#define CM_CPU_SIMD_NBITS_H

#include <stdbool.h>

#include "cpu/nbits.h"
#include "cpu/simd/vec.h"

enum {
    PER_STRIP = CM_NBITS_STRIP / VW, /* vectors of a strip */
    MOST_ROWS = VW == 16  ? 8
                : VW == 8 ? 4
                          : 2,
    MOST_VECTORS = 4
};

/* What a kernel is written out for. */
typedef struct {
    int bits, rows, strips;
} shape;

/* Code i of each lane's word. */
VINLINE vf number(int bits, vi word, int i)
{
#if VW == 16
    /* A lookup sees four bits: of codes of two, the upper ones change nothing. */
    const __m512 four = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1);
    const __m512 two = _mm512_setr_ps(0, 1, -2, -1, 0, 1, -2, -1, 0, 1, -2, -1, 0, 1, -2, -1);
    if (bits <= 4)
        return _mm512_permutexvar_ps(vi_shr(word, (unsigned)(bits * i)), bits == 4 ? four : two);
#endif
    return vf_of_int(vi_sar(vi_shl(word, 32 - bits * (i + 1)), 32 - bits));
}

VINLINE vi load_words(const uint32_t *p)
{
    return vi_bits(vf_load((const float *)(const void *)p));
}

/* Where vector q of the strips from `strip` on lies: what has `rows` rows of columns in each strip. */
VINLINE int64_t place(int64_t strip, int q, int64_t rows)
{
    return (strip + q / PER_STRIP) * rows * CM_NBITS_STRIP + q % PER_STRIP * VW;
}

/* Scales and zero points of block b. */
VINLINE void load_block(int vectors, const cm_nbits_weights *w, int64_t strip, int64_t b, vf *scale,
                        vf *zero)
{
    UNROLL
    for (int q = 0; q < vectors; q++) {
        int64_t at = place(strip, q, w->blocks) + b * CM_NBITS_STRIP;
        scale[q] = vf_load(w->scales + at);
        zero[q] = w->zeros ? vf_load(w->zeros + at) : vf_zero();
    }
}

VINLINE void store_row(int vectors, const cm_nbits_few *f, int64_t strip, int64_t row, vf *sum)
{
    const cm_nbits_weights *w = &f->w;
    UNROLL
    for (int q = 0; q < vectors; q++) {
        int64_t col = place(strip, q, 1);
        float *y = f->y + row * w->n + col;
        if (w->bias)
            sum[q] = vf_add(sum[q], vf_load(w->bias + col));
        if (col + VW <= w->n)
            vf_store(y, sum[q]);
        else if (col < w->n)
            vf_store_n(y, sum[q], (int)(w->n - col));
    }
}

/* Code i of a word in each column, times element i of each row. */
VINLINE void add_code(shape h, const vi *word, const float *x, int64_t ldx, int i, const vf *zero,
                      vf (*acc)[MOST_VECTORS])
{
    const int vectors = h.strips * PER_STRIP;
    vf code[MOST_VECTORS];
    UNROLL
    for (int q = 0; q < vectors; q++)
        code[q] = vf_sub(number(h.bits, word[q], i), zero[q]);
    UNROLL
    for (int r = 0; r < h.rows; r++) {
        vf v = vf_set(x[r * ldx + i]);
        UNROLL
        for (int q = 0; q < vectors; q++)
            acc[r][q] = vf_fma(code[q], v, acc[r][q]);
    }
}

/* The first n codes of a word in each column; all of them are written out one after the other. */
VINLINE void add_word(shape h, const uint32_t *codes, int64_t apart, const float *x, int64_t ldx,
                      int n, const vf *zero, vf (*acc)[MOST_VECTORS])
{
    vi word[MOST_VECTORS];
    UNROLL
    for (int q = 0; q < h.strips * PER_STRIP; q++)
        word[q] = load_words(codes + q / PER_STRIP * apart + q % PER_STRIP * VW);
    if (n < 32 / h.bits) {
        for (int i = 0; i < n; i++)
            add_code(h, word, x, ldx, i, zero, acc);
        return;
    }
    UNROLL
    for (int i = 0; i < 32 / h.bits; i++)
        add_code(h, word, x, ldx, i, zero, acc);
}

/* Sums of a block take their scale once. The zero point is taken from each code, which is exact, not from the
 * sum, where it may be most of what is there. */
VINLINE void add_block(shape h, const cm_nbits_few *f, int64_t strip, int64_t row, int64_t b,
                       vf (*sum)[MOST_VECTORS])
{
    const cm_nbits_weights *w = &f->w;
    const int vectors = h.strips * PER_STRIP;
    const int64_t per = 32 / h.bits, words = w->block / per, all = w->blocks * words;
    const int64_t apart = all * CM_NBITS_STRIP;
    const float *x = f->x + row * w->k + b * w->block;
    const uint32_t *codes = w->codes + place(strip, 0, all) + b * words * CM_NBITS_STRIP;
    int64_t left = w->k - b * w->block, n = left < w->block ? left : w->block, i = 0;
    vf acc[MOST_ROWS][MOST_VECTORS], scale[MOST_VECTORS], zero[MOST_VECTORS];
    load_block(vectors, w, strip, b, scale, zero);
    UNROLL
    for (int r = 0; r < h.rows; r++) {
        UNROLL
        for (int q = 0; q < vectors; q++)
            acc[r][q] = vf_zero();
    }
    for (; i < n; i += per, codes += CM_NBITS_STRIP)
        add_word(h, codes, apart, x + i, w->k, (int)(n - i < per ? n - i : per), zero, acc);
    UNROLL
    for (int r = 0; r < h.rows; r++) {
        UNROLL
        for (int q = 0; q < vectors; q++)
            sum[r][q] = vf_fma(acc[r][q], scale[q], sum[r][q]);
    }
}

VINLINE void tile(shape h, const cm_nbits_few *f, int64_t strip, int64_t row)
{
    vf sum[MOST_ROWS][MOST_VECTORS];
    UNROLL
    for (int r = 0; r < h.rows; r++) {
        UNROLL
        for (int q = 0; q < h.strips * PER_STRIP; q++)
            sum[r][q] = vf_zero();
    }
    for (int64_t b = 0; b < f->w.blocks; b++)
        add_block(h, f, strip, row, b, sum);
    UNROLL
    for (int r = 0; r < h.rows; r++)
        store_row(h.strips * PER_STRIP, f, strip, row + r, sum[r]);
}

/* Rows from `row` on, by as many strips as leave sums on registers. */
VINLINE void tiles(int bits, int rows, const cm_nbits_few *f, int64_t begin, int64_t end,
                   int64_t row)
{
    const int wide = VW == 16 ? rows > 4 ? 2 : 4 : VW == 8 && rows == 1 ? 2 : 1;
    int64_t s = begin;
    for (; s + wide <= end; s += wide)
        tile((shape){bits, rows, wide}, f, s, row);
    for (; wide > 1 && s < end; s++)
        tile((shape){bits, rows, 1}, f, s, row);
}

/* All rows of CM_NBITS_WIDE strips, which stay in the cache from the first rows on. */
VINLINE void all_rows(int bits, const cm_nbits_few *f, int64_t begin, int64_t end)
{
    int64_t row = 0;
    for (; row + MOST_ROWS <= f->m; row += MOST_ROWS)
        tiles(bits, MOST_ROWS, f, begin, end, row);
    for (; MOST_ROWS > 2 && row + 2 <= f->m; row += 2)
        tiles(bits, 2, f, begin, end, row);
    if (row < f->m)
        tiles(bits, 1, f, begin, end, row);
}

VINLINE void some_strips(int bits, const cm_nbits_few *f, int64_t begin, int64_t end)
{
    for (int64_t s = begin; s < end; s += CM_NBITS_WIDE) {
        int64_t to = s + CM_NBITS_WIDE < end ? s + CM_NBITS_WIDE : end;
        all_rows(bits, f, s, to);
    }
}

void CM_LEVEL(cm_cpu_nbits_few)(const cm_nbits_few *f, int64_t begin, int64_t end)
{
    if (f->w.bits == 4)
        some_strips(4, f, begin, end);
    else
        some_strips(8, f, begin, end);
}

/* The rows of one word in each column, from row k on. */
VINLINE void unpack_word(int bits, const uint32_t *codes, const cm_nbits_part *p, int64_t k,
                         const vf *scale, const vf *zero, float *const *to)
{
    UNROLL
    for (int q = 0; q < PER_STRIP; q++) {
        vi word = load_words(codes + q * VW);
        UNROLL
        for (int i = 0; i < 32 / bits; i++) {
            if (k + i >= p->k1)
                break;
            vf_store(to[q] + (k + i - p->k0) * p->nr,
                     vf_mul(vf_sub(number(bits, word, i), zero[q]), scale[q]));
        }
    }
}

VINLINE void unpack_strip(int bits, const cm_nbits_weights *w, const cm_nbits_part *p,
                          int64_t strip)
{
    const int64_t per = 32 / bits;
    const uint32_t *codes = w->codes + place(strip, 0, cm_nbits_words(w));
    float *to[PER_STRIP];
    UNROLL
    for (int q = 0; q < PER_STRIP; q++) {
        int64_t col = (strip - p->begin) * CM_NBITS_STRIP + q * VW;
        to[q] = p->to + col / p->nr * p->panel + col % p->nr;
    }
    for (int64_t k = p->k0; k < p->k1;) {
        int64_t b = k / w->block, end = (b + 1) * w->block;
        vf scale[PER_STRIP], zero[PER_STRIP];
        load_block(PER_STRIP, w, strip, b, scale, zero);
        for (; k < end && k < p->k1; k += per)
            unpack_word(bits, codes + k / per * CM_NBITS_STRIP, p, k, scale, zero, to);
    }
}

VINLINE void unpack_strips(int bits, const cm_nbits_weights *w, const cm_nbits_part *p)
{
    for (int64_t s = p->begin; s < p->end; s++)
        unpack_strip(bits, w, p, s);
}

void CM_LEVEL(cm_cpu_nbits_unpack)(const cm_nbits_weights *w, const cm_nbits_part *p)
{
    if (w->bits == 4)
        unpack_strips(4, w, p);
    else if (w->bits == 8)
        unpack_strips(8, w, p);
    else
        unpack_strips(2, w, p);
}

#endif
