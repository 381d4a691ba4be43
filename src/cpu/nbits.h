/* nbits.h -- kernels of products whose weights have 2, 4 or 8 bits, one scale and one zero point a block.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Packed weights lie in strips of CM_NBITS_STRIP columns. A word of 32 bits holds adjacent codes of one column, the first in its
 * lowest bits, as two's complement: the middle of their range is 0. A strip has its columns' first words, then
 * their second ones; one shift therefore gives a row of the matrix. Scales and zero points lie the same way, block after
 * block, in float32. Columns beyond n are zeros. */
#ifndef CM_CPU_NBITS_H
#define CM_CPU_NBITS_H

#include <stdbool.h>
#include <stdint.h>

enum {
    CM_NBITS_STRIP = 16,
    CM_NBITS_WIDE = 4
}; /* columns; strips that one call of a kernel reads together */

typedef struct cm_nbits_weights {
    int bits;
    int64_t n, k, block, blocks;
    const uint32_t *codes;
    const float *scales;
    const float *zeros; /* less the middle of the codes; NULL: all are that middle */
    const float *bias;  /* NULL: none */
} cm_nbits_weights;

/* Codes of a word. */
static inline int cm_nbits_per_word(int bits)
{
    return 32 / bits;
}
/* Words of a column. */
static inline int64_t cm_nbits_words(const cm_nbits_weights *w)
{
    return w->blocks * w->block * w->bits / 32;
}

typedef struct cm_nbits_few {
    cm_nbits_weights w;
    int64_t m;
    const float *x; /* [m][k] */
    float *y;       /* [m][n] */
} cm_nbits_few;

/* y = x * weights + bias, strips [begin, end): weights, of 4 or 8 bits, become numbers on registers, for a few rows at a time. */
typedef void cm_nbits_few_fn(const cm_nbits_few *f, int64_t begin, int64_t end);
cm_nbits_few_fn cm_cpu_nbits_few__generic, cm_cpu_nbits_few__avx2, cm_cpu_nbits_few__avx512;

/* Strips [begin, end), rows [k0, k1) of the matrix as float32, in panels of nr columns, `panel` floats apart, as
 * cm_gemm_f32 reads them. k0 begins a word; nr is a multiple of a vector. */
typedef struct cm_nbits_part {
    int64_t begin, end, k0, k1, nr, panel;
    float *to;
} cm_nbits_part;
typedef void cm_nbits_unpack_fn(const cm_nbits_weights *w, const cm_nbits_part *p);
cm_nbits_unpack_fn cm_cpu_nbits_unpack__generic, cm_cpu_nbits_unpack__avx2,
    cm_cpu_nbits_unpack__avx512;

/* A row of x as whole numbers, each a few digits of 8 bits, in the order in which codes leave their words; a
 * power of two and the sums of digits for each block. Memory is the caller's. */
enum { CM_NBITS_DIGITS = 3 };
typedef struct cm_nbits_digits {
    int8_t *digits; /* [blocks * block][CM_NBITS_DIGITS] */
    int32_t *sums;  /* [blocks][CM_NBITS_DIGITS] */
    float *scales;  /* [blocks] */
} cm_nbits_digits;

/* False: an element is not finite, or a block is too small for its power of two. VNNI is not needed. */
bool cm_cpu_nbits_cut__avx512(const cm_nbits_weights *w, const float *x, const cm_nbits_digits *to);
/* y = x * weights + bias, one row, strips [begin, end). Codes are of 4 or 8 bits, zero points whole numbers. Needs VNNI. */
void cm_cpu_nbits_digits__avx512(const cm_nbits_weights *w, const cm_nbits_digits *x, float *y,
                                 int64_t begin, int64_t end);

#endif
