/* ms_crop.c -- com.microsoft CropAndResize: boxes of images, resized with their corners aligned.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops/eval.h"

#include <math.h>

#include "ops/expect.h"

typedef struct {
    uint64_t present;
    float extrapolation_value;
    cm_str mode;
} crop_attr;

CM_ATTRS(ms_crop_and_resize, crop_attr, CM_ATTR_FLOAT(crop_attr, extrapolation_value, 0),
         CM_ATTR_STR(crop_attr, mode, "bilinear"))

enum { X, ROIS, BATCH, SIZE };

static cm_status infer(cm_infer *f)
{
    const crop_attr *a = f->attr;
    if (!cm_str_equal(a->mode, cm_str_of("bilinear")) &&
        !cm_str_equal(a->mode, cm_str_of("nearest")))
        return cm_fail(f->cx, CM_ERR_MODEL, "mode is '%.*s', wanted bilinear or nearest",
                       (int)(a->mode.n < 40 ? a->mode.n : 40), a->mode.p);
    cm_dim boxes[] = {CM_DIM_ERROR, 4}, two = 2, size[CM_MAX_ELEMS];
    int64_t h, w;
    int n = 0;
    CM_TRY(cm_expect_rank(f, X, "X", 4, 4));
    CM_TRY(cm_expect_shape(f, ROIS, "rois", 2, boxes));
    CM_TRY(cm_expect_shape(f, SIZE, "crop_size", 1, &two));
    if (!cm_infer_ranked(f, X) || !cm_infer_ranked(f, ROIS)) {
        cm_infer_unknown(f, 0);
        return CM_OK;
    }
    cm_dim count = cm_infer_dim(f, ROIS, 0);
    CM_TRY(cm_expect_shape(f, BATCH, "batch_indices", 1, &count));
    if (!cm_infer_elems(f, SIZE, size, &n) || n != 2) {
        size[0] = cm_infer_fresh(f, "height");
        size[1] = cm_infer_fresh(f, "width");
    } else if ((cm_infer_const(f, size[0], &h) && h < 1) ||
               (cm_infer_const(f, size[1], &w) && w < 1)) {
        return cm_fail(f->cx, CM_ERR_MODEL, "crop_size holds a number below 1");
    }
    cm_dim dims[] = {count, cm_infer_dim(f, X, 1), size[0], size[1]};
    return cm_infer_tensor(f, 0, 4, dims);
}

/* Where output `i` of `n` falls along an axis of `size`, between `from` and `to` of its length. In
 * float32 unless the data are double: `nearest` depends on which side of a half it falls. */
static double place(cm_dtype t, double from, double to, int64_t size, int64_t i, int64_t n)
{
    double last = (double)(size - 1);
    if (t == CM_F64)
        return n == 1 ? 0.5 * (from + to) * last
                      : from * last + (double)i * ((to - from) * last / (double)(n - 1));
    float a = (float)from, b = (float)to, l = (float)last;
    return n == 1 ? 0.5f * (a + b) * l : a * l + (float)i * ((b - a) * l / (float)(n - 1));
}

static double sample(const double *x, int64_t h, int64_t w, double py, double px, bool nearest)
{
    if (nearest) {
        int64_t y = (int64_t)floor(py + 0.5), z = (int64_t)floor(px + 0.5);
        return x[(y < h ? y : h - 1) * w + (z < w ? z : w - 1)];
    }
    int64_t y0 = (int64_t)floor(py), x0 = (int64_t)floor(px);
    int64_t y1 = y0 + 1 < h ? y0 + 1 : y0, x1 = x0 + 1 < w ? x0 + 1 : x0;
    double fy = py - (double)y0, fx = px - (double)x0;
    double top = x[y0 * w + x0] + (x[y0 * w + x1] - x[y0 * w + x0]) * fx;
    double bottom = x[y1 * w + x0] + (x[y1 * w + x1] - x[y1 * w + x0]) * fx;
    return top + (bottom - top) * fy;
}

static cm_status eval(cm_eval *e)
{
    const crop_attr *a = e->attr;
    const cm_tensor *tx = cm_eval_in(e, X);
    cm_tensor *y = cm_eval_out(e, 0);
    bool nearest = cm_str_equal(a->mode, cm_str_of("nearest"));
    int64_t h = tx->dims[2], w = tx->dims[3], channels = y->dims[1], oh = y->dims[2],
            ow = y->dims[3];
    const double *x, *rois;
    CM_TRY(cm_eval_as_f64(e, X, &x));
    CM_TRY(cm_eval_as_f64(e, ROIS, &rois));
    for (int64_t i = 0; i < cm_tensor_elems(y); i++) {
        int64_t r = i / ow / oh / channels, c = i / ow / oh % channels,
                image = cm_eval_int(e, BATCH, r);
        if (image < 0 || image >= tx->dims[0])
            return cm_fail(e->cx, CM_ERR_DATA, "batch_indices[%lld] is %lld of %lld images",
                           (long long)r, (long long)image, (long long)tx->dims[0]);
        double py = place(tx->dtype, rois[4 * r], rois[4 * r + 2], h, i / ow % oh, oh);
        double px = place(tx->dtype, rois[4 * r + 1], rois[4 * r + 3], w, i % ow, ow);
        bool inside = py >= 0 && py <= (double)(h - 1) && px >= 0 && px <= (double)(w - 1);
        cm_set_f64(y->dtype, y->data, i,
                   inside ? sample(x + (image * channels + c) * h * w, h, w, py, px, nearest)
                          : a->extrapolation_value);
    }
    return CM_OK;
}

const cm_family cm_family_ms_crop = {.name = "ms_crop", .infer = infer, .eval = eval};
