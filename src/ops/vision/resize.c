/* resize.c -- Resize: nearest, linear and cubic, any number of axes, one axis at a time.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops/eval.h"

#include <math.h>
#include <string.h>

#include "base/size.h"
#include "ops/reduce/lanes.h"
#include "ops/vision/resize_taps.h"

typedef struct {
    uint64_t present;
    int64_t antialias;
    cm_ints axes;
    cm_str coordinate_transformation_mode;
    float cubic_coeff_a;
    int64_t exclude_outside;
    float extrapolation_value;
    cm_str keep_aspect_ratio_policy, mode, nearest_mode;
} resize_attr;

CM_ATTRS(resize, resize_attr, CM_ATTR_INT(resize_attr, antialias, 0),
         CM_ATTR_INTS(resize_attr, axes, 0),
         CM_ATTR_STR(resize_attr, coordinate_transformation_mode, "half_pixel"),
         CM_ATTR_FLOAT(resize_attr, cubic_coeff_a, -0.75f),
         CM_ATTR_INT(resize_attr, exclude_outside, 0),
         CM_ATTR_FLOAT(resize_attr, extrapolation_value, 0),
         CM_ATTR_STR(resize_attr, keep_aspect_ratio_policy, "stretch"),
         CM_ATTR_STR(resize_attr, mode, "nearest"),
         CM_ATTR_STR(resize_attr, nearest_mode, "round_prefer_floor"))

enum { X, ROI, SCALES, SIZES }; /* inputs */

typedef enum { STRETCH, NOT_LARGER, NOT_SMALLER } policy;

static const char *const modes[] = {"nearest", "linear", "cubic", NULL};
static const char *const coords[] = {
    "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners",
    "asymmetric", "tf_half_pixel_for_nn", "tf_crop_and_resize", NULL};
static const char *const nearests[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil",
                                       NULL};
static const char *const policies[] = {"stretch", "not_larger", "not_smaller", NULL};

/* Place of `word` in the list, or its length. */
static int find(const char *const *list, cm_str word)
{
    int i = 0;
    while (list[i] && !cm_str_equal(word, cm_str_of(list[i])))
        i++;
    return i;
}

static cm_status check_word(cm_ctx *cx, const char *name, const char *const *list, cm_str word)
{
    if (list[find(list, word)])
        return CM_OK;
    return cm_fail(cx, CM_ERR_MODEL, "%s '%.*s' is not known", name,
                   (int)(word.n < 40 ? word.n : 40), word.p);
}

/* The resized axes in the order of roi, scales and sizes. */
static cm_status list_axes(cm_ctx *cx, const resize_attr *a, int rank, int *axes, int *n)
{
    bool is_in[CM_MAX_RANK];
    *n = rank;
    for (int i = 0; i < rank; i++)
        axes[i] = i;
    if (!a->axes.n)
        return CM_OK;
    CM_TRY(cm_axes(cx, a->axes.v, a->axes.n, rank, is_in));
    *n = (int)a->axes.n;
    for (int i = 0; i < *n; i++)
        CM_TRY(cm_axis(cx, a->axes.v[i], rank, &axes[i]));
    return CM_OK;
}

/* A list of no elements stands for an absent one; with a symbolic length nobody knows yet. */
typedef enum { ABSENT, MAYBE, GIVEN } presence;

static presence presence_of(const cm_infer *f, int i)
{
    int64_t n;
    if (!cm_infer_has(f, i))
        return ABSENT;
    const cm_type *t = f->in[i].type;
    if (t->rank != 1)
        return t->rank < 0 ? MAYBE : GIVEN;
    return !cm_infer_const(f, t->dims[0], &n) ? MAYBE : n > 0 ? GIVEN : ABSENT;
}

static cm_status check_count(cm_infer *f, const char *name, int i, int64_t wanted)
{
    if (!cm_infer_ranked(f, i))
        return CM_OK;
    if (cm_infer_rank(f, i) != 1)
        return cm_fail(f->cx, CM_ERR_MODEL, "%s has rank %d, wanted 1", name, cm_infer_rank(f, i));
    return cm_infer_equal(f, name, cm_infer_dim(f, i, 0), wanted);
}

/* Size of an axis of size `in` scaled by s (the region's share of it included). */
static cm_dim scaled(cm_infer *f, cm_dim in, double s)
{
    int64_t n;
    if (cm_infer_const(f, in, &n)) {
        float size = floorf((float)n * (float)s);
        return size >= 0 && size < 9e18f ? (int64_t)size : CM_DIM_ERROR;
    }
    if (s == floor(s) && s < 1e9)
        return cm_infer_mul(f, in, (int64_t)s);
    if (1 / s == floor(1 / s) && 1 / s < 1e9)
        return cm_infer_floor_div(f, in, (int64_t)(1 / s));
    return cm_infer_fresh(f, "resized");
}

