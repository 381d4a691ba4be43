/* norm_axes.c -- MeanVarianceNormalization over any axes, LpNormalization along one.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops/eval.h"

#include <math.h>

#include "ops/reduce/lanes.h"

typedef struct {
    uint64_t present;
    cm_ints axes;
} mean_variance_attr;

typedef struct {
    uint64_t present;
    int64_t axis, p;
    float epsilon; /* ours: the least that is divided by */
} lp_attr;

CM_ATTRS(mean_variance_normalization, mean_variance_attr, CM_ATTR_INTS(mean_variance_attr, axes, 0))
CM_ATTRS(lp_normalization, lp_attr, CM_ATTR_INT(lp_attr, axis, -1), CM_ATTR_INT(lp_attr, p, 2),
         CM_ATTR_FLOAT(lp_attr, epsilon, 0))

/* MeanVarianceNormalization's axes when none are given. */
static const int64_t default_axes[] = {0, 2, 3};

static cm_ints axes_of(const mean_variance_attr *a)
{
    return a->present & 1 ? a->axes : (cm_ints){CM_COUNT(default_axes), default_axes};
}

static cm_status infer(cm_infer *f)
{
    int rank = cm_infer_rank(f, 0), axis;
    CM_TRY(cm_infer_like(f, 0, 0));
    if (f->op->id == CM_OP_MEAN_VARIANCE_NORMALIZATION) {
        cm_ints axes = axes_of(f->attr);
        bool is_in[CM_MAX_RANK];
        return rank < 0 ? CM_OK : cm_axes(f->cx, axes.v, axes.n, rank, is_in);
    }
    const lp_attr *a = f->attr;
    if (a->p != 1 && a->p != 2)
        return cm_fail(f->cx, CM_ERR_MODEL, "p is %lld, wanted 1 or 2", (long long)a->p);
    return rank < 0 ? CM_OK : cm_axis(f->cx, a->axis, rank, &axis);
}

/* Fills group[i], the number of the set that element i belongs to. Elements of a
 * set differ in the reduced axes only. */
static int64_t number_sets(const cm_tensor *x, const bool *reduced, int64_t *group)
{
    int64_t strides[CM_MAX_RANK], index[CM_MAX_RANK] = {0}, sets = 1, n = cm_tensor_elems(x);
    for (int d = x->rank - 1; d >= 0; d--) {
        strides[d] = reduced[d] ? 0 : sets;
        sets *= reduced[d] ? 1 : x->dims[d];
    }
    for (int64_t i = 0; i < n; i++) {
        group[i] = 0;
        for (int d = 0; d < x->rank; d++)
            group[i] += index[d] * strides[d];
        for (int d = x->rank - 1; d >= 0 && ++index[d] == x->dims[d]; d--)
            index[d] = 0;
    }
    return sets;
}

static cm_status eval_mean_variance(cm_eval *e)
{
    const cm_tensor *x = cm_eval_in(e, 0);
    cm_ints axes = axes_of(e->attr);
    bool reduced[CM_MAX_RANK] = {false};
    CM_TRY(cm_axes(e->cx, axes.v, axes.n, x->rank, reduced));
    int64_t n = cm_tensor_elems(x);
    if (n == 0)
        return CM_OK;
    void *p;
    double *v;
    CM_TRY(cm_eval_copy_f64(e, 0, &v));
    CM_TRY(cm_eval_scratch(e, (size_t)n, sizeof(int64_t), &p));
    int64_t *group = p, sets = number_sets(x, reduced, group);
    CM_TRY(cm_eval_scratch(e, (size_t)sets, 2 * sizeof(double), &p));
    double *mean = p, *variance = mean + sets, size = (double)(n / sets);
    for (int64_t i = 0; i < n; i++)
        mean[group[i]] += v[i];
    for (int64_t s = 0; s < sets; s++)
        mean[s] /= size;
    for (int64_t i = 0; i < n; i++) {
        v[i] -= mean[group[i]];
        variance[group[i]] += v[i] * v[i];
    }
    for (int64_t i = 0; i < n; i++) /* the specification's own guard against a variance of 0 */
        v[i] /= sqrt(variance[group[i]] / size) + 1e-9;
    cm_eval_store_f64(e, 0, v);
    return CM_OK;
}

typedef struct {
    cm_lanes lanes;
    int64_t p;
    double epsilon;
    double *v;
} job;

static void lp_lanes(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    for (int64_t i = begin; i < end; i++) {
        double *v = j->v + cm_lane_start(&j->lanes, i), norm = 0;
        int64_t step = j->lanes.inner;
        for (int64_t k = 0; k < j->lanes.n; k++)
            norm += j->p == 1 ? fabs(v[k * step]) : v[k * step] * v[k * step];
        if (j->p == 2)
            norm = sqrt(norm);
        norm = norm < j->epsilon ? j->epsilon : norm;
        for (int64_t k = 0; k < j->lanes.n; k++)
            v[k * step] = norm == 0 ? 0 : v[k * step] / norm;
    }
}

static cm_status eval(cm_eval *e)
{
    if (e->op->id == CM_OP_MEAN_VARIANCE_NORMALIZATION)
        return eval_mean_variance(e);
    const lp_attr *a = e->attr;
    const cm_tensor *x = cm_eval_in(e, 0);
    int axis;
    CM_TRY(cm_axis(e->cx, a->axis, x->rank, &axis));
    job j = {.lanes = cm_lanes_of(x, axis), .p = a->p, .epsilon = a->epsilon};
    if (cm_tensor_elems(x) == 0)
        return CM_OK;
    CM_TRY(cm_eval_copy_f64(e, 0, &j.v));
    cm_parallel(e->threads, j.lanes.outer * j.lanes.inner, 16, lp_lanes, &j);
    cm_eval_store_f64(e, 0, j.v);
    return CM_OK;
}

static void cost(const cm_infer *f, cm_cost *c)
{
    c->ops = 6 * cm_infer_volume(f, f->in[0].type);
}

const cm_family cm_family_norm_axes = {
    .name = "norm_axes", .infer = infer, .eval = eval, .cost = cost};
