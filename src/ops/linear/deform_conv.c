/* deform_conv.c -- DeformConv: a convolution whose samples offsets move and a mask scales.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops/eval.h"
#include "ops/linear/gemm.h"
#include "ops/linear/window_shape.h"

#include <math.h>

#include "base/size.h"

typedef struct {
    uint64_t present;
    cm_ints dilations;
    int64_t group;
    cm_ints kernel_shape;
    int64_t offset_group;
    cm_ints pads, strides;
} deform_attr;

CM_ATTRS(deform_conv, deform_attr, CM_ATTR_INTS(deform_attr, dilations, 0),
         CM_ATTR_INT(deform_attr, group, 1), CM_ATTR_INTS(deform_attr, kernel_shape, 0),
         CM_ATTR_INT(deform_attr, offset_group, 1), CM_ATTR_INTS(deform_attr, pads, 0),
         CM_ATTR_INTS(deform_attr, strides, 0))

static cm_window_attr window_attr(const deform_attr *a)
{
    return (cm_window_attr){.kernel_shape = a->kernel_shape,
                            .strides = a->strides,
                            .dilations = a->dilations,
                            .pads = a->pads};
}

static cm_status check_divides(cm_infer *f, const char *name, int64_t group, cm_dim channels)
{
    int64_t c;
    if (group < 1 || (cm_infer_const(f, channels, &c) && c % group != 0))
        return cm_fail(f->cx, CM_ERR_MODEL, "%s=%lld does not divide the channels", name,
                       (long long)group);
    return CM_OK;
}

/* offset or mask, input i: [N, channels, out...]. */
static cm_status check_field(cm_infer *f, int i, cm_dim channels, int rank, const cm_dim *out)
{
    if (!cm_infer_has(f, i) || !cm_infer_ranked(f, i))
        return CM_OK;
    const cm_type *t = f->in[i].type;
    if (t->rank != rank)
        return cm_fail(f->cx, CM_ERR_MODEL, "input %d has rank %d, wanted %d", i, t->rank, rank);
    CM_TRY(cm_infer_equal(f, "batch of offset or mask", t->dims[0], out[0]));
    CM_TRY(cm_infer_equal(f, "channels of offset or mask", t->dims[1], channels));
    for (int d = 2; d < rank; d++)
        CM_TRY(cm_infer_equal(f, "size of offset or mask", t->dims[d], out[d]));
    return CM_OK;
}

static cm_status infer(cm_infer *f)
{
    const deform_attr *a = f->attr;
    if (!cm_infer_ranked(f, 0) || !cm_infer_ranked(f, 1)) {
        cm_infer_unknown(f, 0);
        return CM_OK;
    }
    const cm_type *x = f->in[0].type, *w = f->in[1].type;
    if (x->rank < 3 || w->rank != x->rank)
        return cm_fail(f->cx, CM_ERR_MODEL,
                       "input of rank %d and weights of rank %d, wanted the same, at least 3",
                       x->rank, w->rank);
    CM_TRY(check_divides(f, "group", a->group, x->dims[1]));
    CM_TRY(check_divides(f, "group", a->group, w->dims[0]));
    CM_TRY(check_divides(f, "offset_group", a->offset_group, x->dims[1]));
    CM_TRY(cm_infer_equal(f, "input channels", x->dims[1], cm_infer_mul(f, w->dims[1], a->group)));
    cm_window_attr wa = window_attr(a);
    cm_window window;
    CM_TRY(cm_window_read(f, &wa, x->rank - 2, w->dims + 2, &window));
    cm_dim dims[CM_MAX_RANK] = {x->dims[0], w->dims[0]}, positions = a->offset_group;
    CM_TRY(cm_window_out(f, &window, x->dims + 2, false, dims + 2));
    for (int d = 0; d < window.n; d++)
        positions = cm_infer_mul(f, positions, window.kernel[d]);
    CM_TRY(check_field(f, 2, cm_infer_mul(f, positions, window.n), x->rank, dims));
    CM_TRY(check_field(f, 4, positions, x->rank, dims));
    if (cm_infer_has(f, 3) && cm_infer_ranked(f, 3)) {
        if (cm_infer_rank(f, 3) != 1)
            return cm_fail(f->cx, CM_ERR_MODEL, "bias has rank %d, wanted 1", cm_infer_rank(f, 3));
        CM_TRY(cm_infer_equal(f, "bias elements", cm_infer_dim(f, 3, 0), w->dims[0]));
    }
    return cm_infer_tensor(f, 0, x->rank, dims);
}

typedef struct {
    const deform_attr *a;
    cm_window w;
    int64_t in[CM_MAX_RANK], out[CM_MAX_RANK];
    int64_t in_volume, columns, positions, channels, m; /* channels, m: of one group */
    int64_t image_channels;
    const double *x, *offset, *mask, *bias; /* mask, bias: NULL when absent */
    cm_matrix weights;
    cm_tensor *y;
} job;

