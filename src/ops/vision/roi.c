/* roi.c -- RoiAlign and MaxRoiPool: a grid of cells over regions of images.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops/eval.h"

#include <math.h>

#include "base/size.h"
#include "ops/vision/roi_patch.h"

typedef struct {
    uint64_t present;
    cm_str coordinate_transformation_mode, mode;
    int64_t output_height, output_width, sampling_ratio;
    float spatial_scale;
} align_attr;

typedef struct {
    uint64_t present;
    cm_ints pooled_shape;
    float spatial_scale;
} max_attr;

CM_ATTRS(roi_align, align_attr,
         CM_ATTR_STR(align_attr, coordinate_transformation_mode, "half_pixel"),
         CM_ATTR_STR(align_attr, mode, "avg"), CM_ATTR_INT(align_attr, output_height, 1),
         CM_ATTR_INT(align_attr, output_width, 1), CM_ATTR_INT(align_attr, sampling_ratio, 0),
         CM_ATTR_FLOAT(align_attr, spatial_scale, 1))
CM_ATTRS(max_roi_pool, max_attr, CM_ATTR_INTS(max_attr, pooled_shape, CM_REQUIRED),
         CM_ATTR_FLOAT(max_attr, spatial_scale, 1))

static bool is(cm_str s, const char *word)
{
    return cm_str_equal(s, cm_str_of(word));
}

static cm_status check_align(cm_infer *f)
{
    const align_attr *a = f->attr;
    if (!is(a->mode, "avg") && !is(a->mode, "max"))
        return cm_fail(f->cx, CM_ERR_MODEL, "mode is '%.*s', wanted avg or max",
                       (int)(a->mode.n < 40 ? a->mode.n : 40), a->mode.p);
    cm_str c = a->coordinate_transformation_mode;
    if (!is(c, "half_pixel") && !is(c, "output_half_pixel"))
        return cm_fail(f->cx, CM_ERR_MODEL,
                       "coordinate_transformation_mode is '%.*s', wanted half_pixel or "
                       "output_half_pixel",
                       (int)(c.n < 40 ? c.n : 40), c.p);
    if (a->sampling_ratio < 0 || a->sampling_ratio > 1 << 20)
        return cm_fail(f->cx, CM_ERR_MODEL, "sampling_ratio is %lld", (long long)a->sampling_ratio);
    if (!cm_infer_ranked(f, 2))
        return CM_OK;
    if (cm_infer_rank(f, 2) != 1)
        return cm_fail(f->cx, CM_ERR_MODEL, "batch_indices has rank %d, wanted 1",
                       cm_infer_rank(f, 2));
    if (cm_infer_ranked(f, 1) && cm_infer_rank(f, 1) == 2)
        return cm_infer_equal(f, "batch_indices for the regions", cm_infer_dim(f, 2, 0),
                              cm_infer_dim(f, 1, 0));
    return CM_OK;
}

static cm_status infer(cm_infer *f)
{
    bool align = f->op->id == CM_OP_ROI_ALIGN;
    int64_t height, width;
    if (align) {
        const align_attr *a = f->attr;
        CM_TRY(check_align(f));
        height = a->output_height, width = a->output_width;
    } else {
        const max_attr *a = f->attr;
        if (a->pooled_shape.n != 2)
            return cm_fail(f->cx, CM_ERR_MODEL, "pooled_shape has %lld entries, wanted 2",
                           (long long)a->pooled_shape.n);
        height = a->pooled_shape.v[0], width = a->pooled_shape.v[1];
    }
    if (height < 1 || width < 1)
        return cm_fail(f->cx, CM_ERR_MODEL, "output of %lld by %lld, wanted at least 1 by 1",
                       (long long)height, (long long)width);
    if ((cm_infer_ranked(f, 0) && cm_infer_rank(f, 0) != 4) ||
        (cm_infer_ranked(f, 1) && cm_infer_rank(f, 1) != 2))
        return cm_fail(f->cx, CM_ERR_MODEL,
                       "input of rank %d and regions of rank %d, wanted 4 and 2",
                       cm_infer_rank(f, 0), cm_infer_rank(f, 1));
    if (!cm_infer_ranked(f, 0) || !cm_infer_ranked(f, 1)) {
        cm_infer_unknown(f, 0);
        return CM_OK;
    }
    CM_TRY(cm_infer_equal(f, "numbers of a region", cm_infer_dim(f, 1, 1), align ? 4 : 5));
    cm_dim dims[4] = {cm_infer_dim(f, 1, 0), cm_infer_dim(f, 0, 1), height, width};
    return cm_infer_tensor(f, 0, 4, dims);
}

typedef struct {
    const cm_ctx *cx;
    const void *attr;
    const double *x, *rois; /* RoiAlign has x only where a region has many samples */
    const int64_t *batch;   /* image of each region */
    cm_roi_images images;
    cm_roi_patch **patches; /* one per thread */
    int64_t channels, height, width;
    cm_tensor *y;
} job;

