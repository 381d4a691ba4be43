/* conv.c -- Conv: any number of spatial axes, as a matrix product of weights and patches.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops/eval.h"
#include "ops/linear/gemm.h"
#include "ops/linear/patches.h"

typedef struct {
    uint64_t present;
    cm_str auto_pad;
    cm_ints dilations;
    int64_t group;
    cm_ints kernel_shape, pads, strides;
} conv_attr;

CM_ATTRS(conv, conv_attr, CM_ATTR_STR(conv_attr, auto_pad, "NOTSET"),
         CM_ATTR_INTS(conv_attr, dilations, 0), CM_ATTR_INT(conv_attr, group, 1),
         CM_ATTR_INTS(conv_attr, kernel_shape, 0), CM_ATTR_INTS(conv_attr, pads, 0),
         CM_ATTR_INTS(conv_attr, strides, 0))

static cm_window_attr window_attr(const conv_attr *a)
{
    return (cm_window_attr){a->auto_pad, a->kernel_shape, a->strides, a->dilations, a->pads};
}

/* Channels: W is [M, C / group, kernel...], B is [M]. */
static cm_status check_channels(cm_infer *f, int64_t group)
{
    const cm_type *x = f->in[0].type, *w = f->in[1].type;
    int64_t c, m;
    if (cm_infer_const(f, x->dims[1], &c) && c % group != 0)
        return cm_fail(f->cx, CM_ERR_MODEL, "group=%lld does not divide %lld input channels",
                       (long long)group, (long long)c);
    if (cm_infer_const(f, w->dims[0], &m) && m % group != 0)
        return cm_fail(f->cx, CM_ERR_MODEL, "group=%lld does not divide %lld output channels",
                       (long long)group, (long long)m);
    CM_TRY(cm_infer_equal(f, "input channels", x->dims[1], cm_infer_mul(f, w->dims[1], group)));
    if (!cm_infer_has(f, 2) || !cm_infer_ranked(f, 2))
        return CM_OK;
    if (cm_infer_rank(f, 2) != 1)
        return cm_fail(f->cx, CM_ERR_MODEL, "bias has rank %d, wanted 1", cm_infer_rank(f, 2));
    return cm_infer_equal(f, "bias elements", cm_infer_dim(f, 2, 0), w->dims[0]);
}

static cm_status infer(cm_infer *f)
{
    const conv_attr *a = f->attr;
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
    CM_TRY(check_channels(f, a->group));
    cm_window_attr wa = window_attr(a);
    cm_window window;
    CM_TRY(cm_window_read(f, &wa, x->rank - 2, w->dims + 2, &window));
    cm_dim dims[CM_MAX_RANK] = {x->dims[0], w->dims[0]};
    CM_TRY(cm_window_out(f, &window, x->dims + 2, false, dims + 2));
    return cm_infer_tensor(f, 0, x->rank, dims);
}

typedef struct {
    cm_matrix weights; /* [groups, M / group, C / group * kernel] */
    cm_tensor *y;
    const double *bias; /* NULL: none */
    int64_t groups, m, columns;
} job;

static void load_weights(const void *arg, int64_t batch, int64_t row, int64_t col, int64_t n,
                         double *dst)
{
    const job *j = arg;
    cm_matrix_load_f64(&j->weights, batch % j->groups, row, col, n, dst);
}

static void store(void *arg, int64_t batch, int64_t row, int64_t col, int64_t n, const double *src)
{
    const job *j = arg;
    double sum[64];
    char *dst = (char *)j->y->data +
                ((batch * j->m + row) * j->columns + col) * (int64_t)cm_dtype_size(j->y->dtype);
    double bias = j->bias ? j->bias[batch % j->groups * j->m + row] : 0;
    for (int64_t at = 0; at < n; at += CM_COUNT(sum)) {
        int64_t part = n - at < CM_COUNT(sum) ? n - at : CM_COUNT(sum);
        for (int64_t i = 0; i < part; i++)
            sum[i] = src[at + i] + bias;
        cm_store_f64(j->y->dtype, sum, part, dst + at * (int64_t)cm_dtype_size(j->y->dtype));
    }
}

static cm_status eval(cm_eval *e)
{
    const conv_attr *a = e->attr;
    const cm_tensor *x = cm_eval_in(e, 0), *w = cm_eval_in(e, 1);
    cm_tensor *y = cm_eval_out(e, 0);
    cm_patches p = {.n = x->rank - 2, .channels = w->dims[1]};
    cm_window_attr wa = window_attr(a);
    for (int d = 0; d < p.n; d++) {
        p.in[d] = x->dims[d + 2];
        p.out[d] = y->dims[d + 2];
    }
    cm_window_of(&wa, p.n, w->dims + 2, p.in, &p.w);
    CM_TRY(cm_eval_as_f64(e, 0, &p.x));
    int64_t k = cm_patches_rows(&p);
    job j = {.y = y, .groups = a->group, .m = w->dims[0] / a->group};
    j.columns = cm_patches_columns(&p);
    j.weights = (cm_matrix){w->dtype, w->data, j.m * k, k, 1, NULL};
    if (cm_eval_has(e, 2))
        CM_TRY(cm_eval_as_f64(e, 2, &j.bias));
    cm_gemm_f64 g = {x->dims[0] * a->group, j.m,   j.columns, k,  load_weights,
                     cm_patches_load_f64,   store, &j,        &p, &j};
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

const cm_family cm_family_conv = {.name = "conv", .infer = infer, .eval = eval, .cost = cost};
