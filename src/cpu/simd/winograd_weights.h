/* winograd_weights.h -- weights into the Winograd domain, G g G^T, in double.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_CPU_SIMD_WINOGRAD_WEIGHTS_H
#define CM_CPU_SIMD_WINOGRAD_WEIGHTS_H

#include "cpu/conv_winograd.h"
#include "cpu/simd/vec.h"

/* G: row j of a point p holds 1, p, p^2 over the product of p's distances to the other points;
 * the last row, for infinity, 0 0 1. Rows as the input's transform orders them. */
static void weights_matrix(int m, double g[CM_WINOGRAD_MAX_T][3])
{
    static const double all[CM_WINOGRAD_FORMS][3] = {
        {CM_WINOGRAD_2_POINTS}, {CM_WINOGRAD_4_POINTS}, {CM_WINOGRAD_6_POINTS}};
    double p[CM_WINOGRAD_MAX_T] = {0};
    int n = m + 1;
    for (int i = 1; i < n; i += 2) {
        p[i] = all[m / 2 - 1][i / 2];
        p[i + 1] = -p[i];
    }
    for (int j = 0; j < n; j++) {
        double f = 1;
        for (int l = 0; l < n; l++)
            if (l != j)
                f *= p[j] - p[l];
        g[j][0] = 1 / f;
        g[j][1] = p[j] / f;
        g[j][2] = p[j] * p[j] / f;
    }
    g[n][0] = g[n][1] = 0;
    g[n][2] = 1;
}

/* One input channel: w[9][VW] to t * t vectors. */
VINLINE void weights_channel(int t, double g[CM_WINOGRAD_MAX_T][3], double w[9][VW], float *u,
                             int64_t position)
{
    for (int i = 0; i < t; i++) {
        double half[3][VW];
        for (int j = 0; j < 3; j++)
            for (int o = 0; o < VW; o++)
                half[j][o] = g[i][0] * w[j][o] + g[i][1] * w[3 + j][o] + g[i][2] * w[6 + j][o];
        for (int j = 0; j < t; j++)
            for (int o = 0; o < VW; o++)
                u[(i * t + j) * position + o] =
                    (float)(g[j][0] * half[0][o] + g[j][1] * half[1][o] + g[j][2] * half[2][o]);
    }
}

VINLINE void transform_weights(int m, const cm_winograd_weights *a)
{
    double g[CM_WINOGRAD_MAX_T][3], block[9][VW] = {{0}};
    weights_matrix(m, g);
    for (int64_t l = 0; l < a->c; l++) {
        for (int o = 0; o < a->n; o++)
            for (int i = 0; i < 9; i++)
                block[i][o] = a->w[o * a->stride + l * 9 + i];
        weights_channel(m + 2, g, block, a->u + l * a->row, a->position);
    }
}

static void weights_2(const cm_winograd_weights *a)
{
    transform_weights(2, a);
}
static void weights_4(const cm_winograd_weights *a)
{
    transform_weights(4, a);
}
static void weights_6(const cm_winograd_weights *a)
{
    transform_weights(6, a);
}

/* What a point p of G's rows +p and -p is made of: 1 / f, p / f, p^2 / f. */
typedef struct weights_point {
    vf one, p, square;
} weights_point;

/* G g along one axis; points[0] is 0. */
VINLINE void expand_line(int m, const weights_point *points, const vf *g, vf *o)
{
    o[0] = vf_mul(points[0].one, g[0]);
#pragma GCC unroll 3
    for (int i = 1; i <= m / 2; i++) {
        vf even = vf_fma(points[i].square, g[2], vf_mul(points[i].one, g[0]));
        vf odd = vf_mul(points[i].p, g[1]);
        o[2 * i - 1] = vf_add(even, odd);
        o[2 * i] = vf_sub(even, odd);
    }
    o[m + 1] = g[2];
}

VINLINE void expand_weights(int m, const float *w, int64_t c, int nr, float *u, int64_t position)
{
    const int t = m + 2;
    double g[CM_WINOGRAD_MAX_T][3];
    weights_point points[4];
    weights_matrix(m, g);
#pragma GCC unroll 4
    for (int i = 0; i <= m / 2; i++) {
        const double *row = g[i ? 2 * i - 1 : 0];
        points[i] =
            (weights_point){vf_set((float)row[0]), vf_set((float)row[1]), vf_set((float)row[2])};
    }
    for (int64_t l = 0; l < c; l++)
        for (int o = 0; o < nr; o += VW) {
            vf half[CM_WINOGRAD_MAX_T][3];
            const float *from = w + l * 9 * nr + o;
            float *to = u + l * nr + o;
#pragma GCC unroll 3
            for (int j = 0; j < 3; j++) {
                vf d[3] = {vf_load(from + j * nr), vf_load(from + (3 + j) * nr),
                           vf_load(from + (6 + j) * nr)};
                vf line[CM_WINOGRAD_MAX_T];
                expand_line(m, points, d, line);
#pragma GCC unroll 8
                for (int i = 0; i < t; i++)
                    half[i][j] = line[i];
            }
#pragma GCC unroll 8
            for (int i = 0; i < t; i++) {
                vf line[CM_WINOGRAD_MAX_T];
                expand_line(m, points, half[i], line);
#pragma GCC unroll 8
                for (int j = 0; j < t; j++)
                    vf_store(to + (i * t + j) * position, line[j]);
            }
        }
}

static void expand_2(const float *w, int64_t c, int nr, float *u, int64_t position)
{
    expand_weights(2, w, c, nr, u, position);
}
static void expand_4(const float *w, int64_t c, int nr, float *u, int64_t position)
{
    expand_weights(4, w, c, nr, u, position);
}
static void expand_6(const float *w, int64_t c, int nr, float *u, int64_t position)
{
    expand_weights(6, w, c, nr, u, position);
}

#endif
