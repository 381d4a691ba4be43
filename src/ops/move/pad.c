/* pad.c -- Pad and CenterCropPad: a tensor made larger or smaller at its borders.
 *
 * Every axis has a map from output index to input index, -1 for the constant; the modes differ in
 * the map only.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops/move/move.h"

#include <string.h>

#include "base/size.h"
#include "ops/move/borders.h"

typedef struct {
    uint64_t present;
    cm_str mode;
} pad_attr;
CM_ATTRS(pad, pad_attr, CM_ATTR_STR(pad_attr, mode, "constant"))

typedef struct {
    uint64_t present;
    cm_ints axes;
} crop_attr;
CM_ATTRS(center_crop_pad, crop_attr, CM_ATTR_INTS(crop_attr, axes, 0))

#define MOST ((int64_t)1 << 60) /* a padding of one side; sums cannot overflow */

cm_pad_mode cm_pad_mode_of(cm_str name)
{
    static const char *const names[] = {"constant", "reflect", "edge", "wrap"};
    for (int i = 0; i < CM_COUNT(names); i++)
        if (cm_str_equal(name, cm_str_of(names[i])))
            return (cm_pad_mode)i;
    return CM_PAD_MODES;
}

static cm_status read_mode(cm_ctx *cx, cm_str name, cm_pad_mode *out)
{
    *out = cm_pad_mode_of(name);
    if (*out != CM_PAD_MODES)
        return CM_OK;
    return cm_fail(cx, CM_ERR_MODEL, "mode is '%.*s', wanted constant, reflect, edge or wrap",
                   (int)cm_min_i64((int64_t)name.n, 40), name.p ? name.p : "");
}

/* An axis with something left to copy can be padded in every mode; an empty one with the constant
 * only. */
static cm_status check_axis(cm_infer *f, cm_pad_mode mode, int axis, cm_dim size, cm_dim before,
                            cm_dim after)
{
    int64_t d, b, e;
    if (!cm_infer_const(f, before, &b) || !cm_infer_const(f, after, &e))
        return CM_OK;
    if (b < -MOST || b > MOST || e < -MOST || e > MOST)
        return cm_fail(f->cx, CM_ERR_MODEL, "axis %d is padded by %lld and %lld", axis,
                       (long long)b, (long long)e);
    if (mode == CM_PAD_CONSTANT || !cm_infer_const(f, size, &d))
        return CM_OK;
    int64_t left = d + cm_min_i64(b, 0) + cm_min_i64(e, 0);
    if (left <= 0 && (b > 0 || e > 0))
        return cm_fail(f->cx, CM_ERR_MODEL,
                       "axis %d of size %lld has nothing to pad with by %lld and %lld", axis,
                       (long long)d, (long long)b, (long long)e);
    return CM_OK;
}

static cm_status padded_size(cm_infer *f, cm_pad_mode mode, int axis, cm_dim before, cm_dim after,
                             cm_dim *d)
{
    CM_TRY(check_axis(f, mode, axis, *d, before, after));
    cm_dim sum = cm_infer_add(f, cm_infer_add(f, *d, before), after);
    *d = sum != CM_DIM_ERROR && cm_move_may_be_anything(f, sum) ? cm_infer_fresh(f, "padded") : sum;
    return CM_OK;
}

static cm_status infer_pad(cm_infer *f)
{
    const pad_attr *a = f->attr;
    int rank = cm_infer_rank(f, 0);
    cm_pad_mode mode;
    cm_vector pads, axes = {.known = true, .n = rank};
    int64_t axis[CM_MAX_ELEMS];
    bool is_in[CM_MAX_RANK];
    CM_TRY(read_mode(f->cx, a->mode, &mode));
    CM_TRY(cm_move_vector(f, 1, "pads", &pads));
    if (cm_infer_has(f, 2))
        CM_TRY(cm_move_check_count(f, 2, "constant_value", 1));
    if (rank < 0) {
        cm_infer_unknown(f, 0);
        return CM_OK;
    }
    for (int i = 0; i < rank; i++)
        axis[i] = i;
    if (cm_infer_has(f, 3))
        CM_TRY(cm_move_numbers(f, 3, "axes", &axes, axis));
    if (axes.n >= 0 && pads.n >= 0 && pads.n != 2 * axes.n)
        return cm_fail(f->cx, CM_ERR_MODEL, "pads has %lld entries, wanted %lld for %lld axes",
                       (long long)pads.n, (long long)(2 * axes.n), (long long)axes.n);
    if (!axes.known)
        return cm_move_fresh_shape(f, 0, rank);
    CM_TRY(cm_axes(f->cx, axis, axes.n, rank, is_in));
    cm_dim dims[CM_MAX_RANK];
    for (int i = 0; i < rank; i++)
        dims[i] = cm_infer_dim(f, 0, i);
    for (int64_t i = 0; i < axes.n; i++) {
        int k;
        CM_TRY(cm_axis(f->cx, axis[i], rank, &k));
        if (pads.known)
            CM_TRY(padded_size(f, mode, k, pads.v[i], pads.v[axes.n + i], &dims[k]));
        else
            dims[k] = cm_infer_fresh(f, "padded");
    }
    return cm_move_shape(f, 0, rank, dims);
}

