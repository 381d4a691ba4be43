/* ml_linear.c -- ai.onnx.ml: linear classifier and regressor.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/size.h"
#include "ops/ml/ml.h"

typedef struct {
    uint64_t present;
    cm_ints classlabels_ints;
    cm_strs classlabels_strings;
    cm_floats coefficients, intercepts;
    int64_t multi_class;
    cm_str post_transform;
} classifier_attr;
CM_ATTRS(linear_classifier, classifier_attr, CM_ATTR_INTS(classifier_attr, classlabels_ints, 0),
         CM_ATTR_STRS(classifier_attr, classlabels_strings, 0),
         CM_ATTR_FLOATS(classifier_attr, coefficients, CM_REQUIRED),
         CM_ATTR_FLOATS(classifier_attr, intercepts, 0),
         CM_ATTR_INT(classifier_attr, multi_class, 0),
         CM_ATTR_STR(classifier_attr, post_transform, "NONE"))

typedef struct {
    uint64_t present;
    cm_floats coefficients, intercepts;
    cm_str post_transform;
    int64_t targets;
} regressor_attr;
CM_ATTRS(linear_regressor, regressor_attr, CM_ATTR_FLOATS(regressor_attr, coefficients, 0),
         CM_ATTR_FLOATS(regressor_attr, intercepts, 0),
         CM_ATTR_STR(regressor_attr, post_transform, "NONE"),
         CM_ATTR_INT(regressor_attr, targets, 1))

static cm_ml_labels labels_of(const classifier_attr *a)
{
    return (cm_ml_labels){a->classlabels_ints, a->classlabels_strings};
}

static cm_status infer_classifier(cm_infer *f)
{
    const classifier_attr *a = f->attr;
    const cm_ml_labels labels = labels_of(a);
    const int64_t n_labels = cm_ml_labels_count(&labels);
    cm_ml_transform t;
    CM_TRY(cm_ml_transform_parse(f->cx, a->post_transform, &t));
    /* Rows of coefficients: one for each class, or a single one that tells two classes apart. */
    if (a->intercepts.n && a->intercepts.n != n_labels && !(a->intercepts.n == 1 && n_labels == 2))
        return cm_fail(f->cx, CM_ERR_MODEL, "%lld intercepts for %lld classes",
                       (long long)a->intercepts.n, (long long)n_labels);
    CM_TRY(cm_ml_infer_classifier(f, &labels, n_labels));
    int64_t width;
    if (cm_infer_ranked(f, 0) &&
        cm_infer_const(f, cm_infer_dim(f, 0, cm_infer_rank(f, 0) - 1), &width)) {
        int64_t rows = a->intercepts.n, wanted;
        if (rows == 0)
            rows = n_labels == 2 && a->coefficients.n == width ? 1 : n_labels;
        if (!cm_mul_i64(rows, width, &wanted) || a->coefficients.n != wanted)
            return cm_fail(f->cx, CM_ERR_MODEL, "%lld coefficients for %lld x %lld",
                           (long long)a->coefficients.n, (long long)rows, (long long)width);
    }
    return CM_OK;
}

static cm_status infer_regressor(cm_infer *f)
{
    const regressor_attr *a = f->attr;
    cm_ml_transform t;
    CM_TRY(cm_ml_transform_parse(f->cx, a->post_transform, &t));
    if (a->targets < 1 || (a->intercepts.n && a->intercepts.n != a->targets))
        return cm_fail(f->cx, CM_ERR_MODEL, "%lld intercepts for %lld targets",
                       (long long)a->intercepts.n, (long long)a->targets);
    CM_TRY(cm_ml_check_input(f));
    if (!cm_infer_ranked(f, 0)) {
        cm_infer_unknown(f, 0);
        return CM_OK;
    }
    const cm_dim width = cm_infer_mul(f, cm_infer_dim(f, 0, cm_infer_rank(f, 0) - 1), a->targets);
    if (width != CM_DIM_ERROR)
        CM_TRY(cm_infer_equal(f, "coefficients", a->coefficients.n, width));
    return cm_infer_tensor(f, 0, 2, (cm_dim[]){cm_ml_rows(f), a->targets});
}

