/* slice.c -- Slice: a strided box cut out of a tensor.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/size.h"
#include "ops/move/borders.h"
#include "ops/move/move.h"

enum { DATA, STARTS, ENDS, AXES, STEPS };

/* Past this a start or an end means "to the border" of an axis of symbolic size. Exporters write
 * INT32_MAX, INT64_MAX and 1000000000 for it. */
#define BORDER ((int64_t)1000000000)

int64_t cm_slice_length(int64_t size, int64_t start, int64_t end, int64_t step, int64_t *first)
{
    int64_t low = step > 0 ? 0 : -1, high = step > 0 ? size : size - 1;
    start = start < 0 ? (start < -size ? -1 : start + size) : start;
    end = end < 0 ? (end < -size ? -1 : end + size) : end;
    start = cm_max_i64(0, cm_min_i64(start, high));
    end = cm_max_i64(low, cm_min_i64(end, high));
    *first = start;
    if (step > 0)
        return end > start ? cm_ceil_div(end - start, step) : 0;
    if (size == 0 || end >= start)
        return 0;
    return step == INT64_MIN ? 1 : cm_ceil_div(start - end, -step);
}

/* Forward over an axis of symbolic size, or with symbolic ends. Clamping the start from above and
 * the end from below is left to the outer max. */
static cm_dim forward_length(cm_infer *f, cm_dim size, cm_dim start, cm_dim end, int64_t step)
{
    int64_t s, e;
    bool from_end = cm_infer_const(f, start, &s) && s < 0;
    bool to_border = cm_infer_const(f, end, &e) && e >= BORDER;
    if (from_end && to_border) {
        cm_dim last = s <= -BORDER ? size : cm_move_min(f, cm_infer_number(f, -s), size);
        return cm_infer_ceil_div(f, last, step);
    }
    if (from_end)
        start = s <= -BORDER ? 0 : cm_move_max(f, cm_infer_add(f, size, start), 0);
    else if (!cm_move_nonneg(f, start))
        return cm_infer_fresh(f, "sliced");
    if (to_border)
        end = size;
    else if (cm_infer_const(f, end, &e) && e < 0)
        end = cm_infer_add(f, size, end);
    else if (!cm_move_nonneg(f, end))
        return cm_infer_fresh(f, "sliced");
    else
        end = cm_move_min(f, end, size);
    return cm_move_max(f, cm_infer_ceil_div(f, cm_infer_sub(f, end, start), step), 0);
}

static cm_dim sliced_size(cm_infer *f, cm_dim size, cm_dim start, cm_dim end, cm_dim step)
{
    int64_t d, s, e, t, first;
    if (!cm_infer_const(f, step, &t))
        return cm_infer_fresh(f, "sliced");
    bool constant = cm_infer_const(f, start, &s) && cm_infer_const(f, end, &e);
    if (constant && cm_infer_const(f, size, &d))
        return cm_slice_length(d, s, e, t, &first);
    if (t > 0)
        return forward_length(f, size, start, end, t);
    if (constant && (s == -1 || s >= BORDER) && e <= -BORDER) /* all of it, backwards */
        return cm_infer_ceil_div(f, size, -t);
    return cm_infer_fresh(f, "sliced");
}

/* The four vectors, as far as they are known. */
typedef struct {
    cm_vector starts, ends, steps;
    int64_t n;
    int axes[CM_MAX_RANK];
    bool axes_known;
} bounds;

static cm_status read_axes(cm_infer *f, int rank, bounds *b)
{
    bool is_in[CM_MAX_RANK];
    int64_t v[CM_MAX_ELEMS];
    b->axes_known = true;
    if (!cm_infer_has(f, AXES)) {
        for (int i = 0; i < rank; i++)
            b->axes[i] = i;
    } else {
        cm_vector axes;
        CM_TRY(cm_move_numbers(f, AXES, "axes", &axes, v));
        if (b->n < 0)
            b->n = axes.n;
        if (axes.n >= 0 && axes.n != b->n)
            return cm_fail(f->cx, CM_ERR_MODEL, "axes has %lld entries, but starts has %lld",
                           (long long)axes.n, (long long)b->n);
        b->axes_known = axes.known;
        if (axes.known)
            CM_TRY(cm_axes(f->cx, v, axes.n, rank, is_in));
        for (int i = 0; axes.known && i < axes.n; i++)
            CM_TRY(cm_axis(f->cx, v[i], rank, &b->axes[i]));
    }
    if (b->n > rank)
        return cm_fail(f->cx, CM_ERR_MODEL, "starts has %lld entries for an input of rank %d",
                       (long long)b->n, rank);
    return CM_OK;
}