/* Linear interpolation of plane `x` at `at`; what is outside counts as 0. */
static double sample(const job *j, const double *x, const double *at)
{
    int n = j->w.n;
    double low[CM_MAX_RANK], sum = 0;
    for (int d = 0; d < n; d++) {
        if (!(at[d] > -1 && at[d] < (double)j->in[d]))
            return 0;
        low[d] = floor(at[d]);
    }
    for (int64_t corner = 0; corner < (int64_t)1 << n; corner++) {
        double weight = 1;
        int64_t index = 0;
        bool inside = true;
        for (int d = 0; d < n; d++) {
            int up = corner >> d & 1;
            int64_t i = (int64_t)low[d] + up;
            weight *= up ? at[d] - low[d] : 1 - (at[d] - low[d]);
            inside = inside && i >= 0 && i < j->in[d];
            index = index * j->in[d] + i;
        }
        if (inside)
            sum += weight * x[index];
    }
    return sum;
}

/* Row: (channel, kernel position); columns: output positions. */
static void load_samples(const void *arg, int64_t batch, int64_t row, int64_t col, int64_t n,
                         double *dst)
{
    const job *j = arg;
    int64_t groups = j->a->group, image = batch / groups;
    int64_t channel = batch % groups * j->channels + row / j->positions, k = row % j->positions;
    int64_t set = channel / (j->image_channels / j->a->offset_group);
    const double *x = j->x + (image * j->image_channels + channel) * j->in_volume;
    int64_t field = (image * j->a->offset_group + set) * j->positions + k;
    const double *offset = j->offset + field * j->w.n * j->columns;
    int64_t kernel[CM_MAX_RANK];
    for (int d = j->w.n - 1; d >= 0; d--) {
        kernel[d] = k % j->w.kernel[d];
        k /= j->w.kernel[d];
    }
    for (int64_t i = 0; i < n; i++) {
        double at[CM_MAX_RANK];
        int64_t o = col + i;
        for (int d = j->w.n - 1; d >= 0; d--) {
            int64_t fixed =
                o % j->out[d] * j->w.stride[d] - j->w.pad_begin[d] + kernel[d] * j->w.dilation[d];
            at[d] = (double)fixed + offset[d * j->columns + col + i];
            o /= j->out[d];
        }
        dst[i] = sample(j, x, at);
        if (j->mask)
            dst[i] *= j->mask[field * j->columns + col + i];
    }
}

static void load_weights(const void *arg, int64_t batch, int64_t row, int64_t col, int64_t n,
                         double *dst)
{
    const job *j = arg;
    cm_matrix_load_f64(&j->weights, batch % j->a->group, row, col, n, dst);
}

static void store(void *arg, int64_t batch, int64_t row, int64_t col, int64_t n, const double *src)
{
    const job *j = arg;
    double bias = j->bias ? j->bias[batch % j->a->group * j->m + row] : 0;
    for (int64_t i = 0; i < n; i++)
        cm_set_f64(j->y->dtype, j->y->data, (batch * j->m + row) * j->columns + col + i,
                   src[i] + bias);
}

static cm_status eval(cm_eval *e)
{
    const cm_tensor *x = cm_eval_in(e, 0), *w = cm_eval_in(e, 1);
    job j = {.a = e->attr, .y = cm_eval_out(e, 0), .image_channels = x->dims[1]};
    int n = x->rank - 2;
    for (int d = 0; d < n; d++) {
        j.in[d] = x->dims[d + 2];
        j.out[d] = j.y->dims[d + 2];
    }
    cm_window_attr wa = window_attr(j.a);
    cm_window_of(&wa, n, w->dims + 2, j.in, &j.w);
    j.in_volume = cm_dims_product(j.in, 0, n);
    j.columns = cm_dims_product(j.out, 0, n);
    j.positions = cm_dims_product(w->dims, 2, w->rank);
    j.channels = w->dims[1];
    j.m = w->dims[0] / j.a->group;
    CM_TRY(cm_eval_as_f64(e, 0, &j.x));
    CM_TRY(cm_eval_as_f64(e, 2, &j.offset));
    if (cm_eval_has(e, 3))
        CM_TRY(cm_eval_as_f64(e, 3, &j.bias));
    if (cm_eval_has(e, 4))
        CM_TRY(cm_eval_as_f64(e, 4, &j.mask));
    int64_t k = j.channels * j.positions;
    j.weights = (cm_matrix){w->dtype, w->data, j.m * k, k, 1, NULL};
    cm_gemm_f64 g = {
        x->dims[0] * j.a->group, j.m, j.columns, k, load_weights, load_samples, store, &j, &j, &j};
    return cm_gemm_run_f64(e->cx, e->threads, &g);
}

static void cost(const cm_infer *f, cm_cost *c)
{
    const cm_type *w = f->in[1].type;
    double k = 1;
    for (int d = 1; d < w->rank; d++)
        k *= cm_infer_extent(f, w->dims[d]);
    c->ops = 2 * k * cm_infer_volume(f, &f->out[0].type);
}

const cm_family cm_family_deform_conv = {
    .name = "deform_conv", .infer = infer, .eval = eval, .cost = cost};
