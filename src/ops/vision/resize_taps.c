/* resize_taps.c -- which input positions make one output position of a resized axis, and how much.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops/vision/resize_taps.h"

#include <math.h>

#include "base/size.h"

/* x / scale. Nearest with a given scale divides in the scale's own type, float: whether the
 * quotient falls on a whole number decides which element is taken. */
static double unscale(const cm_resize_axis *a, double x)
{
    if (a->exact)
        return x * (double)a->in / (double)a->out;
    if (a->mode == CM_RESIZE_NEAREST)
        return (float)x / (float)a->scale;
    return x / a->scale;
}

/* The coordinate in the input of output position o. */
static double coordinate(const cm_resize_axis *a, int64_t o)
{
    double x = (double)o, in = (double)a->in, length = a->exact ? (double)a->out : a->scale * in;
    switch (a->coord) {
    case CM_COORD_HALF_PIXEL:
        return unscale(a, x + 0.5) - 0.5;
    case CM_COORD_HALF_PIXEL_SYMMETRIC:
        return in / 2 * (1 - (double)a->out / length) + unscale(a, x + 0.5) - 0.5;
    case CM_COORD_PYTORCH_HALF_PIXEL:
        return a->out > 1 ? unscale(a, x + 0.5) - 0.5 : 0;
    case CM_COORD_ALIGN_CORNERS:
        return length == 1 ? 0 : x * (in - 1) / (length - 1);
    case CM_COORD_ASYMMETRIC:
        return unscale(a, x);
    case CM_COORD_TF_HALF_PIXEL_FOR_NN:
        return unscale(a, x + 0.5);
    case CM_COORD_TF_CROP_AND_RESIZE:
        if (a->out <= 1)
            return 0.5 * (a->start + a->end) * (in - 1);
        return a->start * (in - 1) + x * (a->end - a->start) * (in - 1) / (double)(a->out - 1);
    }
    return 0;
}

/* `x` as an index in [0, n); NaN becomes 0. */
static int64_t clamp(double x, int64_t n)
{
    return x >= (double)(n - 1) ? n - 1 : x > 0 ? (int64_t)x : 0;
}

static int64_t nearest_index(const cm_resize_axis *a, double x)
{
    switch (a->nearest) {
    case CM_ROUND_PREFER_FLOOR:
        return clamp(ceil(x - 0.5), a->in);
    case CM_ROUND_PREFER_CEIL:
        return clamp(floor(x + 0.5), a->in);
    case CM_ROUND_FLOOR:
        return clamp(floor(x), a->in);
    case CM_ROUND_CEIL:
        return clamp(ceil(x), a->in);
    }
    return 0;
}

/* The interpolating filter at distance d from its centre. */
static double filter(const cm_resize_axis *a, double d)
{
    d = fabs(d);
    if (a->mode == CM_RESIZE_LINEAR)
        return d < 1 ? 1 - d : 0;
    double k = a->cubic_a;
    if (d <= 1)
        return ((k + 2) * d - (k + 3)) * d * d + 1;
    return d < 2 ? ((k * d - 5 * k) * d + 8 * k) * d - 4 * k : 0;
}

/* Weights of taps first, first + 1, ... around x, those outside put on the edge or left out; the
 * sum is made 1 where a filter was stretched or taps were left out. */
static void weigh(const cm_resize_axis *a, double x, double stretch, double first, int64_t n,
                  int64_t *index, double *weight)
{
    double sum = 0;
    for (int64_t t = 0; t < n; t++) {
        double at = first + (double)t;
        bool inside = at >= 0 && at <= (double)(a->in - 1);
        index[t] = clamp(at, a->in);
        weight[t] = a->exclude_outside && !inside ? 0 : filter(a, (at - x) * stretch);
        sum += weight[t];
    }
    if (!(a->antialias || a->exclude_outside) || sum == 0)
        return;
    for (int64_t t = 0; t < n; t++)
        weight[t] /= sum;
}

cm_status cm_taps_build(cm_eval *e, const cm_resize_axis *a, cm_taps *out)
{
    double stretch = a->antialias && a->scale < 1 ? a->scale : 1;
    double radius = (a->mode == CM_RESIZE_CUBIC ? 2 : 1) / stretch;
    if (!(radius < 1e9))
        return cm_fail(e->cx, CM_ERR_DATA, "scale %g is too small to filter with", a->scale);
    out->n = a->mode == CM_RESIZE_NEAREST ? 1 : 2 * (int64_t)ceil(radius);
    int64_t total;
    if (!cm_mul_i64(a->out, out->n, &total))
        return cm_fail_memory(e->cx);
    void *p;
    CM_TRY(cm_eval_scratch(e, (size_t)total, sizeof *out->index, &p));
    out->index = p;
    CM_TRY(cm_eval_scratch(e, (size_t)total, sizeof *out->weight, &p));
    out->weight = p;
    CM_TRY(cm_eval_scratch(e, (size_t)a->out, sizeof *out->outside, &p));
    out->outside = p;
    for (int64_t o = 0; o < a->out; o++) {
        double x = coordinate(a, o);
        out->outside[o] =
            a->coord == CM_COORD_TF_CROP_AND_RESIZE && !(x >= 0 && x <= (double)(a->in - 1));
        int64_t *index = out->index + o * out->n;
        double *weight = out->weight + o * out->n;
        if (a->mode == CM_RESIZE_NEAREST) {
            index[0] = nearest_index(a, x);
            weight[0] = 1;
        } else if (!out->outside[o]) {
            weigh(a, x, stretch, floor(x) + 1 - (double)(out->n / 2), out->n, index, weight);
        }
    }
    return CM_OK;
}
