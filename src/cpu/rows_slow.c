/* rows_slow.c -- statistics in doubles, for rows that float32 cannot square.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "cpu/rows.h"

void cm_norm_slow(const cm_norm *a, const float *x, int64_t x_step, float *y, int64_t y_step,
                  double stats[2])
{
    double mean = 0, square = 0, n = (double)a->n;
    bool by_norm = a->kind == CM_ROWS_L1_NORM || a->kind == CM_ROWS_L2_NORM;
    for (int64_t i = 0; i < a->n && a->kind == CM_ROWS_LAYER_NORM; i++)
        mean += x[i * x_step];
    mean /= n;
    for (int64_t i = 0; i < a->n; i++) {
        double d = x[i * x_step] - mean;
        square += a->kind == CM_ROWS_L1_NORM ? fabs(d) : d * d;
    }
    double by = a->kind == CM_ROWS_L1_NORM   ? square
                : a->kind == CM_ROWS_L2_NORM ? sqrt(square)
                                             : sqrt(square / n + a->epsilon);
    if (by_norm && by < a->epsilon)
        by = a->epsilon;
    for (int64_t i = 0; i < a->n; i++) {
        double v = by_norm && by == 0 ? 0 : (x[i * x_step] - mean) / by;
        y[i * y_step] = (float)(v * (a->scale ? a->scale[i] : 1) + (a->bias ? a->bias[i] : 0));
    }
    if (stats) {
        stats[0] = mean;
        stats[1] = 1 / by;
    }
}

void cm_moments_slow(const float *x, int64_t n, int64_t runs, int64_t step, double out[2])
{
    double sum = 0, square = 0, count = (double)n * (double)runs;
    for (int64_t r = 0; r < runs; r++)
        for (int64_t i = 0; i < n; i++)
            sum += x[r * step + i];
    for (int64_t r = 0; r < runs; r++)
        for (int64_t i = 0; i < n; i++)
            square += (x[r * step + i] - sum / count) * (x[r * step + i] - sum / count);
    out[0] = sum / count;
    out[1] = square;
}

void cm_moments_join(double a[2], double na, const double b[2], double nb)
{
    double apart = b[0] - a[0], n = na + nb;
    a[0] += apart * nb / n;
    a[1] += b[1] + apart * apart * na * nb / n;
}