static bool is_crop(const resize_attr *a)
{
    return find(coords, a->coordinate_transformation_mode) == CM_COORD_TF_CROP_AND_RESIZE;
}

/* The region's share of axis i of n: end - start; 1 when regions do not matter. False: unknown. */
static bool region(const cm_infer *f, int i, int n, double *share)
{
    *share = 1;
    if (!is_crop(f->attr) || presence_of(f, ROI) == ABSENT)
        return true;
    const cm_tensor *roi = f->in[ROI].constant;
    if (!roi)
        return false;
    if (cm_tensor_elems(roi) == 2 * n)
        *share = cm_get_f64(roi->dtype, roi->data, n + i) - cm_get_f64(roi->dtype, roi->data, i);
    return true;
}

static cm_status infer_scales(cm_infer *f, int n, const int *axes, cm_dim *dims)
{
    const cm_tensor *scales = f->in[SCALES].constant;
    CM_TRY(check_count(f, "elements of scales", SCALES, n));
    for (int i = 0; i < n; i++) {
        double share;
        if (!scales || !region(f, i, n, &share)) {
            dims[axes[i]] = cm_infer_fresh(f, "resized");
            continue;
        }
        double s = cm_get_f64(scales->dtype, scales->data, i);
        if (!(s > 0) || isinf(s))
            return cm_fail(f->cx, CM_ERR_MODEL, "scales[%d] is %g, wanted more than 0", i, s);
        if (!(share >= 0))
            return cm_fail(f->cx, CM_ERR_MODEL, "the region ends before it starts");
        if (s * share != 1)
            dims[axes[i]] = share == 0 ? 0 : scaled(f, dims[axes[i]], s * share);
    }
    return CM_OK;
}

/* The one scale that keeps the aspect ratio: the least or the greatest of sizes[i] / in[i]. */
static double common_scale(policy p, int n, const int *axes, const int64_t *in,
                           const int64_t *sizes)
{
    double best = 0;
    for (int i = 0; i < n; i++) {
        double s = (double)sizes[i] / (double)in[axes[i]];
        if (i == 0 || (p == NOT_LARGER ? s < best : s > best))
            best = s;
    }
    return best;
}

static cm_status infer_kept_ratio(cm_infer *f, policy p, int n, const int *axes,
                                  const cm_dim *sizes, cm_dim *dims)
{
    int64_t in[CM_MAX_RANK] = {0}, size[CM_MAX_RANK];
    bool known = true;
    for (int i = 0; i < n; i++)
        known = known && cm_infer_const(f, dims[axes[i]], &in[axes[i]]) &&
                cm_infer_const(f, sizes[i], &size[i]);
    for (int i = 0; known && i < n; i++)
        if (in[axes[i]] == 0 || size[i] < 0)
            return cm_fail(f->cx, CM_ERR_MODEL, "axis %d of size %lld cannot be resized to %lld",
                           axes[i], (long long)in[axes[i]], (long long)size[i]);
    double scale = known ? common_scale(p, n, axes, in, size) : 0;
    for (int i = 0; i < n; i++) {
        double v = floor(scale * (double)in[axes[i]] + 0.5);
        if (known && v > 9e18)
            return cm_fail(f->cx, CM_ERR_MODEL, "axis %d would be too large", axes[i]);
        dims[axes[i]] = known ? (int64_t)v : cm_infer_fresh(f, "resized");
    }
    return CM_OK;
}

static cm_status infer_sizes(cm_infer *f, int n, const int *axes, cm_dim *dims)
{
    const resize_attr *a = f->attr;
    cm_dim sizes[CM_MAX_ELEMS];
    int count;
    CM_TRY(check_count(f, "elements of sizes", SIZES, n));
    bool known = cm_infer_elems(f, SIZES, sizes, &count) && count == n;
    policy p = (policy)find(policies, a->keep_aspect_ratio_policy);
    if (known && p != STRETCH)
        return infer_kept_ratio(f, p, n, axes, sizes, dims);
    for (int i = 0; i < n; i++)
        dims[axes[i]] = known ? sizes[i] : cm_infer_fresh(f, "resized");
    return CM_OK;
}

