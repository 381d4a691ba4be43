/* grid.c -- AffineGrid and GridSample: sampling positions from affine matrices, and sampling.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops/eval.h"

#include <math.h>

#include "base/size.h"

typedef struct {
    uint64_t present;
    int64_t align_corners;
} affine_attr;

typedef struct {
    uint64_t present;
    int64_t align_corners;
    cm_str mode, padding_mode;
} sample_attr;

CM_ATTRS(affine_grid, affine_attr, CM_ATTR_INT(affine_attr, align_corners, 0))
CM_ATTRS(grid_sample, sample_attr, CM_ATTR_INT(sample_attr, align_corners, 0),
         CM_ATTR_STR(sample_attr, mode, "linear"), CM_ATTR_STR(sample_attr, padding_mode, "zeros"))

typedef enum { NEAREST = 1, LINEAR = 2, CUBIC = 4 } mode; /* the number of taps along an axis */
typedef enum { ZEROS, BORDER, REFLECTION } padding;

static bool is(cm_str s, const char *word)
{
    return cm_str_equal(s, cm_str_of(word));
}

static bool parse_mode(cm_str s, mode *out)
{
    bool linear = is(s, "linear") || is(s, "bilinear"), cubic = is(s, "cubic") || is(s, "bicubic");
    *out = linear ? LINEAR : cubic ? CUBIC : NEAREST;
    return linear || cubic || is(s, "nearest");
}

static bool parse_padding(cm_str s, padding *out)
{
    *out = is(s, "border") ? BORDER : is(s, "reflection") ? REFLECTION : ZEROS;
    return *out != ZEROS || is(s, "zeros");
}

static cm_status infer_affine(cm_infer *f)
{
    cm_dim size[CM_MAX_ELEMS], dims[5];
    int n, rank = cm_infer_rank(f, 0);
    if (rank >= 0 && rank != 3)
        return cm_fail(f->cx, CM_ERR_MODEL, "theta has rank %d, wanted 3", rank);
    if (!cm_infer_elems(f, 1, size, &n)) {
        if (!f->dims)
            return cm_fail(f->cx, CM_ERR_MODEL, "size has too many elements");
        if (!cm_infer_ranked(f, 1) || cm_infer_rank(f, 1) != 1 ||
            (cm_infer_dim(f, 1, 0) != 4 && cm_infer_dim(f, 1, 0) != 5)) {
            cm_infer_unknown(f, 0);
            return CM_OK;
        }
        n = (int)cm_infer_dim(f, 1, 0);
        size[0] = rank == 3 ? cm_infer_dim(f, 0, 0) : cm_infer_fresh(f, "size");
        for (int i = 2; i < n; i++)
            size[i] = cm_infer_fresh(f, "size");
    }
    if (n != 4 && n != 5)
        return cm_fail(f->cx, CM_ERR_MODEL, "size has %d elements, wanted 4 or 5", n);
    if (rank == 3) {
        CM_TRY(cm_infer_equal(f, "matrices of theta", cm_infer_dim(f, 0, 0), size[0]));
        CM_TRY(cm_infer_equal(f, "rows of theta", cm_infer_dim(f, 0, 1), n - 2));
        CM_TRY(cm_infer_equal(f, "columns of theta", cm_infer_dim(f, 0, 2), n - 1));
    }
    dims[0] = size[0];
    for (int i = 2; i < n; i++)
        dims[i - 1] = size[i];
    dims[n - 1] = n - 2;
    return cm_infer_tensor(f, 0, n, dims);
}

