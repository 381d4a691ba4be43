/* loss.c -- NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Scores are [N, C, d...], labels [N, d...]. The loss of a sample is minus the (log-)score of its
 * label, times the label's weight; a label equal to ignore_index counts for nothing. */
#include "ops/eval.h"

#include "ops/reduce/lanes.h"
#include "ops/math.h"

typedef struct {
    uint64_t present;
    int64_t ignore_index;
    cm_str reduction;
} loss_attr;

CM_ATTRS(negative_log_likelihood_loss, loss_attr, CM_ATTR_INT(loss_attr, ignore_index, 0),
         CM_ATTR_STR(loss_attr, reduction, "mean"))
CM_ATTRS(softmax_cross_entropy_loss, loss_attr, CM_ATTR_INT(loss_attr, ignore_index, 0),
         CM_ATTR_STR(loss_attr, reduction, "mean"))

static bool is(cm_str s, const char *word)
{
    return cm_str_equal(s, cm_str_of(word));
}

static cm_status check_weights(cm_infer *f, cm_dim classes)
{
    if (!cm_infer_has(f, 2) || !cm_infer_ranked(f, 2))
        return CM_OK;
    if (cm_infer_rank(f, 2) != 1)
        return cm_fail(f->cx, CM_ERR_MODEL, "weights of rank %d, wanted 1", cm_infer_rank(f, 2));
    return cm_infer_equal(f, "weights for the classes", cm_infer_dim(f, 2, 0), classes);
}

static cm_status infer(cm_infer *f)
{
    const loss_attr *a = f->attr;
    bool none = is(a->reduction, "none");
    if (!none && !is(a->reduction, "mean") && !is(a->reduction, "sum"))
        return cm_fail(f->cx, CM_ERR_MODEL, "reduction is '%.*s', wanted none, mean or sum",
                       (int)(a->reduction.n < 40 ? a->reduction.n : 40), a->reduction.p);
    CM_TRY(cm_infer_like(f, 1, 0));
    if (!none)
        CM_TRY(cm_infer_tensor(f, 0, 0, NULL));
    else
        CM_TRY(cm_infer_like(f, 0, 1));
    if (!cm_infer_ranked(f, 0))
        return CM_OK;
    const cm_type *x = f->in[0].type;
    if (x->rank < 2)
        return cm_fail(f->cx, CM_ERR_MODEL, "scores of rank %d, wanted at least 2", x->rank);
    CM_TRY(check_weights(f, x->dims[1]));
    if (!cm_infer_ranked(f, 1))
        return CM_OK;
    if (cm_infer_rank(f, 1) != x->rank - 1)
        return cm_fail(f->cx, CM_ERR_MODEL, "labels of rank %d, wanted %d", cm_infer_rank(f, 1),
                       x->rank - 1);
    for (int d = 0; d < x->rank - 1; d++)
        CM_TRY(cm_infer_equal(f, "shape of the labels", cm_infer_dim(f, 1, d),
                              x->dims[d == 0 ? 0 : d + 1]));
    return CM_OK;
}

typedef struct {
    cm_lanes classes;
    double *v;
} job;

/* Scores become the logarithms of their softmax. */
static void log_softmax(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    int64_t step = j->classes.inner, n = j->classes.n;
    for (int64_t i = begin; i < end; i++) {
        double *v = j->v + cm_lane_start(&j->classes, i), max = v[0], sum = 0;
        for (int64_t k = 1; k < n; k++)
            if (v[k * step] > max || v[k * step] != v[k * step])
                max = v[k * step];
        for (int64_t k = 0; k < n; k++)
            sum += cm_exp(v[k * step] - max);
        double log_sum = cm_ln(sum);
        for (int64_t k = 0; k < n; k++)
            v[k * step] = v[k * step] - max - log_sum;
    }
}

/* Loss of every sample into `loss`; the sums of losses and of weights. */
static cm_status samples(cm_eval *e, const job *j, const double *weights, double *loss,
                         double *total, double *weight)
{
    const loss_attr *a = e->attr;
    int64_t n = j->classes.outer * j->classes.inner;
    bool ignores = a->present & 1;
    *total = *weight = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t label = cm_eval_int(e, 1, i);
        if (ignores && label == a->ignore_index) {
            loss[i] = 0;
            continue;
        }
        if (label < 0 || label >= j->classes.n)
            return cm_fail(e->cx, CM_ERR_DATA, "label %lld of sample %lld is not in [0, %lld)",
                           (long long)label, (long long)i, (long long)j->classes.n);
        double w = weights ? weights[label] : 1;
        loss[i] = -j->v[cm_lane_start(&j->classes, i) + label * j->classes.inner] * w;
        *total += loss[i];
        *weight += w;
    }
    return CM_OK;
}

static cm_status eval(cm_eval *e)
{
    const loss_attr *a = e->attr;
    const cm_tensor *x = cm_eval_in(e, 0);
    job j = {.classes = cm_lanes_of(x, 1)};
    const double *weights = NULL;
    double total, weight;
    void *loss;
    CM_TRY(cm_eval_copy_f64(e, 0, &j.v));
    if (cm_eval_has(e, 2))
        CM_TRY(cm_eval_as_f64(e, 2, &weights));
    if (e->op->id == CM_OP_SOFTMAX_CROSS_ENTROPY_LOSS && j.classes.n > 0)
        cm_parallel(e->threads, j.classes.outer * j.classes.inner, 16, log_softmax, &j);
    CM_TRY(cm_eval_scratch(e, (size_t)cm_tensor_elems(cm_eval_in(e, 1)), sizeof(double), &loss));
    CM_TRY(samples(e, &j, weights, loss, &total, &weight));
    if (cm_eval_wants(e, 1))
        cm_eval_store_f64(e, 1, j.v);
    if (!cm_eval_wants(e, 0))
        return CM_OK;
    double mean = total / weight;
    cm_eval_store_f64(e, 0,
                      is(a->reduction, "none")  ? loss
                      : is(a->reduction, "sum") ? &total
                                                : &mean);
    return CM_OK;
}

static void cost(const cm_infer *f, cm_cost *c)
{
    c->ops = 5 * cm_infer_volume(f, f->in[0].type);
}

const cm_family cm_family_loss = {.name = "loss", .infer = infer, .eval = eval, .cost = cost};