static cm_status infer(cm_infer *f)
{
    const resize_attr *a = f->attr;
    CM_TRY(check_word(f->cx, "mode", modes, a->mode));
    CM_TRY(check_word(f->cx, "coordinate_transformation_mode", coords,
                      a->coordinate_transformation_mode));
    CM_TRY(check_word(f->cx, "nearest_mode", nearests, a->nearest_mode));
    CM_TRY(check_word(f->cx, "keep_aspect_ratio_policy", policies, a->keep_aspect_ratio_policy));
    cm_dtype_kind kind = cm_dtype_get(f->in[X].type->dtype)->kind;
    if (find(modes, a->mode) != CM_RESIZE_NEAREST &&
        (kind == CM_KIND_STRING || kind == CM_KIND_COMPLEX))
        return cm_fail(f->cx, CM_ERR_UNSUPPORTED, "elements of %s cannot be interpolated",
                       cm_dtype_name(f->in[X].type->dtype));
    presence scales = presence_of(f, SCALES), sizes = presence_of(f, SIZES);
    if (scales == sizes && scales != MAYBE)
        return cm_fail(f->cx, CM_ERR_MODEL, "%s of scales and sizes given, wanted one",
                       scales == GIVEN ? "both" : "neither");
    if (!cm_infer_ranked(f, X)) {
        cm_infer_unknown(f, 0);
        return CM_OK;
    }
    const cm_type *x = f->in[X].type;
    int axes[CM_MAX_RANK], n;
    CM_TRY(list_axes(f->cx, a, x->rank, axes, &n));
    if (is_crop(a) && presence_of(f, ROI) == GIVEN)
        CM_TRY(check_count(f, "elements of roi", ROI, 2 * n));
    cm_dim dims[CM_MAX_RANK];
    memcpy(dims, x->dims, sizeof dims);
    for (int i = 0; i < n && scales == sizes; i++)
        dims[axes[i]] = cm_infer_fresh(f, "resized");
    if (scales > sizes)
        CM_TRY(infer_scales(f, n, axes, dims));
    else if (sizes > scales)
        CM_TRY(infer_sizes(f, n, axes, dims));
    for (int d = 0; d < x->rank; d++)
        if (x->dims[d] == 0 && dims[d] > 0)
            return cm_fail(f->cx, CM_ERR_MODEL, "axis %d is empty and cannot be resized", d);
    return cm_infer_tensor(f, 0, x->rank, dims);
}

static bool has_elements(const cm_eval *e, int i)
{
    return cm_eval_has(e, i) && cm_tensor_elems(cm_eval_in(e, i)) > 0;
}

cm_status cm_resize_taps(cm_eval *e, cm_taps *taps)
{
    const resize_attr *a = e->attr;
    const cm_tensor *x = cm_eval_in(e, X), *y = cm_eval_out(e, 0);
    int axes[CM_MAX_RANK], n;
    CM_TRY(list_axes(e->cx, a, x->rank, axes, &n));
    policy p = (policy)find(policies, a->keep_aspect_ratio_policy);
    int64_t sizes[CM_MAX_RANK];
    double common = 0;
    if (!has_elements(e, SCALES) && p != STRETCH) {
        for (int i = 0; i < n; i++)
            sizes[i] = cm_eval_int(e, SIZES, i);
        common = common_scale(p, n, axes, x->dims, sizes);
    }
    for (int i = 0; i < n; i++) {
        int d = axes[i];
        cm_resize_axis r = {
            .mode = (cm_resize_mode)find(modes, a->mode),
            .coord = (cm_coord_mode)find(coords, a->coordinate_transformation_mode),
            .nearest = (cm_nearest)find(nearests, a->nearest_mode),
            .in = x->dims[d],
            .out = y->dims[d],
            .cubic_a = (double)a->cubic_coeff_a,
            .end = 1,
            .antialias = a->antialias != 0,
            .exclude_outside = a->exclude_outside != 0,
        };
        r.exact = !has_elements(e, SCALES) && p == STRETCH;
        r.scale = has_elements(e, SCALES) ? cm_eval_f64(e, SCALES, i)
                  : r.exact               ? (double)r.out / (double)r.in
                                          : common;
        bool crop = r.coord == CM_COORD_TF_CROP_AND_RESIZE && has_elements(e, ROI);
        if (crop) {
            r.start = cm_eval_f64(e, ROI, i);
            r.end = cm_eval_f64(e, ROI, n + i);
        }
        if (r.scale != 1 || r.in != r.out || crop || r.coord == CM_COORD_TF_HALF_PIXEL_FOR_NN)
            CM_TRY(cm_taps_build(e, &r, &taps[d]));
    }
    return CM_OK;
}

typedef struct {
    cm_lanes lanes; /* of the source */
    const cm_taps *taps;
    int64_t out;
    const double *src;
    double *dst;
} pass;

/* Item: (outer, output position). */
static void interpolate(void *arg, int64_t begin, int64_t end)
{
    const pass *p = arg;
    int64_t inner = p->lanes.inner, n = p->taps->n;
    for (int64_t item = begin; item < end; item++) {
        const double *src = p->src + item / p->out * p->lanes.n * inner;
        double *dst = p->dst + item * inner;
        const int64_t *index = p->taps->index + item % p->out * n;
        const double *weight = p->taps->weight + item % p->out * n;
        for (int64_t i = 0; i < inner; i++) {
            double sum = 0;
            for (int64_t t = 0; t < n; t++)
                if (weight[t] != 0)
                    sum += weight[t] * src[index[t] * inner + i];
            dst[i] = sum;
        }
    }
}

