/* ml.c -- what the models of ai.onnx.ml share: labels, rows of features, transforms of scores.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops/ml/ml.h"

#include <math.h>

#include "ops/math.h"

cm_status cm_ml_transform_parse(cm_ctx *cx, cm_str name, cm_ml_transform *out)
{
    static const char *const names[] = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"};
    for (int i = 0; i < CM_COUNT(names); i++)
        if (cm_str_equal(name, cm_str_of(names[i]))) {
            *out = (cm_ml_transform)i;
            return CM_OK;
        }
    return cm_fail(cx, CM_ERR_MODEL,
                   "post_transform is none of NONE, SOFTMAX, LOGISTIC, SOFTMAX_ZERO, PROBIT");
}

double cm_ml_logistic(double x)
{
    const double v = 1 / (1 + cm_exp(-fabs(x)));
    return x < 0 ? 1 - v : v;
}

/* The inverse of the normal distribution, by the approximation of the error function's inverse that
 * other runtimes use (Winitzki's, good to two parts in a thousand). */
static double probit(double p)
{
    const double a = 0.147, x = 2 * p - 1, log = cm_ln((1 - x) * (1 + x));
    const double v = 2 / (3.14159 * a) + 0.5 * log;
    const double r = sqrt(-v + sqrt(v * v - log / a));
    return 1.41421356 * (x < 0 ? -r : r);
}

static void softmax(double *s, int64_t n, bool keep_zeros)
{
    double max = s[0], sum = 0;
    for (int64_t i = 1; i < n; i++)
        max = s[i] > max ? s[i] : max;
    for (int64_t i = 0; i < n; i++) {
        if (keep_zeros && fabs(s[i]) <= 1e-7) {
            s[i] *= cm_exp(-max);
            continue;
        }
        s[i] = cm_exp(s[i] - max);
        sum += s[i];
    }
    for (int64_t i = 0; i < n; i++)
        s[i] = sum != 0 ? s[i] / sum : s[i];
}

void cm_ml_transform_scores(cm_ml_transform t, double *scores, int64_t n)
{
    if (t == CM_ML_PROBIT)
        for (int64_t i = 0; i < n; i++)
            scores[i] = probit(scores[i]);
    if (n < 2)
        return;
    if (t == CM_ML_LOGISTIC)
        for (int64_t i = 0; i < n; i++)
            scores[i] = cm_ml_logistic(scores[i]);
    if (t == CM_ML_SOFTMAX || t == CM_ML_SOFTMAX_ZERO)
        softmax(scores, n, t == CM_ML_SOFTMAX_ZERO);
}

int64_t cm_ml_labels_count(const cm_ml_labels *l)
{
    return l->strs.n ? l->strs.n : l->ints.n;
}

cm_status cm_ml_infer_classifier(cm_infer *f, const cm_ml_labels *l, cm_dim n_scores)
{
    if ((l->ints.n > 0) == (l->strs.n > 0))
        return cm_fail(f->cx, CM_ERR_MODEL,
                       "one list of class labels must be given: %lld integers, "
                       "%lld strings",
                       (long long)l->ints.n, (long long)l->strs.n);
    CM_TRY(cm_ml_check_input(f));
    f->out[0].type.dtype = l->strs.n ? CM_STR : CM_I64;
    if (!cm_infer_ranked(f, 0)) {
        cm_infer_unknown(f, 0);
        cm_infer_unknown(f, 1);
        return CM_OK;
    }
    const cm_dim dims[2] = {cm_ml_rows(f), n_scores};
    CM_TRY(cm_infer_tensor(f, 0, 1, dims));
    return cm_infer_tensor(f, 1, 2, dims);
}

void cm_ml_put_label(cm_eval *e, const cm_ml_labels *l, int64_t row, int64_t index)
{
    if (!cm_eval_wants(e, 0))
        return;
    cm_tensor *out = cm_eval_out(e, 0);
    if (l->strs.n)
        ((cm_str *)out->data)[row] = l->strs.v[index];
    else
        ((int64_t *)out->data)[row] = l->ints.v[index];
}

cm_status cm_ml_check_input(cm_infer *f)
{
    if (cm_infer_ranked(f, 0) && (cm_infer_rank(f, 0) < 1 || cm_infer_rank(f, 0) > 2))
        return cm_fail(f->cx, CM_ERR_MODEL, "input of rank %d, wanted [C] or [N,C]",
                       cm_infer_rank(f, 0));
    return CM_OK;
}

cm_dim cm_ml_rows(const cm_infer *f)
{
    return cm_infer_rank(f, 0) == 2 ? cm_infer_dim(f, 0, 0) : 1;
}

int64_t cm_ml_eval_rows(const cm_eval *e)
{
    const cm_tensor *t = cm_eval_in(e, 0);
    return t->rank == 2 ? t->dims[0] : 1;
}

int64_t cm_ml_eval_features(const cm_eval *e)
{
    const cm_tensor *t = cm_eval_in(e, 0);
    return t->dims[t->rank - 1];
}
