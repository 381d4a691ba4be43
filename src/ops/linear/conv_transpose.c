/* conv_transpose.c -- ConvTranspose: as a matrix product that gathers, for every output position,
 * the input positions that reach it.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops/eval.h"
#include "ops/linear/gemm.h"
#include "ops/linear/patches.h"

#include <string.h>

#include "base/size.h"

typedef struct {
    uint64_t present;
    cm_str auto_pad;
    cm_ints dilations;
    int64_t group;
    cm_ints kernel_shape, output_padding, output_shape, pads, strides;
} conv_transpose_attr;

CM_ATTRS(conv_transpose, conv_transpose_attr, CM_ATTR_STR(conv_transpose_attr, auto_pad, "NOTSET"),
         CM_ATTR_INTS(conv_transpose_attr, dilations, 0),
         CM_ATTR_INT(conv_transpose_attr, group, 1),
         CM_ATTR_INTS(conv_transpose_attr, kernel_shape, 0),
         CM_ATTR_INTS(conv_transpose_attr, output_padding, 0),
         CM_ATTR_INTS(conv_transpose_attr, output_shape, 0),
         CM_ATTR_INTS(conv_transpose_attr, pads, 0), CM_ATTR_INTS(conv_transpose_attr, strides, 0))

static cm_window_attr window_attr(const conv_transpose_attr *a)
{
    return (cm_window_attr){a->auto_pad, a->kernel_shape, a->strides, a->dilations, a->pads};
}

static bool is_same(const cm_window *w)
{
    return w->auto_pad == CM_PAD_SAME_UPPER || w->auto_pad == CM_PAD_SAME_LOWER;
}

/* Size of axis i with no padding taken off. */
static cm_dim whole(cm_infer *f, const conv_transpose_attr *a, const cm_window *w, int i, cm_dim in)
{
    cm_dim extent =
        cm_infer_add(f, cm_infer_mul(f, cm_infer_sub(f, w->kernel[i], 1), w->dilation[i]), 1);
    cm_dim steps = cm_infer_mul(f, cm_infer_sub(f, in, 1), w->stride[i]);
    cm_dim sum = cm_infer_add(f, steps, extent);
    return a->output_padding.n ? cm_infer_add(f, sum, a->output_padding.v[i]) : sum;
}

static cm_status check_lists(cm_infer *f, const conv_transpose_attr *a, int n)
{
    int64_t given = a->output_shape.n;
    if (given != 0 && given != n && given != n + 2)
        return cm_fail(f->cx, CM_ERR_MODEL, "output_shape has %lld entries, wanted %d",
                       (long long)given, n);
    for (int64_t i = 0; i < given; i++)
        if (a->output_shape.v[i] < 0)
            return cm_fail(f->cx, CM_ERR_MODEL, "output_shape[%lld] is %lld", (long long)i,
                           (long long)a->output_shape.v[i]);
    if (a->output_padding.n != 0 && a->output_padding.n != n)
        return cm_fail(f->cx, CM_ERR_MODEL, "output_padding has %lld entries, wanted %d",
                       (long long)a->output_padding.n, n);
    for (int64_t i = 0; i < a->output_padding.n; i++)
        if (a->output_padding.v[i] < 0 || a->output_padding.v[i] > INT32_MAX)
            return cm_fail(f->cx, CM_ERR_MODEL, "output_padding[%lld] is %lld", (long long)i,
                           (long long)a->output_padding.v[i]);
    return CM_OK;
}

static cm_status spatial_dims(cm_infer *f, const conv_transpose_attr *a, const cm_window *w,
                              const cm_dim *in, cm_dim *out)
{
    for (int i = 0; i < w->n; i++) {
        int64_t v;
        if (a->output_shape.n) {
            out[i] = a->output_shape.v[a->output_shape.n - w->n + i];
        } else if (is_same(w)) {
            out[i] = cm_infer_mul(f, in[i], w->stride[i]);
        } else {
            cm_dim pads = w->pad_begin[i] + w->pad_end[i];
            out[i] = cm_infer_sub(f, whole(f, a, w, i, in[i]), pads);
        }
        if (cm_infer_const(f, in[i], &v) && v == 0 && !a->output_shape.n)
            out[i] = 0;
        if (cm_infer_const(f, out[i], &v) && v < 0)
            return cm_fail(f->cx, CM_ERR_MODEL, "pads leave %lld of spatial axis %d", (long long)v,
                           i);
    }
    return CM_OK;
}

