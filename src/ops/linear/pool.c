/* pool.c -- MaxPool, AveragePool and LpPool: a window slides over the spatial axes.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops/eval.h"

#include <math.h>

#include "base/size.h"
#include "ops/math.h"
#include "ops/linear/window_shape.h"

/* One struct for the three, so that they share code; each row's descriptor names its own fields. */
typedef struct {
    uint64_t present;
    cm_str auto_pad;
    int64_t ceil_mode;
    cm_ints dilations, kernel_shape, pads, strides;
    int64_t storage_order, count_include_pad, p;
    int64_t count_overhang; /* ours: with count_include_pad, count past the end padding too, as
                             * AveragePool of opsets 19 to 21 does in ceil_mode */
} pool_attr;

#define SHARED_FIELDS                                                                              \
    CM_ATTR_STR(pool_attr, auto_pad, "NOTSET"), CM_ATTR_INT(pool_attr, ceil_mode, 0),              \
        CM_ATTR_INTS(pool_attr, dilations, 0), CM_ATTR_INTS(pool_attr, kernel_shape, CM_REQUIRED), \
        CM_ATTR_INTS(pool_attr, pads, 0), CM_ATTR_INTS(pool_attr, strides, 0)

CM_ATTRS(max_pool, pool_attr, SHARED_FIELDS, CM_ATTR_INT(pool_attr, storage_order, 0))
CM_ATTRS(average_pool, pool_attr, SHARED_FIELDS, CM_ATTR_INT(pool_attr, count_include_pad, 0),
         CM_ATTR_INT(pool_attr, count_overhang, 0))
CM_ATTRS(lp_pool, pool_attr, SHARED_FIELDS, CM_ATTR_INT(pool_attr, p, 2))

static cm_window_attr window_attr(const pool_attr *a)
{
    return (cm_window_attr){a->auto_pad, a->kernel_shape, a->strides, a->dilations, a->pads};
}

static cm_status infer(cm_infer *f)
{
    const pool_attr *a = f->attr;
    if (f->op->id == CM_OP_LP_POOL && a->p < 1)
        return cm_fail(f->cx, CM_ERR_MODEL, "p is %lld, wanted at least 1", (long long)a->p);
    if (!cm_infer_ranked(f, 0)) {
        cm_infer_unknown(f, 0);
        cm_infer_unknown(f, 1);
        return CM_OK;
    }
    const cm_type *x = f->in[0].type;
    if (x->rank < 3)
        return cm_fail(f->cx, CM_ERR_MODEL, "input of rank %d, wanted at least 3", x->rank);
    cm_window_attr wa = window_attr(a);
    cm_window w;
    CM_TRY(cm_window_read(f, &wa, x->rank - 2, NULL, &w));
    cm_dim dims[CM_MAX_RANK] = {x->dims[0], x->dims[1]};
    CM_TRY(cm_window_out(f, &w, x->dims + 2, a->ceil_mode != 0, dims + 2));
    CM_TRY(cm_infer_tensor(f, 0, x->rank, dims));
    return cm_infer_tensor(f, 1, x->rank, dims);
}

typedef struct {
    const cm_ctx *cx;
    const pool_attr *a;
    cm_op_id op;
    cm_window w;
    int64_t in[CM_MAX_RANK], out[CM_MAX_RANK], in_volume, out_volume;
    const double *x;
    cm_tensor *y;     /* NULL: not wanted */
    int64_t *indices; /* NULL: not wanted */
} job;

/* What one window saw. */
typedef struct {
    double best, sum;
    int64_t at;      /* of the best, in the plane, row-major; -1: all padding */
    double n_inside; /* elements inside the input */
} seen;

/* Window positions along `axis` that fall in [low, high): first and end. `from` is where position 0
 * falls. */
static void span(const cm_window *w, int axis, int64_t from, int64_t low, int64_t high,
                 int64_t *first, int64_t *end)
{
    int64_t d = w->dilation[axis];
    *first = from < low ? cm_ceil_div(low - from, d) : 0;
    *end = from < high ? cm_min_i64(w->kernel[axis], cm_ceil_div(high - from, d)) : 0;
    *end = cm_max_i64(*first, *end);
}

static void take(const job *j, double v, int64_t at, seen *s)
{
    switch (j->op) {
    case CM_OP_MAX_POOL:
        if (s->at < 0 || v > s->best || v != v) {
            s->best = v;
            s->at = at;
        }
        break;
    case CM_OP_LP_POOL:
        v = fabs(v);
        s->sum += j->a->p == 1 ? v : j->a->p == 2 ? v * v : cm_pow(v, (double)j->a->p);
        break;
    default:
        s->sum += v;
    }
}