static double cell_value(const job *j, const double *x, const cm_roi_samples *v,
                         const cm_roi_samples *h)
{
    bool max_mode = j->images.max_mode, any = false;
    double sum = 0, best = 0;
    if (v->first > 0 || v->end < v->n || h->first > 0 || h->end < h->n)
        any = true; /* a sample that reads as 0 */
    for (int64_t i = v->first; i < v->end; i++) {
        if (i % 64 == 63 && cm_is_cancelled(j->cx))
            break;
        int64_t y0 = 0, y1 = 0, x0 = 0, x1 = 0;
        double fy = cm_roi_neighbours(v, i, j->height, &y0, &y1);
        for (int64_t k = h->first; k < h->end; k++) {
            double fx = cm_roi_neighbours(h, k, j->width, &x0, &x1);
            if (fy < 0 || fx < 0) {
                best = any && best > 0 ? best : 0;
                any = true;
                continue;
            }
            double p[4] = {(1 - fy) * (1 - fx) * x[y0 * j->width + x0],
                           (1 - fy) * fx * x[y0 * j->width + x1],
                           fy * (1 - fx) * x[y1 * j->width + x0], fy * fx * x[y1 * j->width + x1]};
            sum += p[0] + p[1] + p[2] + p[3];
            double top = cm_roi_most(cm_roi_most(p[0], p[1]), cm_roi_most(p[2], p[3]));
            best = any && best > top ? best : top;
            any = true;
        }
    }
    return max_mode ? best : sum / (double)(v->n * h->n);
}

/* The grid of region r. */
static void region_axes(const job *j, int64_t r, cm_roi_axis *rows, cm_roi_axis *columns)
{
    const align_attr *a = j->attr;
    const double *roi = j->rois + r * 4;
    bool half = is(a->coordinate_transformation_mode, "half_pixel");
    double scale = a->spatial_scale, shift = half ? 0.5 : 0;
    double left = roi[0] * scale - shift, top = roi[1] * scale - shift;
    double width = roi[2] * scale - shift - left, height = roi[3] * scale - shift - top;
    if (!half) {
        width = fmax(width, 1);
        height = fmax(height, 1);
    }
    int64_t ratio = a->sampling_ratio;
    double cell_h = height / (double)a->output_height, cell_w = width / (double)a->output_width;
    *rows = (cm_roi_axis){.start = top,
                          .cell = cell_h,
                          .n_cells = a->output_height,
                          .n = ratio ? ratio : (int64_t)fmax(ceil(cell_h), 1),
                          .size = j->height};
    *columns = (cm_roi_axis){.start = left,
                             .cell = cell_w,
                             .n_cells = a->output_width,
                             .n = ratio ? ratio : (int64_t)fmax(ceil(cell_w), 1),
                             .size = j->width};
}

static void align_large(const job *j, const cm_roi_axis *rows, const cm_roi_axis *columns,
                        int64_t r)
{
    int64_t plane = j->height * j->width, cells = rows->n_cells * columns->n_cells;
    for (int64_t c = 0; c < j->channels; c++) {
        const double *x = j->x + (j->batch[r] * j->channels + c) * plane;
        for (int64_t i = 0; i < cells && !cm_is_cancelled(j->cx); i++) {
            cm_roi_samples v = cm_roi_cell_samples(rows, i / columns->n_cells);
            cm_roi_samples h = cm_roi_cell_samples(columns, i % columns->n_cells);
            cm_set_f64(j->y->dtype, j->y->data, (r * j->channels + c) * cells + i,
                       cell_value(j, x, &v, &h));
        }
    }
}

static void align_regions(void *arg, int thread, int64_t begin, int64_t end)
{
    const job *j = arg;
    for (int64_t r = begin; r < end; r++) {
        cm_roi_axis rows, columns;
        cm_roi_needs unused = {0};
        region_axes(j, r, &rows, &columns);
        if (cm_roi_is_small(&rows, &columns, &unused))
            cm_roi_patch_run(j->patches[thread], &j->images, &rows, &columns, j->batch[r], r);
        else
            align_large(j, &rows, &columns, r);
    }
}

static cm_status align(cm_eval *e, job *j, int64_t n)
{
    const align_attr *a = e->attr;
    cm_roi_needs needs = {0};
    cm_roi_axis rows, columns;
    bool all_small = true;
    for (int64_t r = 0; r < n; r++) {
        region_axes(j, r, &rows, &columns);
        all_small = cm_roi_is_small(&rows, &columns, &needs) && all_small;
    }
    if (!all_small)
        CM_TRY(cm_eval_as_f64(e, 0, &j->x));
    j->images = (cm_roi_images){j->cx, cm_eval_in(e, 0), j->y, is(a->mode, "max")};
    int threads = (int)cm_min_i64(n, cm_threads_count(e->threads));
    void *p;
    CM_TRY(cm_eval_scratch(e, (size_t)threads, sizeof *j->patches, &p));
    j->patches = p;
    for (int t = 0; t < threads; t++)
        CM_TRY(cm_roi_patch_alloc(e, &needs, &j->patches[t]));
    cm_parallel_numbered(e->threads, threads, n, align_regions, j);
    return CM_OK;
}

