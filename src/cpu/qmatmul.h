/* qmatmul.h -- products of 8-bit matrices with exact 32-bit sums: what QMATMUL and QCONV share.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Two forms of the weights B [k, n], packed in panels of cm_qpack.width columns:
 *
 * - dots: signed bytes, four rows of B beside each other, for VPDPBUSD, whose other factor is unsigned:
 *   signed activations and unsigned weights are moved by 128. The sums are of plain bytes; zero
 *   points are brought in afterwards by sums of columns, which are packed too, and of rows.
 * - pairs: 16-bit numbers, two rows of B beside each other, zero points already taken off, for PMADDWD. */
#ifndef CM_CPU_QMATMUL_H
#define CM_CPU_QMATMUL_H

#include "cpu/epilogue.h"
#include "plan/tactic.h"

/* k * 255 * 255 stays below 2^31 up to here. */
enum { CM_QGEMM_MOST_K = 32768 };
/* Limits of a panel's width, a tile's height, and of the rows of one call of a kernel. */
enum { CM_QGEMM_WIDEST = 32, CM_QGEMM_TALLEST = 8, CM_QGEMM_ROWS = 128 };

typedef struct cm_qpack {
    bool dots;     /* else pairs */
    int width;     /* columns of a panel */
    int64_t k, n;  /* of B */
    int64_t runs;  /* k is so many runs of the same length */
    int64_t depth; /* k with each run rounded up to 4 (dots) or 2 (pairs) */
    int64_t panels;
} cm_qpack;

/* The form for a level; `dots` where that has VNNI. */
cm_qpack cm_qpack_of(int level, bool dots, int64_t runs, int64_t length, int64_t n);
size_t cm_qpack_bytes(const cm_qpack *q);
/* Element (l, j) of B is data[row(l) + j * col], row(l) being l * row; with `taps` B is the weights of a
 * convolution, [column][channel][tap] where l counts channels first. Zero point of column j is
 * zero[j * zero_step] (NULL: 0), which only `pairs` takes off. */
typedef struct cm_qmatrix {
    const void *data;
    bool is_signed;
    int64_t row, col;
    int64_t taps, channels; /* taps 0: a matrix */
    const void *zero;
    int64_t zero_step;
} cm_qmatrix;
/* Panels [begin, end). */
void cm_qpack_panels(const cm_qpack *q, const cm_qmatrix *b, void *to, int64_t begin, int64_t end);
const int32_t *cm_qpack_sums(const cm_qpack *q, const void *packed); /* dots: of each column */

/* What becomes of the sums s of row i, column j:
 *   s += add[j] - zero_b[j] * row_sum[i]
 *   SUMS: y = s   REAL: y = float(s) * factor[j] + bias[j]   BYTES: y = round(float(s) * factor[j]) + zero */
typedef enum { CM_QFINISH_SUMS, CM_QFINISH_REAL, CM_QFINISH_BYTES } cm_qfinish_mode;
typedef struct cm_qfinish {
    cm_qfinish_mode mode;
    const int32_t *add, *zero_b; /* a whole number of panels; zero_b NULL: no row sums are wanted */
    const float *factor, *bias;  /* the same; bias NULL: none */
    bool is_signed;              /* BYTES: of y */
    float y_zero;
    void *y;
    int64_t ld;                       /* elements between rows of y */
    const cm_epilogue_plan *epilogue; /* REAL: instead of storing to y; NULL: none */
} cm_qfinish;

/* The rows of A: `lines` of `m` rows each, together at most CM_QGEMM_ROWS, `step` elements apart, lines
 * line_step; a row is `runs` runs of q->depth / runs elements at offsets[] from where the row is, of
 * which `length` count for the sums of rows; what is beyond has weights of 0. Elements are bytes
 * (dots) or 16-bit numbers (pairs). row: of the output, that the first one makes. */
typedef struct cm_qrows {
    const void *a;
    int64_t m, lines, step, line_step;
    int64_t runs, length;
    const int64_t *offsets;
    int64_t row;
} cm_qrows;
/* All rows against panels [begin, end); the first column of the output is that of panel 0. */
typedef void cm_qgemm_fn(const cm_qpack *q, const void *packed, const cm_qrows *a, int64_t begin,
                         int64_t end, const cm_qfinish *f);
cm_qgemm_fn cm_cpu_qgemm_dots__avx512;
cm_qgemm_fn cm_cpu_qgemm_pairs__generic, cm_cpu_qgemm_pairs__avx2, cm_cpu_qgemm_pairs__avx512;
/* A depthwise convolution of n pixels, `step` bytes apart in the image: taps at offsets[] from where a
 * pixel is; weights: 32 bits for each tap and channel, `width` channels, the upper 16 zero. The finish's
 * `y` is that of the first pixel. */
typedef void cm_qdepthwise_fn(const uint8_t *from, int64_t step, int64_t n, int64_t taps,
                              const int64_t *offsets, const int32_t *weights, int64_t channels,
                              int64_t width, bool is_signed, const cm_qfinish *f);
cm_qdepthwise_fn cm_cpu_qdepthwise__generic, cm_cpu_qdepthwise__avx2, cm_cpu_qdepthwise__avx512;

cm_qgemm_fn *cm_qgemm_of(const cm_qpack *q, int level);

/* Bytes made ready as A: signed ones moved by 128 for dots, 16 bits less `zero` for pairs. */
typedef enum { CM_QROW_BYTES, CM_QROW_MOVED, CM_QROW_WIDE } cm_qrow_form;
cm_qrow_form cm_qrow_form_of(const cm_qpack *q, bool is_signed);
typedef void cm_qrow_fn(cm_qrow_form form, bool is_signed, int32_t zero, const void *from,
                        int64_t n, void *to);
cm_qrow_fn cm_cpu_qrow__generic, cm_cpu_qrow__avx2, cm_cpu_qrow__avx512;
cm_qrow_fn *cm_qrow_of(int level);

/* Zero point of B at column j as the sums see it. */
int32_t cm_qzero(const void *zero, int64_t step, int64_t j, bool is_signed);

/* Tables of a run, each n rounded up to whole panels. */
typedef struct cm_qtables {
    int32_t *add, *zero_b;
    float *factor, *bias;
} cm_qtables;
size_t cm_qtables_bytes(const cm_qpack *q);
/* add: bias in units of the sums (NULL: none) and, for dots, what zero points bring; zero_b: NULL in
 * `f` where all are 0. */
void cm_qtables_init(cm_qtables *t, void *memory, const cm_qpack *q, const void *packed,
                     const cm_qmatrix *b, int32_t zero_a, bool a_signed, const int32_t *bias,
                     int64_t bias_step, cm_qfinish *f);

#endif