/* Round and clamp what integers cannot hold. */
static void fit_integers(cm_dtype t, double *v, int64_t n)
{
    int bits = cm_dtype_get(t)->bits;
    bool is_signed = cm_dtype_is_signed(t);
    double low = is_signed ? -ldexp(1, bits - 1) : 0;
    double high = ldexp(1, is_signed ? bits - 1 : bits) - (bits < 64 ? 1 : bits == 64 ? 2048 : 0);
    for (int64_t i = 0; i < n; i++) {
        double r = rint(v[i]);
        v[i] = r < low ? low : r > high ? high : r;
    }
}

/* Elements with a coordinate outside the input, for TF_CROP_AND_RESIZE. */
static void extrapolate(const cm_tensor *y, const cm_taps *taps, double value)
{
    int64_t index[CM_MAX_RANK] = {0}, n = cm_tensor_elems(y);
    for (int64_t i = 0; i < n; i++) {
        bool outside = false;
        for (int d = 0; d < y->rank; d++)
            outside = outside || (taps[d].n && taps[d].outside[index[d]]);
        if (outside)
            cm_set_f64(y->dtype, y->data, i, value);
        for (int d = y->rank - 1; d >= 0 && ++index[d] == y->dims[d]; d--)
            index[d] = 0;
    }
}

static cm_status eval_interpolated(cm_eval *e, const cm_taps *taps)
{
    const cm_tensor *x = cm_eval_in(e, X);
    cm_tensor *y = cm_eval_out(e, 0), now = *x;
    double *v;
    CM_TRY(cm_eval_copy_f64(e, X, &v));
    for (int d = 0; d < x->rank; d++) {
        if (!taps[d].n)
            continue;
        CM_TRY(cm_check_cancel(e->cx));
        pass p = {.lanes = cm_lanes_of(&now, d), .taps = &taps[d], .out = y->dims[d], .src = v};
        now.dims[d] = y->dims[d];
        void *dst;
        CM_TRY(cm_eval_scratch(e, (size_t)cm_tensor_elems(&now), sizeof(double), &dst));
        p.dst = v = dst;
        cm_parallel(e->threads, p.lanes.outer * p.out, 1, interpolate, &p);
    }
    if (cm_dtype_is_integer(y->dtype))
        fit_integers(y->dtype, v, cm_tensor_elems(y));
    cm_eval_store_f64(e, 0, v);
    return CM_OK;
}

static void eval_nearest(cm_eval *e, const cm_taps *taps)
{
    const cm_tensor *x = cm_eval_in(e, X);
    cm_tensor *y = cm_eval_out(e, 0);
    int64_t index[CM_MAX_RANK] = {0}, n = cm_tensor_elems(y);
    size_t size = cm_dtype_size(x->dtype);
    for (int64_t i = 0; i < n; i++) {
        int64_t at = 0;
        for (int d = 0; d < y->rank; d++)
            at = at * x->dims[d] + (taps[d].n ? taps[d].index[index[d]] : index[d]);
        memcpy((char *)y->data + (size_t)i * size, (const char *)x->data + (size_t)at * size, size);
        for (int d = y->rank - 1; d >= 0 && ++index[d] == y->dims[d]; d--)
            index[d] = 0;
    }
}

static cm_status eval(cm_eval *e)
{
    const resize_attr *a = e->attr;
    cm_taps taps[CM_MAX_RANK] = {0};
    cm_tensor *y = cm_eval_out(e, 0);
    if (cm_tensor_elems(y) == 0)
        return CM_OK;
    CM_TRY(cm_resize_taps(e, taps));
    if (find(modes, a->mode) == CM_RESIZE_NEAREST)
        eval_nearest(e, taps);
    else
        CM_TRY(eval_interpolated(e, taps));
    cm_dtype_kind kind = cm_dtype_get(y->dtype)->kind;
    if (is_crop(a) && kind != CM_KIND_STRING && kind != CM_KIND_COMPLEX)
        extrapolate(y, taps, (double)a->extrapolation_value);
    return CM_OK;
}

static void cost(const cm_infer *f, cm_cost *c)
{
    static const double per_element[] = {1, 4, 16, 1};
    c->ops = per_element[find(modes, ((const resize_attr *)f->attr)->mode)] *
             cm_infer_volume(f, &f->out[0].type);
}

const cm_family cm_family_resize = {.name = "resize", .infer = infer, .eval = eval, .cost = cost};