/* Pixels [first, end) of cell i of n over [start, start + length), within [0, size). */
static void cell_span(double start, double length, int64_t i, int64_t n, int64_t size,
                      int64_t *first, int64_t *end)
{
    double cell = length / (double)n, limit = (double)size;
    double low = floor((double)i * cell) + start, high = ceil((double)(i + 1) * cell) + start;
    *first = (int64_t)fmin(fmax(low, 0), limit);
    *end = (int64_t)fmin(fmax(high, 0), limit);
}

/* Halfway cases away from zero. */
static double round_away(double x)
{
    return copysign(floor(fabs(x) + 0.5), x);
}

static void pool_region(const job *j, int64_t r)
{
    const max_attr *a = j->attr;
    const double *roi = j->rois + r * 5;
    double scale = a->spatial_scale;
    double left = round_away(roi[1] * scale), top = round_away(roi[2] * scale);
    double width = fmax(round_away(roi[3] * scale) - left + 1, 1);
    double height = fmax(round_away(roi[4] * scale) - top + 1, 1);
    int64_t rows = a->pooled_shape.v[0], columns = a->pooled_shape.v[1];
    for (int64_t c = 0; c < j->channels; c++) {
        const double *x = j->x + (j->batch[r] * j->channels + c) * j->height * j->width;
        for (int64_t i = 0; i < rows * columns; i++) {
            int64_t y0, y1, x0, x1;
            cell_span(top, height, i / columns, rows, j->height, &y0, &y1);
            cell_span(left, width, i % columns, columns, j->width, &x0, &x1);
            double best = y1 > y0 && x1 > x0 ? -INFINITY : 0;
            for (int64_t y = y0; y < y1; y++)
                for (int64_t k = x0; k < x1; k++)
                    best = fmax(best, x[y * j->width + k]);
            cm_set_f64(j->y->dtype, j->y->data, (r * j->channels + c) * rows * columns + i, best);
        }
    }
}

static void pool_regions(void *arg, int64_t begin, int64_t end)
{
    for (int64_t r = begin; r < end; r++)
        pool_region(arg, r);
}

/* Every region must be finite, not absurdly large, and of an image that is there. */
static cm_status check_regions(cm_eval *e, const job *j, int64_t n, int numbers, double scale,
                               int64_t images)
{
    for (int64_t i = 0; i < n * numbers; i++)
        if (!(fabs(j->rois[i] * scale) < 1e9))
            return cm_fail(e->cx, CM_ERR_DATA, "region %lld has the coordinate %g",
                           (long long)(i / numbers), j->rois[i]);
    for (int64_t r = 0; r < n; r++)
        if (j->batch[r] < 0 || j->batch[r] >= images)
            return cm_fail(e->cx, CM_ERR_DATA, "region %lld is of image %lld of %lld", (long long)r,
                           (long long)j->batch[r], (long long)images);
    return CM_OK;
}

static cm_status eval(cm_eval *e)
{
    bool is_align = e->op->id == CM_OP_ROI_ALIGN;
    const cm_tensor *x = cm_eval_in(e, 0), *rois = cm_eval_in(e, 1);
    job j = {.cx = e->cx,
             .attr = e->attr,
             .channels = x->dims[1],
             .height = x->dims[2],
             .width = x->dims[3],
             .y = cm_eval_out(e, 0)};
    CM_TRY(cm_eval_as_f64(e, 1, &j.rois));
    int64_t n = rois->dims[0];
    void *p;
    CM_TRY(cm_eval_scratch(e, (size_t)n, sizeof(int64_t), &p));
    int64_t *batch = p;
    j.batch = batch;
    for (int64_t r = 0; r < n; r++) {
        double image = is_align ? 0 : j.rois[r * 5];
        batch[r] = is_align ? cm_eval_int(e, 2, r) : fabs(image) < 1e9 ? (int64_t)image : -1;
    }
    double scale = is_align ? ((const align_attr *)e->attr)->spatial_scale
                            : ((const max_attr *)e->attr)->spatial_scale;
    CM_TRY(check_regions(e, &j, n, is_align ? 4 : 5, scale, x->dims[0]));
    if (cm_tensor_elems(j.y) == 0)
        return CM_OK;
    if (cm_tensor_elems(x) == 0)
        return cm_fail(e->cx, CM_ERR_DATA, "the images are empty");
    if (is_align) {
        CM_TRY(align(e, &j, n));
    } else {
        CM_TRY(cm_eval_as_f64(e, 0, &j.x));
        cm_parallel(e->threads, n, 1, pool_regions, &j);
    }
    return cm_check_cancel(e->cx);
}

static void cost(const cm_infer *f, cm_cost *c)
{
    c->ops = 32 * cm_infer_volume(f, &f->out[0].type);
}

const cm_family cm_family_roi = {.name = "roi", .infer = infer, .eval = eval, .cost = cost};
