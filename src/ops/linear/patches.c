/* patches.c -- the right-hand matrix of a convolution as a matrix product, gathered on the fly.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops/linear/patches.h"

#include <string.h>

#include "base/size.h"

int64_t cm_patches_rows(const cm_patches *p)
{
    return p->channels * cm_dims_product(p->w.kernel, 0, p->n);
}

int64_t cm_patches_columns(const cm_patches *p)
{
    return cm_dims_product(p->out, 0, p->n);
}

/* The input position where output position `o` and kernel position `k` meet on `axis`; -1: none. */
static int64_t meet(const cm_patches *p, int axis, int64_t o, int64_t k)
{
    const cm_window *w = &p->w;
    int64_t i;
    if (p->transposed) {
        i = o + w->pad_begin[axis] - k * w->dilation[axis];
        if (i < 0 || i % w->stride[axis] != 0)
            return -1;
        i /= w->stride[axis];
    } else {
        i = o * w->stride[axis] - w->pad_begin[axis] + k * w->dilation[axis];
    }
    return i >= 0 && i < p->in[axis] ? i : -1;
}

/* `n` outputs along the last axis from position o on; `x` is the input's line. */
static void load_line(const cm_patches *p, const double *x, int64_t o, int64_t k, int64_t n,
                      double *dst)
{
    int axis = p->n - 1;
    if (p->transposed) {
        for (int64_t j = 0; j < n; j++) {
            int64_t i = meet(p, axis, o + j, k);
            dst[j] = i < 0 ? 0 : x[i];
        }
        return;
    }
    int64_t stride = p->w.stride[axis];
    int64_t first = o * stride - p->w.pad_begin[axis] + k * p->w.dilation[axis];
    int64_t j = first < 0 ? cm_min_i64(cm_ceil_div(-first, stride), n) : 0;
    int64_t end = cm_max_i64(cm_min_i64(cm_ceil_div(p->in[axis] - first, stride), n), j);
    memset(dst, 0, (size_t)j * sizeof *dst);
    if (stride == 1 && end > j)
        memcpy(dst + j, x + first + j, (size_t)(end - j) * sizeof *dst);
    else
        for (; j < end; j++)
            dst[j] = x[first + j * stride];
    memset(dst + end, 0, (size_t)(n - end) * sizeof *dst);
}

void cm_patches_load_f64(const void *arg, int64_t batch, int64_t row, int64_t col, int64_t n,
                         double *dst)
{
    const cm_patches *p = arg;
    int64_t k[CM_MAX_RANK], o[CM_MAX_RANK];
    int last = p->n - 1;
    for (int d = last; d >= 0; d--) {
        k[d] = row % p->w.kernel[d];
        row /= p->w.kernel[d];
        o[d] = col % p->out[d];
        col /= p->out[d];
    }
    const double *x = p->x + (batch * p->channels + row) * cm_dims_product(p->in, 0, p->n);
    if (p->n == 0) {
        dst[0] = x[0];
        return;
    }
    while (n > 0) {
        int64_t run = cm_min_i64(n, p->out[last] - o[last]), at = 0;
        bool inside = true;
        for (int d = 0; d < last && inside; d++) {
            int64_t i = meet(p, d, o[d], k[d]);
            inside = i >= 0;
            at = at * p->in[d] + i;
        }
        if (inside)
            load_line(p, x + at * p->in[last], o[last], k[last], run, dst);
        else
            memset(dst, 0, (size_t)run * sizeof *dst);
        dst += run;
        n -= run;
        o[last] = 0;
        for (int d = last - 1; d >= 0 && ++o[d] == p->out[d]; d--)
            o[d] = 0;
    }
}