static cm_status read_bounds(cm_infer *f, int rank, bounds *b)
{
    CM_TRY(cm_move_vector(f, STARTS, "starts", &b->starts));
    CM_TRY(cm_move_vector(f, ENDS, "ends", &b->ends));
    b->n = b->starts.n >= 0 ? b->starts.n : b->ends.n;
    if (b->ends.n >= 0 && b->ends.n != b->n)
        return cm_fail(f->cx, CM_ERR_MODEL, "ends has %lld entries, but starts has %lld",
                       (long long)b->ends.n, (long long)b->n);
    CM_TRY(read_axes(f, rank, b));
    b->steps = (cm_vector){.known = true, .n = b->n};
    for (int64_t i = 0; i < b->n && i < CM_MAX_ELEMS; i++)
        b->steps.v[i] = 1;
    if (cm_infer_has(f, STEPS))
        CM_TRY(cm_move_vector(f, STEPS, "steps", &b->steps));
    if (b->steps.n >= 0 && b->n >= 0 && b->steps.n != b->n)
        return cm_fail(f->cx, CM_ERR_MODEL, "steps has %lld entries, but starts has %lld",
                       (long long)b->steps.n, (long long)b->n);
    for (int64_t i = 0; b->steps.known && i < b->steps.n; i++) {
        int64_t v;
        if (cm_infer_const(f, b->steps.v[i], &v) && v == 0)
            return cm_fail(f->cx, CM_ERR_MODEL, "steps[%lld] is 0", (long long)i);
    }
    return CM_OK;
}

/* One axis of a cut, in numbers. */
typedef struct {
    int axis;
    int64_t start, end, step;
} cut;

/* The cut as a strided copy from x to y; returns where in x it begins. y is not empty. */
static int64_t place(const cut *cuts, int n, const cm_tensor *x, const cm_tensor *y, cm_move *m)
{
    int64_t from[CM_MAX_RANK], offset = 0, first;
    for (int i = 0; i < x->rank; i++)
        from[i] = x->strides[i];
    for (int i = 0; i < n; i++) {
        int k = cuts[i].axis;
        cm_slice_length(x->dims[k], cuts[i].start, cuts[i].end, cuts[i].step, &first);
        offset += first * x->strides[k];
        from[k] = y->dims[k] > 1 ? cuts[i].step * x->strides[k] : 0;
    }
    for (int i = 0; i < y->rank; i++)
        cm_move_axis(m, y->dims[i], from[i], y->strides[i]);
    return offset;
}

/* Elements of a shape vector, or of a small matrix of paddings. */
static void slice_elems(cm_infer *f, const bounds *b)
{
    cm_dim v[CM_MAX_ELEMS], out[CM_MAX_ELEMS];
    cm_tensor x, y;
    cut cuts[CM_MAX_RANK];
    int n;
    if (!cm_move_tracked(f, 0, v, &n) || !cm_move_numeric_shape(f, f->in[0].type, &x) ||
        !cm_move_numeric_shape(f, &f->out[0].type, &y))
        return;
    for (int i = 0; i < b->n; i++) {
        cuts[i].axis = b->axes[i];
        if (!b->starts.known || !b->ends.known || !b->steps.known ||
            !cm_infer_const(f, b->starts.v[i], &cuts[i].start) ||
            !cm_infer_const(f, b->ends.v[i], &cuts[i].end) ||
            !cm_infer_const(f, b->steps.v[i], &cuts[i].step))
            return;
    }
    cm_move m = {.elem_bytes = sizeof *v};
    int64_t count = cm_tensor_elems(&y);
    if (count > 0)
        cm_move_run(&m, v + place(cuts, (int)b->n, &x, &y, &m), out, NULL);
    cm_infer_set_elems(f, 0, out, (int)count);
}

static cm_status infer(cm_infer *f)
{
    int rank = cm_infer_rank(f, DATA);
    if (rank < 0) {
        cm_infer_unknown(f, 0);
        return CM_OK;
    }
    bounds b;
    CM_TRY(read_bounds(f, rank, &b));
    if (!b.axes_known || b.n < 0)
        return cm_move_fresh_shape(f, 0, rank);
    bool known = b.starts.known && b.ends.known && b.steps.known;
    cm_dim dims[CM_MAX_RANK];
    for (int i = 0; i < rank; i++)
        dims[i] = cm_infer_dim(f, DATA, i);
    for (int64_t i = 0; i < b.n; i++) {
        cm_dim *d = &dims[b.axes[i]];
        *d = known ? sliced_size(f, *d, b.starts.v[i], b.ends.v[i], b.steps.v[i])
                   : cm_infer_fresh(f, "sliced");
    }
    CM_TRY(cm_move_shape(f, 0, rank, dims));
    slice_elems(f, &b);
    return CM_OK;
}

static cm_status eval(cm_eval *e)
{
    const cm_tensor *x = cm_eval_in(e, DATA);
    cm_tensor *y = cm_eval_out(e, 0);
    cut cuts[CM_MAX_RANK];
    int n = (int)cm_tensor_elems(cm_eval_in(e, STARTS));
    if (cm_tensor_elems(y) == 0)
        return CM_OK;
    for (int i = 0; i < n; i++) {
        cuts[i] = (cut){i, cm_eval_int(e, STARTS, i), cm_eval_int(e, ENDS, i),
                        cm_eval_has(e, STEPS) ? cm_eval_int(e, STEPS, i) : 1};
        if (cm_eval_has(e, AXES))
            CM_TRY(cm_axis(e->cx, cm_eval_int(e, AXES, i), x->rank, &cuts[i].axis));
    }
    cm_move m = {.elem_bytes = cm_dtype_size(x->dtype)};
    int64_t offset = place(cuts, n, x, y, &m);
    cm_move_run(&m, cm_move_at(x->data, offset, m.elem_bytes), y->data, e->threads);
    return CM_OK;
}

const cm_family cm_family_slice = {"slice", infer, eval, cm_move_cost};
