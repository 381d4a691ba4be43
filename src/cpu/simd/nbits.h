/* nbits.h -- products with weights of 2, 4 or 8 bits, built once per ISA level.
 * SPDX-License-Identifier: Apache-2.0
 *
 * `bits`, `rows`, `strips` and `vectors` are constants where these functions are inlined. */
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
    MOST_VECTORS = 4,
    ONE_STRIPS = MOST_VECTORS / PER_STRIP, /* strips at once, of one row */
    FEW_STRIPS = VW == 16 ? 2 : 1,         /* of more */
};

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

/* One row: sums of codes times x, which take their scale once a block. The first n codes of a word count. The zero
 * point is taken from each code, which is exact, not from the sum, where it may be most of what is there. */
VINLINE void one_word(int bits, bool zeros, int vectors, const uint32_t *codes, int64_t apart,
                      const float *x, int64_t n, const vf *zero, vf *acc)
{
    vi word[MOST_VECTORS];
    UNROLL
    for (int q = 0; q < vectors; q++)
        word[q] = load_words(codes + q / PER_STRIP * apart + q % PER_STRIP * VW);
    UNROLL
    for (int i = 0; i < 32 / bits; i++) {
        if (i >= n)
            break;
        vf v = vf_set(x[i]);
        UNROLL
        for (int q = 0; q < vectors; q++) {
            vf code = number(bits, word[q], i);
            acc[q] = vf_fma(zeros ? vf_sub(code, zero[q]) : code, v, acc[q]);
        }
    }
}

VINLINE void one_block(int bits, bool zeros, int vectors, const cm_nbits_few *f, int64_t strip,
                       int64_t row, int64_t b, vf *sum)
{
    const cm_nbits_weights *w = &f->w;
    const int64_t per = 32 / bits, words = w->block / per, all = w->blocks * words;
    const int64_t apart = all * CM_NBITS_STRIP;
    const float *x = f->x + row * w->k + b * w->block;
    const uint32_t *codes = w->codes + place(strip, 0, all) + b * words * CM_NBITS_STRIP;
    int64_t left = w->k - b * w->block, n = left < w->block ? left : w->block, i = 0;
    vf acc[MOST_VECTORS], scale[MOST_VECTORS], zero[MOST_VECTORS];
    load_block(vectors, w, strip, b, scale, zero);
    UNROLL
    for (int q = 0; q < vectors; q++)
        acc[q] = vf_zero();
    for (; i + per <= n; i += per, codes += CM_NBITS_STRIP)
        one_word(bits, zeros, vectors, codes, apart, x + i, per, zero, acc);
    if (i < n)
        one_word(bits, zeros, vectors, codes, apart, x + i, n - i, zero, acc);
    UNROLL
    for (int q = 0; q < vectors; q++)
        sum[q] = vf_fma(acc[q], scale[q], sum[q]);
}

VINLINE void one_row(int bits, int strips, const cm_nbits_few *f, int64_t strip, int64_t row)
{
    const int vectors = strips * PER_STRIP;
    vf sum[MOST_VECTORS];
    UNROLL
    for (int q = 0; q < vectors; q++)
        sum[q] = vf_zero();
    if (f->w.zeros)
        for (int64_t b = 0; b < f->w.blocks; b++)
            one_block(bits, true, vectors, f, strip, row, b, sum);
    else
        for (int64_t b = 0; b < f->w.blocks; b++)
            one_block(bits, false, vectors, f, strip, row, b, sum);
    store_row(vectors, f, strip, row, sum);
}

/* Several rows: a weight is scaled once for all of them. */
VINLINE void few_word(int bits, int rows, int vectors, const uint32_t *codes, int64_t apart,
                      const float *const *x, int64_t at, int64_t n, const vf *scale, const vf *zero,
                      vf (*acc)[MOST_VECTORS])
{
    vi word[MOST_VECTORS];
    UNROLL
    for (int q = 0; q < vectors; q++)
        word[q] = load_words(codes + q / PER_STRIP * apart + q % PER_STRIP * VW);
    UNROLL
    for (int i = 0; i < 32 / bits; i++) {
        if (i >= n)
            break;
        vf weight[MOST_VECTORS];
        UNROLL
        for (int q = 0; q < vectors; q++)
            weight[q] = vf_mul(vf_sub(number(bits, word[q], i), zero[q]), scale[q]);
        UNROLL
        for (int r = 0; r < rows; r++) {
            vf v = vf_set(x[r][at + i]);
            UNROLL
            for (int q = 0; q < vectors; q++)
                acc[r][q] = vf_fma(weight[q], v, acc[r][q]);
        }
    }
}