static cm_status infer_crop(cm_infer *f)
{
    const crop_attr *a = f->attr;
    int rank = cm_infer_rank(f, 0);
    cm_vector shape;
    cm_dim dims[CM_MAX_RANK];
    bool is_in[CM_MAX_RANK];
    CM_TRY(cm_move_vector(f, 1, "shape", &shape));
    if (rank < 0) {
        cm_infer_unknown(f, 0);
        return CM_OK;
    }
    int64_t n = a->present & 1 ? a->axes.n : rank;
    if (a->present & 1)
        CM_TRY(cm_axes(f->cx, a->axes.v, a->axes.n, rank, is_in));
    if (shape.n >= 0 && shape.n != n)
        return cm_fail(f->cx, CM_ERR_MODEL,
                       "shape has %lld entries, wanted %lld, one for each axis", (long long)shape.n,
                       (long long)n);
    for (int i = 0; i < rank; i++)
        dims[i] = cm_infer_dim(f, 0, i);
    for (int64_t i = 0; i < n; i++) {
        int k = (int)i;
        if (a->present & 1)
            CM_TRY(cm_axis(f->cx, a->axes.v[i], rank, &k));
        if (shape.known)
            CM_TRY(cm_move_size(f, "shape", shape.v[i], &dims[k]));
        else
            dims[k] = cm_infer_fresh(f, "cropped");
    }
    return cm_move_shape(f, 0, rank, dims);
}

static cm_status infer(cm_infer *f)
{
    return f->op->id == CM_OP_PAD ? infer_pad(f) : infer_crop(f);
}

int64_t cm_pad_source(cm_pad_mode mode, int64_t i, int64_t n)
{
    if (i >= 0 && i < n)
        return i;
    switch (mode) {
    case CM_PAD_CONSTANT:
        return -1;
    case CM_PAD_EDGE:
        return i < 0 ? 0 : n - 1;
    case CM_PAD_WRAP:
        i %= n;
        return i < 0 ? i + n : i;
    default: { /* CM_PAD_REFLECT: back and forth, the borders not repeated */
        int64_t period = n > 1 ? 2 * (n - 1) : 1;
        i %= period;
        i = i < 0 ? i + period : i;
        return i < n ? i : period - i;
    }
    }
}

/* The first of ..., -n, 0, n, 2 n, ... that is above i. */
static int64_t next_multiple(int64_t i, int64_t n)
{
    int64_t rest = i % n;
    return i - rest + (rest < 0 ? 0 : n);
}

int64_t cm_pad_straight(cm_pad_mode mode, int64_t i, int64_t n)
{
    if (n <= (mode == CM_PAD_CONSTANT ? 0 : 1))
        return INT64_MAX; /* all of it comes from one place */
    switch (mode) {
    case CM_PAD_CONSTANT:
        return i < 0 ? -1 : i < n ? n - 1 : INT64_MAX;
    case CM_PAD_EDGE:
        return i < 0 ? 0 : i < n - 1 ? n - 1 : INT64_MAX;
    case CM_PAD_WRAP:
        return next_multiple(i, n) - 1;
    default: /* CM_PAD_REFLECT */
        return next_multiple(i, n - 1);
    }
}

typedef struct {
    const cm_tensor *x;
    cm_tensor *y;
    const void *value;
    const int64_t *map[CM_MAX_RANK]; /* input index of each output index, -1: the constant */
    int64_t begin, end;              /* output indices of the last axis that are a plain run */
} pad_job;

/* The map of an axis that gets `before` in front and `after` behind (negative: loses). Losses are
 * taken off first; the mode then sees what is left. */
