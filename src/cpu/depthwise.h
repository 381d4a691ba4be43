/* depthwise.h -- depthwise convolutions: an output row with channels innermost; a plane.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_CPU_DEPTHWISE_H
#define CM_CPU_DEPTHWISE_H

#include "cpu/epilogue.h"

/* The share of the machine's peak that depthwise convolutions reach, about: few products for each element. */
#define CM_DEPTHWISE_PACE 0.35

enum { CM_DEPTHWISE_ROWS = 64 }; /* rows of a window: kernel[0] * kernel[1] */

/* Channels [0, channels) of output pixels [begin, end) of a row. x and w point to channel 0 of column 0, y and
 * residual to that of pixel `begin`. */
typedef struct cm_depthwise_row {
    int n_rows;                        /* of the window that lie inside the input */
    const float *x[CM_DEPTHWISE_ROWS]; /* input rows: pixels x_ld apart */
    const float *w[CM_DEPTHWISE_ROWS]; /* their weights: kernel columns w_ld apart */
    const float *bias;                 /* NULL: none */
    float *y;                          /* pixels y_ld apart */
    int64_t x_ld, w_ld, y_ld;          /* w has whole vectors: w_ld is padded */
    int64_t channels, in;              /* pixels of an input row */
    int64_t begin, end;
    int64_t kernel, stride, dilation, pad; /* along the row */
    const float *residual;                 /* as cm_simple_epilogue, from channel 0 */
    int64_t residual_ld;
    float lo, hi;
} cm_depthwise_row;

/* Two rows of the output at once, one under the other: windows of 3 x 3 or 5 x 5, 1 or 2 apart, no wider than their padding
 * on the left allows (pad <= kernel - stride); w is packed whole, [kernel row][kernel column]. */
typedef struct cm_depthwise_pair {
    const float *x[7]; /* kernel + stride input rows; NULL: outside */
    const float *w, *bias;
    float *y[2];
    int64_t x_ld, w_ld, y_ld;
    int64_t channels, in;
    int64_t begin, end;
    int64_t kernel, stride, pad;
    float lo, hi;
} cm_depthwise_pair;

/* One channel of a row-major depthwise convolution, from a plane with its padding written out
 * (conv_copied.h): column i of row r is
 *     min(hi, max(lo, bias + residual + sum over t < taps of w[t] * x[r * x_row + shift[t] + i])).
 * Reads, and does not use, up to CM_DEPTHWISE_SLACK floats behind the last. */
typedef struct cm_depthwise_plane {
    const float *x, *w;
    const int32_t *shift;
    int64_t taps, x_row;
    float *y;
    const float *residual; /* NULL: none; as y lies */
    int64_t rows, cols;    /* of y, adjacent */
    float bias, lo, hi;
} cm_depthwise_plane;

enum { CM_DEPTHWISE_SLACK = 32 };

void cm_cpu_depthwise_plane_f32__generic(const cm_depthwise_plane *a);
void cm_cpu_depthwise_plane_f32__avx2(const cm_depthwise_plane *a);
void cm_cpu_depthwise_plane_f32__avx512(const cm_depthwise_plane *a);
void cm_cpu_depthwise_row_f32__generic(const cm_depthwise_row *a);
void cm_cpu_depthwise_row_f32__avx2(const cm_depthwise_row *a);
void cm_cpu_depthwise_row_f32__avx512(const cm_depthwise_row *a);
void cm_cpu_depthwise_pair_f32__avx512(const cm_depthwise_pair *a);

#endif