static cm_status infer_sample(cm_infer *f)
{
    const sample_attr *a = f->attr;
    mode m;
    padding p;
    if (!parse_mode(a->mode, &m) || !parse_padding(a->padding_mode, &p))
        return cm_fail(f->cx, CM_ERR_MODEL, "mode '%.*s' or padding_mode '%.*s' is not known",
                       (int)(a->mode.n < 40 ? a->mode.n : 40), a->mode.p,
                       (int)(a->padding_mode.n < 40 ? a->padding_mode.n : 40), a->padding_mode.p);
    cm_dtype_kind kind = cm_dtype_get(f->in[0].type->dtype)->kind;
    if (kind == CM_KIND_STRING || kind == CM_KIND_COMPLEX)
        return cm_fail(f->cx, CM_ERR_UNSUPPORTED, "elements of %s cannot be interpolated",
                       cm_dtype_name(f->in[0].type->dtype));
    if (!cm_infer_ranked(f, 0) || !cm_infer_ranked(f, 1)) {
        cm_infer_unknown(f, 0);
        return CM_OK;
    }
    const cm_type *x = f->in[0].type, *g = f->in[1].type;
    if (x->rank < 3 || g->rank != x->rank)
        return cm_fail(f->cx, CM_ERR_MODEL,
                       "input of rank %d and grid of rank %d, wanted the same, at least 3", x->rank,
                       g->rank);
    enum { MOST_CUBIC = 8 }; /* axes: the taps of one sample are 4 to their number */
    if (m == CUBIC && x->rank - 2 > MOST_CUBIC)
        return cm_fail(f->cx, CM_ERR_UNSUPPORTED, "cubic sampling along %d axes, the most is %d",
                       x->rank - 2, MOST_CUBIC);
    CM_TRY(cm_infer_equal(f, "batch of the grid", g->dims[0], x->dims[0]));
    CM_TRY(cm_infer_equal(f, "coordinates in the grid", g->dims[g->rank - 1], x->rank - 2));
    cm_dim dims[CM_MAX_RANK] = {x->dims[0], x->dims[1]};
    for (int d = 2; d < x->rank; d++) {
        int64_t in, out;
        dims[d] = g->dims[d - 1];
        if (cm_infer_const(f, x->dims[d], &in) && in == 0 &&
            !(cm_infer_const(f, dims[d], &out) && out == 0))
            return cm_fail(f->cx, CM_ERR_MODEL, "spatial axis %d of the input is empty", d - 2);
    }
    return cm_infer_tensor(f, 0, x->rank, dims);
}

static cm_status infer(cm_infer *f)
{
    return f->op->id == CM_OP_AFFINE_GRID ? infer_affine(f) : infer_sample(f);
}

/* Position i of n, evenly spaced in [-1, 1]. */
static double spaced(int64_t i, int64_t n, bool align_corners)
{
    if (align_corners)
        return n > 1 ? -1 + 2.0 * (double)i / (double)(n - 1) : -1;
    return (2.0 * (double)i + 1) / (double)n - 1;
}

static cm_status eval_affine(cm_eval *e)
{
    const affine_attr *a = e->attr;
    cm_tensor *y = cm_eval_out(e, 0);
    int n = y->rank - 2; /* coordinates */
    const double *theta;
    CM_TRY(cm_eval_as_f64(e, 0, &theta));
    int64_t points = cm_dims_product(y->dims, 0, y->rank - 1), index[CM_MAX_RANK] = {0};
    for (int64_t i = 0; i < points; i++) {
        const double *m = theta + index[0] * n * (n + 1);
        for (int r = 0; r < n; r++) {
            double sum = m[r * (n + 1) + n];
            for (int c = 0; c < n; c++) /* x is the innermost axis */
                sum += m[r * (n + 1) + c] *
                       spaced(index[n - c], y->dims[n - c], a->align_corners != 0);
            cm_set_f64(y->dtype, y->data, i * n + r, sum);
        }
        for (int d = n; d >= 0 && ++index[d] == y->dims[d]; d--)
            index[d] = 0;
    }
    return CM_OK;
}

/* x mirrored at low and high until it lies between them. */
static double reflect(double x, double low, double high)
{
    double range = high - low;
    if (x >= low && x <= high)
        return x;
    if (!(range > 0) || !isfinite(x))
        return low;
    double over = x < low ? low - x : x - high;
    double times = floor(over / range), rest = over - times * range;
    bool even = fmod(times, 2) == 0;
    return (x < low) == even ? low + rest : high - rest;
}

typedef struct {
    const cm_ctx *cx;
    mode mode;
    padding padding;
    bool align;
    int n; /* spatial axes */
    const int64_t *in;
    int64_t in_volume, out_volume, channels;
    const double *x, *grid;
    cm_tensor *y;
} job;

/* The bounds between which coordinates are inside. */
static void bounds(const job *j, int axis, double *low, double *high)
{
    *low = j->align ? 0 : -0.5;
    *high = (double)j->in[axis] - (j->align ? 1 : 0.5);
}