/* Walk the part of the window at output position `o` that lies inside the input. */
static seen walk(const job *j, const double *x, const int64_t *o)
{
    int64_t first[CM_MAX_RANK], end[CM_MAX_RANK], k[CM_MAX_RANK], from[CM_MAX_RANK];
    seen s = {.best = -INFINITY, .at = -1, .n_inside = 1};
    int n = j->w.n, last = n - 1;
    for (int d = 0; d < n; d++) {
        from[d] = o[d] * j->w.stride[d] - j->w.pad_begin[d];
        span(&j->w, d, from[d], 0, j->in[d], &first[d], &end[d]);
        s.n_inside *= (double)(end[d] - first[d]);
        k[d] = first[d];
    }
    if (s.n_inside == 0)
        return s;
    for (;;) {
        int64_t line = 0;
        for (int d = 0; d < last; d++)
            line = (line + from[d] + k[d] * j->w.dilation[d]) * j->in[d + 1];
        for (int64_t i = first[last]; i < end[last]; i++) {
            int64_t at = line + from[last] + i * j->w.dilation[last];
            take(j, x[at], at, &s);
        }
        int d = last - 1;
        for (; d >= 0 && ++k[d] == end[d]; d--)
            k[d] = first[d];
        if (d < 0)
            return s;
    }
}

/* The divisor of an average: elements inside the input, or inside the padded input. */
static double divisor(const job *j, const int64_t *o, const seen *s)
{
    if (!j->a->count_include_pad)
        return s->n_inside;
    double n = 1;
    for (int d = 0; d < j->w.n; d++) {
        int64_t first, end, from = o[d] * j->w.stride[d];
        int64_t padded = j->in[d] + j->w.pad_begin[d] + j->w.pad_end[d];
        span(&j->w, d, from, 0, padded, &first, &end);
        n *= (double)(j->a->count_overhang ? j->w.kernel[d] : end - first);
    }
    return n;
}

static double lp_root(double sum, int64_t p)
{
    return p == 1 ? sum : p == 2 ? sqrt(sum) : cm_pow(sum, 1.0 / (double)p);
}

static double result(const job *j, const int64_t *o, const seen *s)
{
    switch (j->op) {
    case CM_OP_MAX_POOL:
        if (s->at < 0 && j->y && cm_dtype_is_integer(j->y->dtype))
            return j->y->dtype == CM_I8 ? INT8_MIN : 0;
        return s->best;
    case CM_OP_LP_POOL:
        return lp_root(s->sum, j->a->p);
    default:
        return s->n_inside == 0 ? 0 : s->sum / divisor(j, o, s);
    }
}

/* The index that MaxPool reports for element `at` of plane `plane`. */
static int64_t index_of(const job *j, int64_t plane, int64_t at)
{
    if (at < 0)
        return -1;
    if (j->a->storage_order == 0)
        return plane * j->in_volume + at;
    int64_t column_major = 0, weight = j->in_volume;
    for (int d = j->w.n - 1; d >= 0; d--) {
        weight /= j->in[d];
        column_major += at % j->in[d] * weight;
        at /= j->in[d];
    }
    return plane * j->in_volume + column_major;
}

static void planes(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    for (int64_t plane = begin; plane < end; plane++) {
        int64_t o[CM_MAX_RANK] = {0};
        for (int64_t i = 0; i < j->out_volume; i++) {
            if (i % 256 == 0 && cm_is_cancelled(j->cx))
                return;
            seen s = walk(j, j->x + plane * j->in_volume, o);
            int64_t at = plane * j->out_volume + i;
            if (j->y)
                cm_set_f64(j->y->dtype, j->y->data, at, result(j, o, &s));
            if (j->indices)
                j->indices[at] = index_of(j, plane, s.at);
            for (int d = j->w.n - 1; d >= 0 && ++o[d] == j->out[d]; d--)
                o[d] = 0;
        }
    }
}

static cm_status eval(cm_eval *e)
{
    const cm_tensor *x = cm_eval_in(e, 0);
    job j = {.cx = e->cx, .a = e->attr, .op = e->op->id};
    cm_tensor *y = cm_eval_wants(e, 0) ? cm_eval_out(e, 0) : NULL;
    cm_tensor *indices = cm_eval_wants(e, 1) ? cm_eval_out(e, 1) : NULL;
    const cm_tensor *shape = y ? y : indices;
    if (!shape)
        return CM_OK;
    int n = x->rank - 2;
    for (int d = 0; d < n; d++) {
        j.in[d] = x->dims[d + 2];
        j.out[d] = shape->dims[d + 2];
    }
    cm_window_attr wa = window_attr(j.a);
    cm_window_of(&wa, n, NULL, j.in, &j.w);
    j.in_volume = cm_dims_product(j.in, 0, n);
    j.out_volume = cm_dims_product(j.out, 0, n);
    j.y = y;
    j.indices = indices ? indices->data : NULL;
    CM_TRY(cm_eval_as_f64(e, 0, &j.x));
    cm_parallel(e->threads, x->dims[0] * x->dims[1], 1, planes, &j);
    return cm_check_cancel(e->cx);
}

static void cost(const cm_infer *f, cm_cost *c)
{
    const pool_attr *a = f->attr;
    c->ops = cm_infer_volume(f, &f->out[0].type);
    for (int64_t i = 0; i < a->kernel_shape.n; i++)
        c->ops *= (double)a->kernel_shape.v[i];
}

const cm_family cm_family_pool = {.name = "pool", .infer = infer, .eval = eval, .cost = cost};
