/* softmax.c -- Softmax, LogSoftmax and Hardmax along one axis; cameo.Softmax along `count` axes from `axis` on, as
 * if they were one.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The maximum of a lane is subtracted first, so that nothing overflows. A NaN anywhere in the lane,
 * or an infinite maximum, makes NaN as the formula does. */
#include "ops/eval.h"

#include <math.h>

#include "ops/reduce/lanes.h"
#include "ops/math.h"

typedef struct {
    uint64_t present;
    int64_t axis, count, log; /* the latter two: cameo.Softmax only */
} softmax_attr;

CM_ATTRS(softmax, softmax_attr, CM_ATTR_INT(softmax_attr, axis, -1))
CM_ATTRS(log_softmax, softmax_attr, CM_ATTR_INT(softmax_attr, axis, -1))
CM_ATTRS(hardmax, softmax_attr, CM_ATTR_INT(softmax_attr, axis, -1))
CM_ATTRS(fused_softmax, softmax_attr, CM_ATTR_INT(softmax_attr, axis, -1),
         CM_ATTR_INT(softmax_attr, count, 1), CM_ATTR_INT(softmax_attr, log, 0))

/* The first axis of a lane, and how many make one. */
static cm_status lane_axes(cm_ctx *cx, const cm_op *op, const softmax_attr *a, int rank, int *axis,
                           int *count)
{
    *count = 1;
    CM_TRY(cm_axis(cx, a->axis, rank, axis));
    if (op->id != CM_OP_FUSED_SOFTMAX)
        return CM_OK;
    if (a->count < 1 || a->count > rank - *axis)
        return cm_fail(cx, CM_ERR_MODEL, "%lld axes from axis %d of %d", (long long)a->count, *axis,
                       rank);
    *count = (int)a->count;
    return CM_OK;
}

/* A scalar is taken as one element along axis 0. */
static cm_status infer(cm_infer *f)
{
    const softmax_attr *a = f->attr;
    int axis, count, rank = cm_infer_rank(f, 0);
    if (rank >= 0)
        CM_TRY(lane_axes(f->cx, f->op, a, rank ? rank : 1, &axis, &count));
    return cm_infer_like(f, 0, 0);
}

typedef struct {
    const cm_ctx *cx;
    cm_op_id op;
    cm_lanes lanes;
    double *v;
} job;

/* Position of the first maximum; a NaN counts as the largest. */
static int64_t top(const double *v, int64_t n, int64_t step)
{
    int64_t best = 0;
    for (int64_t k = 0; k < n; k++) {
        if (v[k * step] != v[k * step])
            return k;
        if (v[k * step] > v[best * step])
            best = k;
    }
    return best;
}

static void one_lane(cm_op_id op, double *v, int64_t n, int64_t step)
{
    int64_t best = top(v, n, step);
    double max = v[best * step], sum = 0;
    if (op == CM_OP_HARDMAX) {
        for (int64_t k = 0; k < n; k++)
            v[k * step] = k == best;
        return;
    }
    for (int64_t k = 0; k < n; k++) {
        double exp = cm_exp(v[k * step] - max);
        sum += exp;
        v[k * step] = op == CM_OP_SOFTMAX ? exp : v[k * step] - max;
    }
    double log_sum = op == CM_OP_SOFTMAX ? 0 : cm_ln(sum);
    for (int64_t k = 0; k < n; k++)
        v[k * step] = op == CM_OP_SOFTMAX ? v[k * step] / sum : v[k * step] - log_sum;
}

static void lanes(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    for (int64_t i = begin; i < end && !cm_is_cancelled(j->cx); i++)
        one_lane(j->op, j->v + cm_lane_start(&j->lanes, i), j->lanes.n, j->lanes.inner);
}

static cm_status eval(cm_eval *e)
{
    const softmax_attr *a = e->attr;
    const cm_tensor *x = cm_eval_in(e, 0);
    job j = {.cx = e->cx, .op = e->op->id, .lanes = {1, 1, 1}};
    if (j.op == CM_OP_FUSED_SOFTMAX)
        j.op = a->log ? CM_OP_LOG_SOFTMAX : CM_OP_SOFTMAX;
    if (cm_tensor_elems(x) == 0)
        return CM_OK;
    if (x->rank > 0) {
        int axis, count;
        CM_TRY(lane_axes(e->cx, e->op, a, x->rank, &axis, &count));
        j.lanes = cm_lanes_of(x, axis + count - 1);
        for (int k = 0; k < count - 1; k++) {
            j.lanes.outer /= x->dims[axis + k];
            j.lanes.n *= x->dims[axis + k];
        }
    }
    CM_TRY(cm_eval_copy_f64(e, 0, &j.v));
    cm_parallel(e->threads, j.lanes.outer * j.lanes.inner, 16, lanes, &j);
    CM_TRY(cm_check_cancel(e->cx));
    cm_eval_store_f64(e, 0, j.v);
    return CM_OK;
}

static void cost(const cm_infer *f, cm_cost *c)
{
    c->ops = 5 * cm_infer_volume(f, f->in[0].type);
}

const cm_family cm_family_softmax = {.name = "softmax", .infer = infer, .eval = eval, .cost = cost};
