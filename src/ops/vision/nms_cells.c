/* nms_cells.c -- kept boxes in cells along x, so that few are compared, and those sixteen at a time.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A box is in the cell of its x0. The number of a cell grows with x, whatever is rounded, so that boxes
 * a and b which share some width (a.x0 < b.x1 and b.x0 < a.x1) have
 *     cell(a.x0) <= cell(b.x1)   and   cell(b.x0) <= cell(a.x1)
 * and all others need not be compared: without an intersection nothing exceeds a threshold >= 0. */
#include "ops/vision/nms_cells.h"

#include <string.h>

#include "base/size.h"

enum { LANES = 16, MAX_CELLS = 1024 };

/* Lanes without a box are zero: no width, so they intersect nothing. */
struct cm_nms_block {
    float y0[LANES], x0[LANES], y1[LANES], x1[LANES], area[LANES];
};

struct cm_nms_cell {
    int64_t n_planned, n_added, first_block;
    int furthest; /* cell of any x1 of those added; -1: none was */
};

cm_status cm_nms_cells_alloc(cm_eval *e, int64_t n, cm_nms_cells *c)
{
    void *p;
    *c = (cm_nms_cells){.max_cells = (int)cm_min_i64(MAX_CELLS, n / LANES + 1)};
    CM_TRY(cm_eval_scratch(e, (size_t)c->max_cells, sizeof *c->cells, &p));
    c->cells = p;
    /* in each cell the last block may have lanes left over */
    CM_TRY(cm_eval_scratch(e, (size_t)(n / LANES) + (size_t)c->max_cells, sizeof *c->blocks, &p));
    c->blocks = p;
    return CM_OK;
}

static int cell_of(const cm_nms_cells *c, float x)
{
    double at = ((double)x - c->lo) * c->per_x;
    return at >= c->n_cells ? c->n_cells - 1 : at > 0 ? (int)at : 0;
}

/* Cells as wide as the boxes are on average. */
static void measure(cm_nms_cells *c, const cm_nms_box *boxes, int64_t n)
{
    double lo = INFINITY, hi = -INFINITY, widths = 0;
    int64_t n_plain = 0;
    for (int64_t i = 0; i < n; i++) {
        const cm_nms_box *b = &boxes[i];
        if (!cm_nms_is_plain(b))
            continue;
        lo = b->x0 < lo ? b->x0 : lo;
        hi = b->x0 > hi ? b->x0 : hi;
        widths += fabs((double)b->x1 - b->x0);
        n_plain++;
    }
    double range = n_plain > 0 ? hi - lo : 0, wanted = c->max_cells;
    if (range * (double)n_plain < widths * wanted)
        wanted = 1 + range * (double)n_plain / widths;
    c->n_cells = (int)fmin(wanted, c->max_cells);
    c->lo = n_plain > 0 ? lo : 0;
    c->per_x = range > 0 ? c->n_cells / range : 0;
}

void cm_nms_cells_plan(cm_nms_cells *c, const cm_nms_box *boxes, int64_t n)
{
    measure(c, boxes, n);
    for (int i = 0; i < c->n_cells; i++)
        c->cells[i].n_planned = 0;
    for (int64_t i = 0; i < n; i++)
        if (cm_nms_is_plain(&boxes[i]))
            c->cells[cell_of(c, boxes[i].x0)].n_planned++;
    int64_t n_blocks = 0;
    for (int i = 0; i < c->n_cells; i++) {
        c->cells[i].first_block = n_blocks;
        n_blocks += cm_ceil_div(c->cells[i].n_planned, LANES);
    }
}

void cm_nms_cells_clear(cm_nms_cells *c)
{
    c->reach = 0;
    for (int i = 0; i < c->n_cells; i++) {
        c->cells[i].n_added = 0;
        c->cells[i].furthest = -1;
    }
}

void cm_nms_cells_add(cm_nms_cells *c, const cm_nms_box *b)
{
    int at = cell_of(c, b->x0), end = cell_of(c, b->x1);
    cm_nms_cell *cell = &c->cells[at];
    int lane = (int)(cell->n_added % LANES);
    cm_nms_block *k = &c->blocks[cell->first_block + cell->n_added / LANES];
    if (lane == 0)
        memset(k, 0, sizeof *k);
    k->y0[lane] = b->y0;
    k->x0[lane] = b->x0;
    k->y1[lane] = b->y1;
    k->x1[lane] = b->x1;
    k->area[lane] = b->area;
    cell->n_added++;
    cell->furthest = end > cell->furthest ? end : cell->furthest;
    c->reach = end - at > c->reach ? end - at : c->reach;
}

static inline float lesser(float a, float b)
{
    return a < b ? a : b;
}
static inline float greater(float a, float b)
{
    return a > b ? a : b;
}

/* Whether cm_nms_overlap may hold for some lane: it holds only where both > threshold * either, and
 * rounding, which keeps order, can make these equal but not turn them round. */
static bool may_hide(const cm_nms_block *k, const cm_nms_box *b, float threshold)
{
    float y0 = b->y0, x0 = b->x0, y1 = b->y1, x1 = b->x1, area = b->area;
    int any = 0;
    for (int i = 0; i < LANES; i++) {
        float height = lesser(k->y1[i], y1) - greater(k->y0[i], y0);
        float width = lesser(k->x1[i], x1) - greater(k->x0[i], x0);
        float both = greater(height, 0) * greater(width, 0);
        float either = area + k->area[i] - both;
        any |= (both > 0) & (both >= threshold * either);
    }
    return any != 0;
}

static bool block_hides(const cm_nms_block *k, const cm_nms_box *b, float threshold)
{
    for (int i = 0; i < LANES; i++) {
        cm_nms_box other = {k->y0[i], k->x0[i], k->y1[i], k->x1[i], k->area[i]};
        if (cm_nms_overlap(b, &other, threshold))
            return true;
    }
    return false;
}

static bool cell_hides(const cm_nms_cells *c, const cm_nms_cell *cell, const cm_nms_box *b,
                       float threshold)
{
    const cm_nms_block *k = &c->blocks[cell->first_block];
    for (int64_t i = 0; i < cell->n_added; i += LANES, k++)
        if (may_hide(k, b, threshold) && block_hides(k, b, threshold))
            return true;
    return false;
}

bool cm_nms_cells_hide(const cm_nms_cells *c, const cm_nms_box *b, float threshold)
{
    int begin = cell_of(c, b->x0), end = cell_of(c, b->x1);
    for (int i = begin > c->reach ? begin - c->reach : 0; i <= end; i++)
        if (c->cells[i].furthest >= begin && cell_hides(c, &c->cells[i], b, threshold))
            return true;
    return false;
}