static cm_status infer(cm_infer *f)
{
    const conv_transpose_attr *a = f->attr;
    if (a->group < 1)
        return cm_fail(f->cx, CM_ERR_MODEL, "group is %lld, wanted at least 1",
                       (long long)a->group);
    if (!cm_infer_ranked(f, 0) || !cm_infer_ranked(f, 1)) {
        cm_infer_unknown(f, 0);
        return CM_OK;
    }
    const cm_type *x = f->in[0].type, *w = f->in[1].type;
    if (x->rank < 3 || w->rank != x->rank)
        return cm_fail(f->cx, CM_ERR_MODEL,
                       "input of rank %d and weights of rank %d, wanted the same, at least 3",
                       x->rank, w->rank);
    int64_t c;
    if (cm_infer_const(f, w->dims[0], &c) && c % a->group != 0)
        return cm_fail(f->cx, CM_ERR_MODEL, "group=%lld does not divide %lld input channels",
                       (long long)a->group, (long long)c);
    CM_TRY(cm_infer_equal(f, "input channels", x->dims[1], w->dims[0]));
    cm_dim dims[CM_MAX_RANK] = {x->dims[0], cm_infer_mul(f, w->dims[1], a->group)};
    if (cm_infer_has(f, 2) && cm_infer_ranked(f, 2)) {
        if (cm_infer_rank(f, 2) != 1)
            return cm_fail(f->cx, CM_ERR_MODEL, "bias has rank %d, wanted 1", cm_infer_rank(f, 2));
        CM_TRY(cm_infer_equal(f, "bias elements", cm_infer_dim(f, 2, 0), dims[1]));
    }
    cm_window_attr wa = window_attr(a);
    cm_window window;
    CM_TRY(cm_window_read(f, &wa, x->rank - 2, w->dims + 2, &window));
    CM_TRY(check_lists(f, a, window.n));
    CM_TRY(spatial_dims(f, a, &window, x->dims + 2, dims + 2));
    return cm_infer_tensor(f, 0, x->rank, dims);
}

typedef struct {
    const double *w, *bias; /* w is [groups * channels, m, positions] */
    cm_tensor *y;
    int64_t groups, channels, m, positions, columns;
} job;

/* Row: output channel; column: (input channel, kernel position). */
static void load_weights(const void *arg, int64_t batch, int64_t row, int64_t col, int64_t n,
                         double *dst)
{
    const job *j = arg;
    int64_t group = batch % j->groups;
    while (n > 0) {
        int64_t c = col / j->positions, at = col % j->positions;
        int64_t run = cm_min_i64(n, j->positions - at);
        const double *src = j->w + ((group * j->channels + c) * j->m + row) * j->positions + at;
        memcpy(dst, src, (size_t)run * sizeof *dst);
        dst += run;
        col += run;
        n -= run;
    }
}

static void store(void *arg, int64_t batch, int64_t row, int64_t col, int64_t n, const double *src)
{
    const job *j = arg;
    double bias = j->bias ? j->bias[batch % j->groups * j->m + row] : 0;
    for (int64_t i = 0; i < n; i++)
        cm_set_f64(j->y->dtype, j->y->data, (batch * j->m + row) * j->columns + col + i,
                   src[i] + bias);
}

/* Padding from sizes: what the whole has over the output, the odd element at the end for SAME_UPPER
 * and at the beginning otherwise. */
static void fix_pads(const conv_transpose_attr *a, cm_patches *p)
{
    cm_window *w = &p->w;
    if (!a->output_shape.n && !is_same(w))
        return;
    for (int i = 0; i < w->n; i++) {
        int64_t all = (p->in[i] - 1) * w->stride[i] + (w->kernel[i] - 1) * w->dilation[i] + 1;
        if (a->output_padding.n)
            all += a->output_padding.v[i];
        int64_t total = cm_max_i64(all - p->out[i], 0);
        w->pad_begin[i] = w->auto_pad == CM_PAD_SAME_UPPER ? total / 2 : total - total / 2;
        w->pad_end[i] = total - w->pad_begin[i];
    }
}

static cm_status eval(cm_eval *e)
{
    const conv_transpose_attr *a = e->attr;
    const cm_tensor *x = cm_eval_in(e, 0), *w = cm_eval_in(e, 1);
    cm_tensor *y = cm_eval_out(e, 0);
    cm_patches p = {.n = x->rank - 2, .channels = w->dims[0] / a->group, .transposed = true};
    cm_window_attr wa = window_attr(a);
    for (int d = 0; d < p.n; d++) {
        p.in[d] = x->dims[d + 2];
        p.out[d] = y->dims[d + 2];
    }
    cm_window_of(&wa, p.n, w->dims + 2, p.in, &p.w);
    fix_pads(a, &p);
    CM_TRY(cm_eval_as_f64(e, 0, &p.x));
    job j = {.y = y, .groups = a->group, .channels = p.channels, .m = w->dims[1]};
    j.positions = cm_dims_product(w->dims, 2, w->rank);
    j.columns = cm_patches_columns(&p);
    CM_TRY(cm_eval_as_f64(e, 1, &j.w));
    if (cm_eval_has(e, 2))
        CM_TRY(cm_eval_as_f64(e, 2, &j.bias));
    cm_gemm_f64 g = {x->dims[0] * a->group,
                     j.m,
                     j.columns,
                     cm_patches_rows(&p),
                     load_weights,
                     cm_patches_load_f64,
                     store,
                     &j,
                     &p,
                     &j};
    return cm_gemm_run_f64(e->cx, e->threads, &g);
}

static void cost(const cm_infer *f, cm_cost *c)
{
    const cm_type *w = f->in[1].type;
    double k = 1;
    for (int d = 1; d < w->rank; d++)
        k *= cm_infer_extent(f, w->dims[d]);
    c->ops = 2 * k * cm_infer_volume(f, f->in[0].type);
}

const cm_family cm_family_conv_transpose = {
    .name = "conv_transpose", .infer = infer, .eval = eval, .cost = cost};
