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

#endif
