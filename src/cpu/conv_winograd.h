/* conv_winograd.h -- the kernels of Winograd convolution, F(m x m, 3 x 3) for m of 2, 4 and 6.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A tile of m x m outputs comes from t x t inputs, t = m + 2, by t * t products instead of 9 * m * m:
 *
 *     Y = A^T [ (G g G^T) * (B^T d B) ] A        * element by element, summed over input channels
 *
 * For all tiles and channels together, each of the t * t positions is one matrix product: V (tiles by
 * input channels) times U (input channels by output channels) gives M (tiles by output channels). U is
 * made when weights are packed; `input` makes V and `output` takes M to the output. The transforms
 * interpolate at the points below, and at infinity; docs/numerics.md has the errors they lead to.
 *
 * Activations are channels-last: [rows][cols][channels]. */
#ifndef CM_CPU_CONV_WINOGRAD_H
#define CM_CPU_CONV_WINOGRAD_H

#include <stdint.h>

/* Points are 0 and plus and minus these, chosen among numbers whose powers are exact in float32 for
 * the least error on random data. */
#define CM_WINOGRAD_2_POINTS 1.0
#define CM_WINOGRAD_4_POINTS 0.625, 1.5
#define CM_WINOGRAD_6_POINTS 0.5, 1.0, 2.0

enum { CM_WINOGRAD_MAX_T = 8, CM_WINOGRAD_FORMS = 3 };

/* Tiles side by side that transforms take at once: input columns shared by two are transformed once. */
static inline int cm_winograd_strip(int m)
{
    return m == 2 ? 12 : m == 4 ? 8 : 4;
}

/* Transforms the inputs of `n` tiles (at most a strip). Outside the image there are zeros. */
typedef struct cm_winograd_input {
    const float *x; /* the image */
    int64_t h, w, c;
    int64_t row, col; /* of the first tile's first input */
    int n;
    float *v;               /* position 0 of the first tile */
    int64_t tile, position; /* strides in v; a tile's channels are rounded up to whole vectors */
} cm_winograd_input;

/* y = min(hi, max(lo, sum + bias[0] + bias[1] + residual)), written where the output is. */
typedef struct cm_winograd_output {
    const float *m; /* position 0 of the first tile */
    int64_t tile, position;
    int n;
    float *y;            /* the image, at the first channel that is written */
    int64_t h, w, pixel; /* pixel: stride from one to the next */
    int64_t channels;    /* to write */
    int64_t row, col;    /* of the first tile's first output */
    const float *bias[2],
        *residual; /* at the first channel, the residual at the image; NULL: none */
    int64_t residual_pixel;
    float lo, hi;
} cm_winograd_output;

/* G g G^T, computed in double, of `n` output channels (the rest of a vector's are zeros). */
typedef struct cm_winograd_weights {
    const float *w; /* [n][c][3][3], output channels `stride` apart */
    int64_t stride, c;
    int n;
    float *u;              /* a vector of output channels for each input channel and position */
    int64_t row, position; /* strides: input channels, positions */
} cm_winograd_weights;

/* One level's kernels; arrays are indexed by m / 2 - 1. */
typedef struct cm_winograd_kernels {
    int width; /* channels in a vector */
    void (*input[CM_WINOGRAD_FORMS])(const cm_winograd_input *a);
    void (*output[CM_WINOGRAD_FORMS])(const cm_winograd_output *a);
    void (*weights[CM_WINOGRAD_FORMS])(const cm_winograd_weights *a);
    /* The same in float32, from w[c][9][nr] to u[position][c][nr]. */
    void (*expand[CM_WINOGRAD_FORMS])(const float *w, int64_t c, int nr, float *u,
                                      int64_t position);
} cm_winograd_kernels;

extern const cm_winograd_kernels cm_cpu_winograd__generic, cm_cpu_winograd__avx2,
    cm_cpu_winograd__avx512;

#endif
