/* rows_view.c -- the axes of a problem's tensors as rows: merged, and put in the order of memory.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/rows_view.h"

#include "cpu/rows.h"

int cm_cpu_col_axes(const cm_tensor *t, int64_t cols)
{
    int axis[CM_MAX_RANK], n = 0;
    int64_t product = 1;
    for (int i = 0; i < t->rank; i++) {
        int at = i;
        for (; at > 0; at--) {
            int b = axis[at - 1];
            if (t->strides[i] < t->strides[b] ||
                (t->strides[i] == t->strides[b] && (t->dims[b] != 1 || t->dims[i] == 1)))
                break;
            axis[at] = b;
        }
        axis[at] = i;
    }
    while (n < t->rank && product < cols)
        product *= t->dims[axis[t->rank - 1 - n++]];
    return product == cols ? n : -1;
}

static const cm_tensor *tensor_of(const cm_problem *p, int which)
{
    const cm_rows *r = &p->as.rows;
    return which == CM_ROWS_X      ? p->in[0]
           : which == CM_ROWS_Y    ? p->out[0]
           : which == CM_ROWS_SKIP ? (r->skip >= 0 ? p->in[r->skip] : NULL)
                                   : (r->sum >= 0 ? p->out[r->sum] : NULL);
}

/* Append an axis, merged with the last where all tensors allow. */
static bool push_outer(cm_rows_view *v, int64_t dim, const int64_t *steps)
{
    if (v->n_outer > 0) {
        int last = v->n_outer - 1;
        bool merges = true;
        for (int t = 0; t < CM_ROWS_TENSORS; t++)
            merges = merges && v->step[t][last] == dim * steps[t];
        if (merges) {
            v->outer[last] *= dim;
            for (int t = 0; t < CM_ROWS_TENSORS; t++)
                v->step[t][last] = steps[t];
            return true;
        }
    }
    if (v->n_outer == CM_ROWS_OUTER)
        return false;
    v->outer[v->n_outer] = dim;
    for (int t = 0; t < CM_ROWS_TENSORS; t++)
        v->step[t][v->n_outer] = steps[t];
    v->n_outer++;
    return true;
}

/* Axes of more than one element by falling strides of the output. */
static int order_axes(const cm_tensor *y, int *axis)
{
    int n = 0;
    for (int i = 0; i < y->rank; i++) {
        if (y->dims[i] == 1)
            continue;
        int at = n++;
        for (; at > 0 && y->strides[i] > y->strides[axis[at - 1]]; at--)
            axis[at] = axis[at - 1];
        axis[at] = i;
    }
    return n;
}

/* The axes [first, last) of `axis` as one: its step in each of x, y and sum. False: they are not one. */
static bool merge(const cm_problem *p, const int *axis, int first, int last, int64_t *steps)
{
    for (int t = 0; t < CM_ROWS_TENSORS; t++) {
        const cm_tensor *a = tensor_of(p, t);
        steps[t] = 0;
        if (!a || t == CM_ROWS_SKIP)
            continue;
        for (int i = first; i + 1 < last; i++)
            if (a->strides[axis[i]] != a->dims[axis[i + 1]] * a->strides[axis[i + 1]])
                return false;
        steps[t] = last > first ? a->strides[axis[last - 1]] : 1;
    }
    return true;
}

const char *cm_view_rows(const cm_problem *p, cm_rows_view *v)
{
    const cm_rows *r = &p->as.rows;
    const cm_tensor *x = p->in[0], *y = p->out[0];
    int axis[CM_MAX_RANK], n = order_axes(y, axis), first = 0, last;
    int64_t steps[CM_ROWS_TENSORS], inner[CM_ROWS_TENSORS];
    *v = (cm_rows_view){.cols = r->cols, .n_rows = 1, .inner = 1};
    while (first < n && (axis[first] < r->axis || axis[first] >= r->axis + r->n_axes))
        first++;
    for (last = first; last < n; last++)
        if (axis[last] < r->axis || axis[last] >= r->axis + r->n_axes ||
            (last > first && axis[last] < axis[last - 1]))
            break;
    int64_t cols = 1;
    for (int i = first; i < last; i++)
        cols *= x->dims[axis[i]];
    if (cols != r->cols || !merge(p, axis, first, last, steps) || !merge(p, axis, last, n, inner))
        return "the axes of a row are apart in memory";
    for (int i = last; i < n; i++)
        v->inner *= x->dims[axis[i]];
    v->lanes = v->inner > 1;
    for (int t = 0; t < CM_ROWS_TENSORS; t++)
        if (t != CM_ROWS_SKIP && tensor_of(p, t) &&
            (v->lanes      ? inner[t]
             : r->cols > 1 ? steps[t]
                           : 1) != 1)
            return "input and output are not adjacent along the same axis";
    for (int t = 0; t < CM_ROWS_TENSORS; t++)
        v->col_step[t] = steps[t];
    for (int i = 0; i < first; i++) {
        int64_t outer[CM_ROWS_TENSORS];
        for (int t = 0; t < CM_ROWS_TENSORS; t++) {
            const cm_tensor *a = t == CM_ROWS_SKIP ? NULL : tensor_of(p, t);
            outer[t] = a ? a->strides[axis[i]] : 0;
        }
        v->n_rows *= x->dims[axis[i]];
        if (!push_outer(v, x->dims[axis[i]], outer))
            return "input and output are strided over too many axes";
    }
    return NULL;
}

int64_t cm_row_offset(const cm_rows_view *v, int tensor, int64_t row)
{
    int64_t at = 0;
    for (int a = v->n_outer - 1; a > 0; a--) {
        at += row % v->outer[a] * v->step[tensor][a];
        row /= v->outer[a];
    }
    return v->n_outer ? at + row * v->step[tensor][0] : 0;
}
