/* sample_taps.c -- SAMPLE: the elements that one place blends, and their weights.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/sample.h"

#include <math.h>

enum { MOST = 4 }; /* taps along an axis */

/* The bounds between which coordinates are inside. */
static void bounds(const cm_sample *s, int d, double *low, double *high)
{
    *low = s->align_corners ? 0 : -0.5;
    *high = (double)s->in[d] - (s->align_corners ? 1 : 0.5);
}

/* x mirrored at low and high until it lies between them. */
static double reflect(double x, double low, double high)
{
    double range = high - low;
    if (x >= low && x <= high)
        return x;
    if (!(range > 0) || !isfinite(x))
        return low;
    double over = x < low ? low - x : x - high;
    double times = floor(over / range), rest = over - times * range;
    bool even = fmod(times, 2) == 0;
    return (x < low) == even ? low + rest : high - rest;
}

/* The element that tap position `at` reads; -1: a zero. */
static int64_t tap_index(const cm_sample *s, int d, double at)
{
    double low, high, last = (double)(s->in[d] - 1);
    if (at >= 0 && at <= last)
        return (int64_t)at;
    if (s->padding == CM_SAMPLE_ZEROS)
        return -1;
    bounds(s, d, &low, &high);
    if (s->padding == CM_SAMPLE_REFLECTION)
        at = reflect(at, low, high);
    return at >= last ? (int64_t)last : at > 0 ? (int64_t)at : 0;
}

static double cubic(double d)
{
    const double a = -0.75;
    if (d <= 1)
        return ((a + 2) * d - (a + 3)) * d * d + 1;
    return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
}

/* The taps along axis d for coordinate g. */
static void axis_taps(const cm_sample *s, int d, double g, int64_t *index, double *weight)
{
    double size = (double)s->in[d], low, high;
    double x = s->align_corners ? (g + 1) / 2 * (size - 1) : ((g + 1) * size - 1) / 2;
    bounds(s, d, &low, &high);
    if (s->taps == 1)
        x = rint(x);
    const bool leaves = !(x >= low && x <= high);
    if (leaves && s->padding == CM_SAMPLE_BORDER && s->taps < 4)
        x = x > 0 ? fmin(x, size - 1) : 0;
    else if (leaves && s->padding == CM_SAMPLE_REFLECTION)
        x = reflect(x, low, high);
    double first = s->taps == 1 ? x : floor(x) - (s->taps == 4);
    for (int t = 0; t < s->taps; t++) {
        double at = first + t, away = fabs(at - x);
        index[t] = tap_index(s, d, at);
        weight[t] = s->taps == 1 ? 1 : s->taps == 2 ? 1 - away : cubic(away);
    }
}

/* All combinations of the taps of each axis that exist. */
static int combine(const cm_sample *s, int64_t at[][MOST], double w[][MOST], int32_t *index,
                   float *weight)
{
    int n = 0, count = 1;
    for (int d = 0; d < s->axes; d++)
        count *= s->taps;
    for (int i = 0; i < count; i++) {
        int64_t offset = 0, step = 1;
        double product = 1;
        int rest = i;
        for (int d = s->axes - 1; d >= 0; d--, rest /= s->taps) {
            const int t = rest % s->taps;
            offset = offset < 0 || at[d][t] < 0 ? -1 : offset + at[d][t] * step;
            product *= w[d][t];
            step *= s->in[d];
        }
        if (offset < 0)
            continue;
        index[n] = (int32_t)offset;
        weight[n++] = (float)product;
    }
    return n;
}

int cm_sample_rim_taps(const cm_sample *s, const float *g, int32_t *index, float *weight)
{
    int64_t at[CM_SAMPLE_AXES][MOST];
    double w[CM_SAMPLE_AXES][MOST];
    for (int d = 0; d < s->axes; d++)
        axis_taps(s, d, g[d], at[d], w[d]);
    return combine(s, at, w, index, weight);
}

void cm_sample_inside_weights(const cm_sample *s, const cm_sample_run *run, int i, float *weight)
{
    int n = 1;
    weight[0] = 1;
    for (int d = 0; d < s->axes; d++, n *= s->taps) {
        const float f = run->part[d][i];
        float w[MOST] = {1 - f, f};
        for (int t = 0; t < s->taps && s->taps != 2; t++)
            w[t] = s->taps == 1 ? 1 : (float)cubic(fabs((t - 1) - (double)f));
        for (int k = n - 1; k >= 0; k--) {
            const float whole = weight[k];
            for (int t = 0; t < s->taps; t++)
                weight[k * s->taps + t] = whole * w[t];
        }
    }
}
