/* batch_norm.c -- BatchNormalization, with given statistics or, training, with the batch's own.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops/eval.h"

#include <math.h>

#include "ops/reduce/lanes.h"

typedef struct {
    uint64_t present;
    float epsilon, momentum;
    int64_t training_mode;
} batch_attr;

CM_ATTRS(batch_normalization, batch_attr, CM_ATTR_FLOAT(batch_attr, epsilon, 1e-5f),
         CM_ATTR_FLOAT(batch_attr, momentum, 0.9f), CM_ATTR_INT(batch_attr, training_mode, 0))

static cm_status infer(cm_infer *f)
{
    const cm_type *x = f->in[0].type;
    CM_TRY(cm_infer_like(f, 0, 0));
    cm_dim c = 1; /* a tensor of rank 1 is one channel */
    if (cm_infer_ranked(f, 0) && x->rank == 0)
        return cm_fail(f->cx, CM_ERR_MODEL, "input of rank 0, wanted at least 1");
    if (cm_infer_ranked(f, 0) && x->rank > 1)
        c = x->dims[1];
    bool known = cm_infer_ranked(f, 0);
    for (int i = 1; i < 5; i++) {
        if (!cm_infer_ranked(f, i))
            continue;
        if (cm_infer_rank(f, i) != 1)
            return cm_fail(f->cx, CM_ERR_MODEL, "input %d has rank %d, wanted 1", i,
                           cm_infer_rank(f, i));
        if (known)
            CM_TRY(cm_infer_equal(f, "elements for the channels", cm_infer_dim(f, i, 0), c));
        else
            c = cm_infer_dim(f, i, 0), known = true;
    }
    for (int o = 1; o < 3; o++) {
        if (known)
            CM_TRY(cm_infer_tensor(f, o, 1, &c));
        else
            cm_infer_unknown(f, o);
    }
    return CM_OK;
}

typedef struct {
    cm_lanes channels; /* outer: images, n: channels, inner: positions */
    double *v;
    const double *scale, *bias, *mean, *variance;
    double *batch_mean, *batch_variance; /* training only */
    double epsilon;
} job;

/* Mean and variance of channel c over images and positions. */
static void statistics(const job *j, int64_t c, double *mean, double *variance)
{
    const cm_lanes *l = &j->channels;
    double count = (double)(l->outer * l->inner), sum = 0, square = 0;
    for (int64_t n = 0; n < l->outer; n++)
        for (int64_t i = 0; i < l->inner; i++)
            sum += j->v[(n * l->n + c) * l->inner + i];
    *mean = sum / count;
    for (int64_t n = 0; n < l->outer; n++)
        for (int64_t i = 0; i < l->inner; i++) {
            double d = j->v[(n * l->n + c) * l->inner + i] - *mean;
            square += d * d;
        }
    *variance = square / count;
}

static void channels(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    const cm_lanes *l = &j->channels;
    for (int64_t c = begin; c < end; c++) {
        double mean = j->mean[c], variance = j->variance[c];
        if (j->batch_mean) {
            statistics(j, c, &mean, &variance);
            j->batch_mean[c] = mean;
            j->batch_variance[c] = variance;
        }
        double deviation = sqrt(variance + j->epsilon);
        for (int64_t n = 0; n < l->outer; n++) {
            double *v = j->v + (n * l->n + c) * l->inner;
            for (int64_t i = 0; i < l->inner; i++)
                v[i] = (v[i] - mean) / deviation * j->scale[c] + j->bias[c];
        }
    }
}

/* Outputs 1 and 2: the given statistics moved towards the batch's. */
static void store_running(cm_eval *e, int o, const double *old, double *batch, int64_t n, float m)
{
    if (!cm_eval_wants(e, o))
        return;
    for (int64_t c = 0; c < n; c++)
        batch[c] = old[c] * (double)m + batch[c] * (1 - (double)m);
    cm_eval_store_f64(e, o, batch);
}

static cm_status eval(cm_eval *e)
{
    const batch_attr *a = e->attr;
    const cm_tensor *x = cm_eval_in(e, 0);
    job j = {.epsilon = a->epsilon, .channels = {1, 1, x->dims[0]}};
    if (x->rank > 1)
        j.channels = cm_lanes_of(x, 1);
    CM_TRY(cm_eval_copy_f64(e, 0, &j.v));
    CM_TRY(cm_eval_as_f64(e, 1, &j.scale));
    CM_TRY(cm_eval_as_f64(e, 2, &j.bias));
    CM_TRY(cm_eval_as_f64(e, 3, &j.mean));
    CM_TRY(cm_eval_as_f64(e, 4, &j.variance));
    double *stats = NULL;
    int64_t n = j.channels.n;
    if (a->training_mode || e->n_out > 1) {
        void *p;
        CM_TRY(cm_eval_scratch(e, (size_t)n, 2 * sizeof(double), &p));
        stats = p;
    }
    if (a->training_mode) {
        j.batch_mean = stats;
        j.batch_variance = stats + n;
    }
    cm_parallel(e->threads, n, 1, channels, &j);
    if (cm_eval_wants(e, 0))
        cm_eval_store_f64(e, 0, j.v);
    if (!a->training_mode)
        for (int64_t c = 0; stats && c < n; c++) {
            stats[c] = j.mean[c];
            stats[n + c] = j.variance[c];
        }
    store_running(e, 1, j.mean, stats, n, a->momentum);
    store_running(e, 2, j.variance, stats ? stats + n : NULL, n, a->momentum);
    return CM_OK;
}

static void cost(const cm_infer *f, cm_cost *c)
{
    c->ops = 4 * cm_infer_volume(f, f->in[0].type);
}

const cm_family cm_family_batch_norm = {
    .name = "batch_norm", .infer = infer, .eval = eval, .cost = cost};
