/* window_shape.c -- output sizes and padding of what slides a window: convolutions and pools.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops/linear/window_shape.h"

#include "base/size.h"

/* Larger numbers are mistakes, and their products could overflow. */
enum { LIMIT = INT32_MAX };

static bool parse_auto_pad(cm_str s, cm_auto_pad *out)
{
    static const char *const names[] = {"NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"};
    *out = CM_PAD_NOTSET;
    if (s.n == 0)
        return true;
    for (int i = 0; i < CM_COUNT(names); i++)
        if (cm_str_equal(s, cm_str_of(names[i]))) {
            *out = (cm_auto_pad)i;
            return true;
        }
    return false;
}

/* The list must be empty or have `wanted` entries in [low, LIMIT]. */
static cm_status check_list(cm_ctx *cx, const char *name, cm_ints v, int64_t wanted, int64_t low)
{
    if (v.n != 0 && v.n != wanted)
        return cm_fail(cx, CM_ERR_MODEL, "%s has %lld entries, wanted %lld", name, (long long)v.n,
                       (long long)wanted);
    for (int64_t i = 0; i < v.n; i++)
        if (v.v[i] < low || v.v[i] > LIMIT)
            return cm_fail(cx, CM_ERR_MODEL, "%s[%lld] is %lld, wanted %lld to %d", name,
                           (long long)i, (long long)v.v[i], (long long)low, LIMIT);
    return CM_OK;
}

/* Fill all but the kernel from lists of the right length. */
static void fill(const cm_window_attr *a, int n, cm_window *w)
{
    *w = (cm_window){.n = n};
    parse_auto_pad(a->auto_pad, &w->auto_pad);
    bool explicit_pads = w->auto_pad == CM_PAD_NOTSET && a->pads.n;
    for (int i = 0; i < n; i++) {
        w->stride[i] = a->strides.n ? a->strides.v[i] : 1;
        w->dilation[i] = a->dilations.n ? a->dilations.v[i] : 1;
        w->pad_begin[i] = explicit_pads ? a->pads.v[i] : 0;
        w->pad_end[i] = explicit_pads ? a->pads.v[n + i] : 0;
    }
}

cm_status cm_window_read(cm_infer *f, const cm_window_attr *a, int n, const cm_dim *kernel,
                         cm_window *w)
{
    cm_auto_pad auto_pad;
    if (!parse_auto_pad(a->auto_pad, &auto_pad))
        return cm_fail(f->cx, CM_ERR_MODEL,
                       "auto_pad is '%.*s', wanted NOTSET, VALID, SAME_UPPER or SAME_LOWER",
                       (int)cm_min_i64((int64_t)a->auto_pad.n, 40), a->auto_pad.p);
    CM_TRY(check_list(f->cx, "kernel_shape", a->kernel_shape, n, 1));
    CM_TRY(check_list(f->cx, "strides", a->strides, n, 1));
    CM_TRY(check_list(f->cx, "dilations", a->dilations, n, 1));
    CM_TRY(check_list(f->cx, "pads", a->pads, 2 * n, 0));
    if (!kernel && n > 0 && a->kernel_shape.n == 0)
        return cm_fail(f->cx, CM_ERR_MODEL, "kernel_shape is empty, wanted %d entries", n);
    fill(a, n, w);
    for (int i = 0; i < n; i++) {
        if (kernel && a->kernel_shape.n)
            CM_TRY(
                cm_infer_equal(f, "kernel_shape and the weights", a->kernel_shape.v[i], kernel[i]));
        w->kernel[i] = a->kernel_shape.n ? a->kernel_shape.v[i] : kernel[i];
        if (cm_dim_is_size(w->kernel[i]) && (w->kernel[i] == 0 || w->kernel[i] > LIMIT))
            return cm_fail(f->cx, CM_ERR_MODEL,
                           "kernel size %lld on spatial axis %d is not in 1 to %d",
                           (long long)w->kernel[i], i, LIMIT);
    }
    return CM_OK;
}