static cm_status make_map(cm_eval *e, cm_pad_mode mode, const pad_job *j, int axis, int64_t before,
                          int64_t after, int64_t **out)
{
    int64_t first = cm_max_i64(0, -before), size = j->y->dims[axis];
    int64_t left = j->x->dims[axis] - first - cm_max_i64(0, -after);
    void *map;
    CM_TRY(cm_eval_scratch(e, (size_t)size, sizeof(int64_t), &map));
    for (int64_t i = 0; i < size; i++) {
        int64_t from = cm_pad_source(mode, i - cm_max_i64(0, before), left);
        ((int64_t *)map)[i] = from < 0 ? -1 : from + first;
    }
    *out = map;
    return CM_OK;
}

static void pad_rows(void *arg, int64_t begin, int64_t end)
{
    const pad_job *j = arg;
    const cm_tensor *x = j->x;
    int last = x->rank - 1;
    size_t size = cm_dtype_size(x->dtype);
    int64_t n = j->y->dims[last];
    for (int64_t r = begin; r < end; r++) {
        int64_t base = 0, rest = r;
        bool outside = false;
        for (int k = last - 1; k >= 0; k--) {
            int64_t from = j->map[k][rest % j->y->dims[k]];
            rest /= j->y->dims[k];
            outside = outside || from < 0;
            base += from * x->strides[k];
        }
        char *dst = cm_move_to(j->y->data, r * n, size);
        const int64_t *map = j->map[last];
        for (int64_t i = 0; i < n; i++) {
            if (!outside && i == j->begin && j->end > j->begin) {
                memcpy(dst + (size_t)i * size, cm_move_at(x->data, base + map[i], size),
                       (size_t)(j->end - j->begin) * size);
                i = j->end - 1;
                continue;
            }
            bool is_value = outside || map[i] < 0;
            memcpy(dst + (size_t)i * size,
                   is_value ? j->value : cm_move_at(x->data, base + map[i], size), size);
        }
    }
}

/* before and after by axis. */
static cm_status pad(cm_eval *e, cm_pad_mode mode, const void *value, const int64_t *before,
                     const int64_t *after)
{
    const cm_tensor *x = cm_eval_in(e, 0);
    cm_tensor *y = cm_eval_out(e, 0);
    int64_t n = cm_tensor_elems(y);
    if (n == 0)
        return CM_OK;
    if (x->rank == 0) {
        cm_move_copy(x, y);
        return CM_OK;
    }
    pad_job j = {x, y, value, {NULL}, 0, 0};
    int last = x->rank - 1;
    for (int k = 0; k <= last; k++) {
        int64_t *map;
        CM_TRY(make_map(e, mode, &j, k, before[k], after[k], &map));
        j.map[k] = map;
    }
    j.begin = cm_max_i64(0, before[last]);
    j.end = y->dims[last] - cm_max_i64(0, after[last]);
    int64_t row_bytes = y->dims[last] * (int64_t)cm_dtype_size(y->dtype);
    cm_parallel(e->threads, n / y->dims[last], 65536 / row_bytes + 1, pad_rows, &j);
    return CM_OK;
}

static cm_status eval(cm_eval *e)
{
    static const uint64_t zero[2] = {0, 0}; /* of every type; an empty string */
    const cm_tensor *x = cm_eval_in(e, 0);
    const cm_tensor *y = cm_eval_out(e, 0);
    int64_t before[CM_MAX_RANK] = {0}, after[CM_MAX_RANK] = {0};
    if (e->op->id == CM_OP_CENTER_CROP_PAD) {
        for (int k = 0; k < x->rank; k++) {
            int64_t more = y->dims[k] - x->dims[k];
            before[k] = more > 0 ? more / 2 : -(-more / 2);
            after[k] = more - before[k];
        }
        return pad(e, CM_PAD_CONSTANT, zero, before, after);
    }
    const pad_attr *a = e->attr;
    cm_pad_mode mode;
    CM_TRY(read_mode(e->cx, a->mode, &mode));
    int64_t n = cm_tensor_elems(cm_eval_in(e, 1)) / 2;
    for (int64_t i = 0; i < n; i++) {
        int k = (int)i;
        if (cm_eval_has(e, 3))
            CM_TRY(cm_axis(e->cx, cm_eval_int(e, 3, i), x->rank, &k));
        before[k] = cm_eval_int(e, 1, i);
        after[k] = cm_eval_int(e, 1, n + i);
    }
    return pad(e, mode, cm_eval_has(e, 2) ? cm_eval_in(e, 2)->data : zero, before, after);
}

const cm_family cm_family_pad = {"pad", infer, eval, cm_move_cost};
