/* dot.h -- the inner product that evaluators share: four partial sums, in a fixed order.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_OPS_DOT_H
#define CM_OPS_DOT_H

#include <stdint.h>

static inline double cm_dot_f64(const double *a, const double *b, int64_t n)
{
    double s[4] = {0, 0, 0, 0};
    int64_t i = 0;
    for (; i + 4 <= n; i += 4)
        for (int j = 0; j < 4; j++)
            s[j] += a[i + j] * b[i + j];
    for (; i < n; i++)
        s[0] += a[i] * b[i];
    return (s[0] + s[1]) + (s[2] + s[3]);
}

/* y += a * x */
static inline void cm_axpy_f64(double a, const double *x, double *y, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] += a * x[i];
}

#endif