VINLINE void few_block(int bits, int rows, int vectors, const cm_nbits_few *f, int64_t strip,
                       const float *const *x, int64_t b, vf (*acc)[MOST_VECTORS])
{
    const cm_nbits_weights *w = &f->w;
    const int64_t per = 32 / bits, words = w->block / per, all = w->blocks * words;
    const int64_t apart = all * CM_NBITS_STRIP;
    const uint32_t *codes = w->codes + place(strip, 0, all) + b * words * CM_NBITS_STRIP;
    int64_t at = b * w->block, end = at + w->block < w->k ? at + w->block : w->k;
    vf scale[MOST_VECTORS], zero[MOST_VECTORS];
    load_block(vectors, w, strip, b, scale, zero);
    for (; at + per <= end; at += per, codes += CM_NBITS_STRIP)
        few_word(bits, rows, vectors, codes, apart, x, at, per, scale, zero, acc);
    if (at < end)
        few_word(bits, rows, vectors, codes, apart, x, at, end - at, scale, zero, acc);
}

/* Rows [row, row + rows), of which those beyond m repeat the last and are not stored. */
VINLINE void few_rows(int bits, int rows, int strips, const cm_nbits_few *f, int64_t strip,
                      int64_t row)
{
    const int vectors = strips * PER_STRIP;
    const float *x[MOST_ROWS];
    vf acc[MOST_ROWS][MOST_VECTORS];
    UNROLL
    for (int r = 0; r < rows; r++) {
        x[r] = f->x + (row + r < f->m ? row + r : f->m - 1) * f->w.k;
        UNROLL
        for (int q = 0; q < vectors; q++)
            acc[r][q] = vf_zero();
    }
    for (int64_t b = 0; b < f->w.blocks; b++)
        few_block(bits, rows, vectors, f, strip, x, b, acc);
    UNROLL
    for (int r = 0; r < rows; r++)
        if (row + r < f->m)
            store_row(vectors, f, strip, row + r, acc[r]);
}

/* All rows of so many strips, which stay in the cache from the first rows on. */
VINLINE void all_rows(int bits, int strips, const cm_nbits_few *f, int64_t strip)
{
    for (int64_t row = 0, left; (left = f->m - row) > 0;) {
        int rows = left > 4 ? 8 : left > 2 ? 4 : (int)left;
        if (rows > MOST_ROWS)
            rows = MOST_ROWS;
        if (rows == 1)
            one_row(bits, strips, f, strip, row);
        else if (rows == 2)
            few_rows(bits, 2, strips, f, strip, row);
        else if (MOST_ROWS >= 4 && rows == 4)
            few_rows(bits, MOST_ROWS >= 4 ? 4 : 2, strips, f, strip, row);
        else
            few_rows(bits, MOST_ROWS, strips, f, strip, row);
        row += rows;
    }
}

VINLINE void some_strips(int bits, const cm_nbits_few *f, int64_t begin, int64_t end)
{
    int64_t s = begin;
    for (; f->m == 1 && s + ONE_STRIPS <= end; s += ONE_STRIPS)
        one_row(bits, ONE_STRIPS, f, s, 0);
    for (; FEW_STRIPS > 1 && s + FEW_STRIPS <= end; s += FEW_STRIPS)
        all_rows(bits, FEW_STRIPS, f, s);
    for (; s < end; s++)
        all_rows(bits, 1, f, s);
}

void CM_LEVEL(cm_cpu_nbits_few)(const cm_nbits_few *f, int64_t begin, int64_t end)
{
    if (f->w.bits == 4)
        some_strips(4, f, begin, end);
    else if (f->w.bits == 8)
        some_strips(8, f, begin, end);
    else
        some_strips(2, f, begin, end);
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