/* The element that tap position `at` reads; -1: a zero. */
static int64_t tap_index(const job *j, int axis, double at)
{
    double low, high, last = (double)(j->in[axis] - 1);
    bounds(j, axis, &low, &high);
    if (at >= 0 && at <= last)
        return (int64_t)at;
    if (j->padding == ZEROS)
        return -1;
    if (j->padding == REFLECTION)
        at = reflect(at, low, high);
    return at >= last ? (int64_t)last : at > 0 ? (int64_t)at : 0;
}

static double cubic(double d)
{
    const double a = -0.75;
    d = fabs(d);
    if (d <= 1)
        return ((a + 2) * d - (a + 3)) * d * d + 1;
    return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
}

/* Taps along `axis` for the normalised coordinate g. */
static void taps(const job *j, int axis, double g, int64_t *index, double *weight)
{
    double size = (double)j->in[axis], low, high;
    double x = j->align ? (g + 1) / 2 * (size - 1) : ((g + 1) * size - 1) / 2;
    bounds(j, axis, &low, &high);
    if (j->mode == NEAREST)
        x = rint(x);
    if (!(x >= low && x <= high) && j->padding == BORDER && j->mode != CUBIC)
        x = x > 0 ? fmin(x, size - 1) : 0;
    else if (!(x >= low && x <= high) && j->padding == REFLECTION)
        x = reflect(x, low, high);
    double first = j->mode == NEAREST ? x : floor(x) - (j->mode == CUBIC);
    for (int t = 0; t < (int)j->mode; t++) {
        double at = first + t, d = fabs(at - x);
        index[t] = tap_index(j, axis, at);
        weight[t] = j->mode == NEAREST ? 1 : j->mode == LINEAR ? 1 - d : cubic(d);
    }
}

/* Item: one position of the output in one image; every channel shares its taps. */
static void positions(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    int64_t count = 1;
    for (int d = 0; d < j->n; d++)
        count *= j->mode;
    for (int64_t item = begin; item < end; item++) {
        if (item % 64 == 0 && cm_is_cancelled(j->cx))
            return;
        int64_t index[CM_MAX_RANK][CUBIC], image = item / j->out_volume;
        double weight[CM_MAX_RANK][CUBIC];
        for (int d = 0; d < j->n; d++) /* the innermost coordinate comes first */
            taps(j, d, j->grid[item * j->n + j->n - 1 - d], index[d], weight[d]);
        for (int64_t c = 0; c < j->channels; c++) {
            const double *x = j->x + (image * j->channels + c) * j->in_volume;
            double sum = 0;
            for (int64_t t = 0; t < count; t++) {
                int64_t at = 0, left = t;
                double w = 1;
                for (int d = 0; d < j->n; d++, left /= j->mode) {
                    int64_t i = index[d][left % j->mode];
                    w *= weight[d][left % j->mode];
                    at = at < 0 || i < 0 ? -1 : at * j->in[d] + i;
                }
                if (at >= 0)
                    sum += w * x[at];
            }
            cm_set_f64(j->y->dtype, j->y->data,
                       (image * j->channels + c) * j->out_volume + item % j->out_volume, sum);
        }
    }
}

static cm_status eval_sample(cm_eval *e)
{
    const sample_attr *a = e->attr;
    const cm_tensor *x = cm_eval_in(e, 0);
    cm_tensor *y = cm_eval_out(e, 0);
    job j = {
        .cx = e->cx, .align = a->align_corners != 0, .n = x->rank - 2, .in = x->dims + 2, .y = y};
    parse_mode(a->mode, &j.mode);
    parse_padding(a->padding_mode, &j.padding);
    j.in_volume = cm_dims_product(x->dims, 2, x->rank);
    j.out_volume = cm_dims_product(y->dims, 2, y->rank);
    j.channels = x->dims[1];
    CM_TRY(cm_eval_as_f64(e, 0, &j.x));
    CM_TRY(cm_eval_as_f64(e, 1, &j.grid));
    if (cm_tensor_elems(y) > 0)
        cm_parallel(e->threads, x->dims[0] * j.out_volume, 16, positions, &j);
    return cm_check_cancel(e->cx);
}

static cm_status eval(cm_eval *e)
{
    return e->op->id == CM_OP_AFFINE_GRID ? eval_affine(e) : eval_sample(e);
}

static void cost(const cm_infer *f, cm_cost *c)
{
    c->ops = 8 * cm_infer_volume(f, &f->out[0].type);
}

const cm_family cm_family_grid = {.name = "grid", .infer = infer, .eval = eval, .cost = cost};