/* Positions of a window of `extent` over `in` with numbers only; <= 0 when it does not fit. */
static int64_t count(int64_t in, int64_t begin, int64_t end, int64_t extent, int64_t stride,
                     bool ceil_mode)
{
    int64_t room = in + begin + end - extent;
    if (!ceil_mode)
        return cm_floor_div(room, stride) + 1;
    return cm_min_i64(cm_ceil_div(room, stride) + 1, cm_ceil_div(in + begin, stride));
}

static cm_dim symbolic_count(cm_infer *f, cm_dim in, int64_t begin, int64_t end, cm_dim extent,
                             int64_t stride, bool ceil_mode)
{
    cm_dim room = cm_infer_sub(f, cm_infer_add(f, in, begin + end), extent);
    if (!ceil_mode)
        return cm_infer_add(f, cm_infer_floor_div(f, room, stride), 1);
    cm_dim all = cm_infer_add(f, cm_infer_ceil_div(f, room, stride), 1);
    cm_dim inside = cm_infer_ceil_div(f, cm_infer_add(f, in, begin), stride);
    return f->dims ? cm_dim_min(f->dims, all, inside) : CM_DIM_ERROR;
}

static cm_status one_axis(cm_infer *f, const cm_window *w, int i, cm_dim in, bool ceil_mode,
                          cm_dim *out)
{
    cm_dim k = w->kernel[i];
    int64_t s = w->stride[i], d = w->dilation[i], size, kernel;
    bool known = cm_infer_const(f, in, &size) && cm_infer_const(f, k, &kernel);
    if (w->auto_pad == CM_PAD_SAME_UPPER || w->auto_pad == CM_PAD_SAME_LOWER) {
        *out = known ? cm_ceil_div(size, s) : cm_infer_ceil_div(f, in, s);
    } else if (!known) {
        cm_dim extent = cm_infer_add(f, cm_infer_mul(f, cm_infer_sub(f, k, 1), d), 1);
        *out = symbolic_count(f, in, w->pad_begin[i], w->pad_end[i], extent, s,
                              ceil_mode && w->auto_pad == CM_PAD_NOTSET);
    } else {
        int64_t extent = (kernel - 1) * d + 1, pads = w->pad_begin[i] + w->pad_end[i];
        if (size > INT64_MAX / 4)
            return cm_fail(f->cx, CM_ERR_MODEL, "spatial axis %d of %lld elements is too long", i,
                           (long long)size);
        *out = count(size, w->pad_begin[i], w->pad_end[i], extent, s,
                     ceil_mode && w->auto_pad == CM_PAD_NOTSET);
        if (*out <= 0 && size > 0)
            return cm_fail(f->cx, CM_ERR_MODEL,
                           "window of %lld does not fit spatial axis %d of %lld with padding %lld",
                           (long long)extent, i, (long long)size, (long long)pads);
        *out = cm_max_i64(*out, 0);
    }
    if (*out == CM_DIM_ERROR)
        *out = cm_infer_fresh(f, "window");
    return CM_OK;
}

cm_status cm_window_out(cm_infer *f, const cm_window *w, const cm_dim *in, bool ceil_mode,
                        cm_dim *out)
{
    for (int i = 0; i < w->n; i++)
        CM_TRY(one_axis(f, w, i, in[i], ceil_mode, &out[i]));
    return CM_OK;
}

void cm_window_fix(cm_window *w, const int64_t *in)
{
    if (w->auto_pad != CM_PAD_SAME_UPPER && w->auto_pad != CM_PAD_SAME_LOWER)
        return;
    for (int i = 0; i < w->n; i++) {
        int64_t positions = cm_ceil_div(in[i], w->stride[i]);
        int64_t extent = (w->kernel[i] - 1) * w->dilation[i] + 1;
        int64_t total = cm_max_i64((positions - 1) * w->stride[i] + extent - in[i], 0);
        int64_t less = total / 2, more = total - less;
        w->pad_begin[i] = w->auto_pad == CM_PAD_SAME_UPPER ? less : more;
        w->pad_end[i] = total - w->pad_begin[i];
    }
}

void cm_window_of(const cm_window_attr *a, int n, const int64_t *kernel, const int64_t *in,
                  cm_window *w)
{
    fill(a, n, w);
    for (int i = 0; i < n; i++)
        w->kernel[i] = a->kernel_shape.n ? a->kernel_shape.v[i] : kernel[i];
    cm_window_fix(w, in);
}