static cm_status infer(cm_infer *f)
{
    return f->op->id == CM_OP_LINEAR_CLASSIFIER ? infer_classifier(f) : infer_regressor(f);
}

/* scores[k] = x . w[k] + b[k] */
static void linear(const double *x, int64_t width, const cm_floats *w, const cm_floats *b,
                   int64_t n, double *scores)
{
    for (int64_t k = 0; k < n; k++) {
        double sum = b->n ? (double)b->v[k] : 0;
        for (int64_t i = 0; i < width; i++)
            sum += x[i] * (double)w->v[k * width + i];
        scores[k] = sum;
    }
}

static int64_t largest(const double *s, int64_t n)
{
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++)
        if (s[i] > s[best])
            best = i;
    return best;
}

/* A single score for two classes: the second class's, and what is left for the first. */
static void spread(cm_ml_transform t, double *s)
{
    s[1] = t == CM_ML_LOGISTIC ? cm_ml_logistic(s[0]) : s[0];
    s[0] = t == CM_ML_LOGISTIC ? cm_ml_logistic(-s[0]) : 1 - s[0];
    if (t == CM_ML_PROBIT)
        cm_ml_transform_scores(t, s, 2);
}

static cm_status eval_classifier(cm_eval *e)
{
    const classifier_attr *a = e->attr;
    const cm_ml_labels labels = labels_of(a);
    const int64_t rows = cm_ml_eval_rows(e), width = cm_ml_eval_features(e);
    const int64_t n_labels = cm_ml_labels_count(&labels);
    const bool single = n_labels == 2 && (a->intercepts.n == 1 ||
                                          (a->intercepts.n == 0 && a->coefficients.n == width));
    cm_ml_transform t;
    const double *x;
    void *s;
    CM_TRY(cm_ml_transform_parse(e->cx, a->post_transform, &t));
    CM_TRY(cm_eval_as_f64(e, 0, &x));
    CM_TRY(cm_eval_scratch(e, (size_t)n_labels + 1, sizeof(double), &s));
    double *scores = s;
    for (int64_t r = 0; r < rows; r++, x += width) {
        linear(x, width, &a->coefficients, &a->intercepts, single ? 1 : n_labels, scores);
        cm_ml_put_label(e, &labels, r, single ? scores[0] > 0 : largest(scores, n_labels));
        if (single)
            spread(t, scores);
        else
            cm_ml_transform_scores(t, scores, n_labels);
        if (cm_eval_wants(e, 1))
            cm_store_f64(CM_F32, scores, n_labels, (float *)cm_eval_out(e, 1)->data + r * n_labels);
    }
    return CM_OK;
}

static cm_status eval_regressor(cm_eval *e)
{
    const regressor_attr *a = e->attr;
    const int64_t rows = cm_ml_eval_rows(e), width = cm_ml_eval_features(e), n = a->targets;
    cm_ml_transform t;
    const double *x;
    void *s;
    if (!cm_eval_wants(e, 0))
        return CM_OK;
    CM_TRY(cm_ml_transform_parse(e->cx, a->post_transform, &t));
    CM_TRY(cm_eval_as_f64(e, 0, &x));
    CM_TRY(cm_eval_scratch(e, (size_t)n, sizeof(double), &s));
    for (int64_t r = 0; r < rows; r++, x += width) {
        linear(x, width, &a->coefficients, &a->intercepts, n, s);
        cm_ml_transform_scores(t, s, n);
        cm_store_f64(CM_F32, s, n, (float *)cm_eval_out(e, 0)->data + r * n);
    }
    return CM_OK;
}

static cm_status eval(cm_eval *e)
{
    return e->op->id == CM_OP_LINEAR_CLASSIFIER ? eval_classifier(e) : eval_regressor(e);
}

const cm_family cm_family_ml_linear = {.name = "ml_linear", .infer = infer, .eval = eval};
