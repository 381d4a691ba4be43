/* roi_patch.h -- RoiAlign's samples, and regions whose samples are few: these are placed once, not once
 * per channel, and the pixels they read are gathered, several channels side by side.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_OPS_ROI_PATCH_H
#define CM_OPS_ROI_PATCH_H

#include <math.h>

#include "base/size.h"
#include "ops/eval.h"

/* One axis of a region: cells of one length, each with n samples, over pixels [0, size). */
typedef struct {
    double start, cell;
    int64_t n_cells, n, size;
} cm_roi_axis;

/* Samples along one axis of one cell: their positions are from + (i + 0.5) * step. All that are within [-1, size] are in
 * [first, end); the others read as 0. */
typedef struct {
    double from, step;
    int64_t n, first, end;
} cm_roi_samples;

static inline cm_roi_samples cm_roi_cell_samples(const cm_roi_axis *a, int64_t index)
{
    cm_roi_samples s = {.from = a->start + (double)index * a->cell,
                        .step = a->cell / (double)a->n,
                        .n = a->n,
                        .end = a->n};
    double low = (-1 - s.from) / s.step - 2, high = ((double)a->size - s.from) / s.step + 2;
    if (s.step > 0 && low > 0) /* a region may be much larger than the image */
        s.first = (int64_t)fmin(low, (double)a->n);
    if (s.step > 0 && high < (double)a->n)
        s.end = cm_max_i64((int64_t)high, s.first);
    return s;
}

/* Of sample i two neighbours and the upper's share. -1: outside of [-1, size]. */
static inline double cm_roi_neighbours(const cm_roi_samples *s, int64_t i, int64_t size,
                                       int64_t *low, int64_t *high)
{
    double at = s->from + ((double)i + 0.5) * s->step;
    if (!(at >= -1 && at <= (double)size))
        return -1;
    at = at <= 0 ? 0 : at;
    *low = (int64_t)at;
    if (*low >= size - 1) {
        *low = *high = size - 1;
        return 0;
    }
    *high = *low + 1;
    return at - (double)*low;
}

/* As fmax, without a call. */
static inline double cm_roi_most(double a, double b)
{
    return a > b || b != b ? a : b;
}

/* What regions need of a thread's memory, at most. */
typedef struct {
    int64_t samples, slots, cells; /* along either axis */
    int64_t pixels;
    int64_t size; /* the longer axis of an image */
} cm_roi_needs;

/* Whether a region of these axes has few samples; if so *needs grows to what it needs. */
bool cm_roi_is_small(const cm_roi_axis *rows, const cm_roi_axis *columns, cm_roi_needs *needs);

/* Memory of one thread. */
typedef struct cm_roi_patch cm_roi_patch;
cm_status cm_roi_patch_alloc(cm_eval *e, const cm_roi_needs *needs, cm_roi_patch **out) CM_MUST_USE;

/* Region `region` of image `image` into y; stops early when cx is cancelled. */
typedef struct {
    const cm_ctx *cx;
    const cm_tensor *x;
    cm_tensor *y;
    bool max_mode;
} cm_roi_images;
void cm_roi_patch_run(cm_roi_patch *p, const cm_roi_images *m, const cm_roi_axis *rows,
                      const cm_roi_axis *columns, int64_t image, int64_t region);

#endif
