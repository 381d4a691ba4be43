/* ms_group_norm.c -- com.microsoft GroupNorm and SkipGroupNorm, channels last or first.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops/eval.h"

#include <math.h>

#include "ops/expect.h"
#include "ops/math.h"

typedef struct {
    uint64_t present;
    int64_t activation, channels_last, groups;
    float epsilon;
} group_attr;

CM_ATTRS(ms_group_norm, group_attr, CM_ATTR_INT_REQUIRED(group_attr, activation),
         CM_ATTR_INT(group_attr, channels_last, 1), CM_ATTR_FLOAT(group_attr, epsilon, 1e-5f),
         CM_ATTR_INT_REQUIRED(group_attr, groups))

enum { X, GAMMA, BETA, SKIP, BIAS };

static cm_status check_skip(cm_infer *f, cm_dim channels)
{
    if (!cm_expect_known(f, SKIP))
        return CM_OK;
    int rank = cm_infer_rank(f, X), skip = cm_infer_rank(f, SKIP);
    cm_dim flat[] = {cm_infer_dim(f, X, 0), channels};
    if (skip == 2)
        return cm_expect_shape(f, SKIP, "skip", 2, flat);
    CM_TRY(cm_expect_rank(f, SKIP, "skip", rank, rank));
    for (int d = 0; d < rank; d++)
        if (cm_infer_dim(f, SKIP, d) != 1)
            CM_TRY(cm_infer_equal(f, "skip", cm_infer_dim(f, SKIP, d), cm_infer_dim(f, X, d)));
    return CM_OK;
}

static cm_status infer(cm_infer *f)
{
    const group_attr *a = f->attr;
    if (a->activation < 0 || a->activation > 1)
        return cm_fail(f->cx, CM_ERR_MODEL, "activation is %lld, wanted 0 or 1",
                       (long long)a->activation);
    for (int o = 0; o < f->n_out; o++)
        CM_TRY(cm_infer_like(f, o, X));
    if (!cm_infer_ranked(f, X))
        return CM_OK;
    int rank = cm_infer_rank(f, X);
    CM_TRY(cm_expect_rank(f, X, "X", 2, CM_MAX_RANK));
    cm_dim channels = cm_infer_dim(f, X, a->channels_last ? rank - 1 : 1), each;
    CM_TRY(cm_expect_split(f, "channels", channels, a->groups, &each));
    CM_TRY(cm_expect_shape(f, GAMMA, "gamma", 1, &channels));
    CM_TRY(cm_expect_shape(f, BETA, "beta", 1, &channels));
    if (f->op->id == CM_OP_MS_GROUP_NORM)
        return CM_OK;
    CM_TRY(cm_expect_shape(f, BIAS, "bias", 1, &channels));
    return check_skip(f, channels);
}

typedef struct {
    const group_attr *a;
    double *s; /* x + skip + bias, in x's layout; normalised in place */
    const double *gamma, *beta;
    int64_t channels, space, c_stride, s_stride;
} run;

static void run_range(void *arg, int64_t begin, int64_t end)
{
    const run *r = arg;
    int64_t each = r->channels / r->a->groups, n = each * r->space;
    for (int64_t i = begin; i < end; i++) {
        int64_t image = i / r->a->groups, first = i % r->a->groups * each;
        double *s = r->s + image * r->channels * r->space, mean = 0, square = 0;
        for (int64_t j = 0; j < n; j++)
            mean += s[(first + j / r->space) * r->c_stride + j % r->space * r->s_stride];
        mean /= (double)n;
        for (int64_t j = 0; j < n; j++) {
            double d = s[(first + j / r->space) * r->c_stride + j % r->space * r->s_stride] - mean;
            square += d * d;
        }
        double inverse = 1 / sqrt(square / (double)n + r->a->epsilon);
        for (int64_t j = 0; j < n; j++) {
            int64_t c = first + j / r->space;
            double *v = &s[c * r->c_stride + j % r->space * r->s_stride];
            *v = (*v - mean) * inverse * r->gamma[c] + r->beta[c];
            if (r->a->activation)
                *v *= cm_sigmoid(*v);
        }
    }
}

/* x + skip + bias; skip repeats along axes of size 1, or has [N, C] only. */
static cm_status add_up(cm_eval *e, run *r)
{
    const cm_tensor *x = cm_eval_in(e, X);
    int64_t n = cm_tensor_elems(x), strides[CM_MAX_RANK] = {0};
    int channel = r->a->channels_last ? x->rank - 1 : 1;
    bool skips = cm_eval_has(e, SKIP);
    const double *skip = NULL, *bias = NULL;
    void *sum;
    CM_TRY(cm_eval_scratch(e, (size_t)n, sizeof(double), &sum));
    r->s = sum;
    cm_load_f64(x->dtype, x->data, n, r->s);
    if (skips) {
        const cm_tensor *t = cm_eval_in(e, SKIP);
        CM_TRY(cm_eval_as_f64(e, SKIP, &skip));
        if (t->rank == x->rank) {
            cm_broadcast_strides(t, x->rank, x->dims, strides);
        } else {
            strides[0] = r->channels;
            strides[channel] = 1;
        }
    }
    if (cm_eval_has(e, BIAS))
        CM_TRY(cm_eval_as_f64(e, BIAS, &bias));
    for (int64_t i = 0; (skip || bias) && i < n; i++) {
        int64_t rest = i, at = 0, c = 0;
        for (int d = x->rank - 1; d >= 0; rest /= x->dims[d--]) {
            at += rest % x->dims[d] * strides[d];
            c = d == channel ? rest % x->dims[d] : c;
        }
        r->s[i] += (skip ? skip[at] : 0) + (bias ? bias[c] : 0);
    }
    return CM_OK;
}

static cm_status eval(cm_eval *e)
{
    const group_attr *a = e->attr;
    const cm_tensor *x = cm_eval_in(e, X);
    int channel = a->channels_last ? x->rank - 1 : 1;
    run r = {.a = a, .channels = x->dims[channel]};
    if (cm_tensor_elems(x) == 0)
        return CM_OK;
    r.space = cm_tensor_elems(x) / x->dims[0] / r.channels;
    r.c_stride = a->channels_last ? 1 : r.space;
    r.s_stride = a->channels_last ? r.channels : 1;
    CM_TRY(cm_eval_as_f64(e, GAMMA, &r.gamma));
    CM_TRY(cm_eval_as_f64(e, BETA, &r.beta));
    CM_TRY(add_up(e, &r));
    if (cm_eval_wants(e, 1))
        cm_store_f64(x->dtype, r.s, cm_tensor_elems(x), cm_eval_out(e, 1)->data);
    cm_parallel(e->threads, x->dims[0] * a->groups, 1, run_range, &r);
    if (cm_eval_wants(e, 0))
        cm_store_f64(x->dtype, r.s, cm_tensor_elems(x), cm_eval_out(e, 0)->data);
    return CM_OK;
}

const cm_family cm_family_ms_group_norm = {.name = "ms_group_norm", .infer = infer, .eval = eval};
