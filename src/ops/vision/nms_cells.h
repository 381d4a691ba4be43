/* nms_cells.h -- boxes of NonMaxSuppression, and the kept ones of them in cells along x.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A candidate is compared only with the boxes of cells that can reach it, sixteen at a time. The answers
 * are those of cm_nms_overlap with each of the boxes added. */
#ifndef CM_OPS_NMS_CELLS_H
#define CM_OPS_NMS_CELLS_H

#include <math.h>

#include "ops/eval.h"

typedef struct {
    float y0, x0, y1, x1, area;
} cm_nms_box;

/* Whether all its numbers are finite: with any that is not, the area is infinite or NaN. */
static inline bool cm_nms_is_plain(const cm_nms_box *b)
{
    return isfinite(b->area);
}

/* As fminf and fmaxf, without a call. */
static inline float cm_nms_least(float a, float b)
{
    return a < b || b != b ? a : b;
}
static inline float cm_nms_most(float a, float b)
{
    return a > b || b != b ? a : b;
}

/* Whether intersection over union is greater than the threshold. */
static inline bool cm_nms_overlap(const cm_nms_box *a, const cm_nms_box *b, float threshold)
{
    float height = cm_nms_least(a->y1, b->y1) - cm_nms_most(a->y0, b->y0);
    float width = cm_nms_least(a->x1, b->x1) - cm_nms_most(a->x0, b->x0);
    float both = cm_nms_most(height, 0) * cm_nms_most(width, 0);
    if (both <= 0 && threshold >= 0)
        return false;
    float either = a->area + b->area - both;
    if (a->area <= 0 || b->area <= 0 || either <= 0)
        return false;
    return both / either > threshold;
}

typedef struct cm_nms_cell cm_nms_cell;
typedef struct cm_nms_block cm_nms_block;

typedef struct {
    double lo, per_x; /* x is in cell (x - lo) * per_x */
    int n_cells, max_cells;
    int reach; /* so many cells, at most, does a box extend beyond that of its x0 */
    cm_nms_cell *cells;
    cm_nms_block *blocks;
} cm_nms_cells;

/* Scratch memory for cells of up to n boxes. */
cm_status cm_nms_cells_alloc(cm_eval *e, int64_t n, cm_nms_cells *c) CM_MUST_USE;

/* Lay cells out for the plain ones of these boxes. */
void cm_nms_cells_plan(cm_nms_cells *c, const cm_nms_box *boxes, int64_t n);

/* No box is in the cells any more; to be called before the first is added. */
void cm_nms_cells_clear(cm_nms_cells *c);

/* Both take plain boxes of those planned for; each is added no more than once; threshold >= 0. */
void cm_nms_cells_add(cm_nms_cells *c, const cm_nms_box *b);
bool cm_nms_cells_hide(const cm_nms_cells *c, const cm_nms_box *b, float threshold);

#endif
