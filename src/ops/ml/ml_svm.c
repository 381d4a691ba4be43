/* ml_svm.c -- ai.onnx.ml: support vector classifier and regressor.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A classifier with support vectors decides between each pair of classes and takes a vote; without
 * them it is linear, a row of coefficients for each class. Where the specification is silent
 * (binary scores, which label a tie gives) the answers are ONNX Runtime's. */
#include <math.h>
#include <string.h>

#include "base/size.h"
#include "ops/math.h"
#include "ops/ml/ml.h"

typedef struct {
    uint64_t present;
    cm_ints classlabels_ints;
    cm_strs classlabels_strings;
    cm_floats coefficients, kernel_params;
    cm_str kernel_type, post_transform;
    cm_floats prob_a, prob_b, rho, support_vectors;
    cm_ints vectors_per_class;
} classifier_attr;
CM_ATTRS(svm_classifier, classifier_attr, CM_ATTR_INTS(classifier_attr, classlabels_ints, 0),
         CM_ATTR_STRS(classifier_attr, classlabels_strings, 0),
         CM_ATTR_FLOATS(classifier_attr, coefficients, 0),
         CM_ATTR_FLOATS(classifier_attr, kernel_params, 0),
         CM_ATTR_STR(classifier_attr, kernel_type, "LINEAR"),
         CM_ATTR_STR(classifier_attr, post_transform, "NONE"),
         CM_ATTR_FLOATS(classifier_attr, prob_a, 0), CM_ATTR_FLOATS(classifier_attr, prob_b, 0),
         CM_ATTR_FLOATS(classifier_attr, rho, 0),
         CM_ATTR_FLOATS(classifier_attr, support_vectors, 0),
         CM_ATTR_INTS(classifier_attr, vectors_per_class, 0))

typedef struct {
    uint64_t present;
    cm_floats coefficients, kernel_params;
    cm_str kernel_type, post_transform;
    int64_t n_supports, one_class;
    cm_floats rho, support_vectors;
} regressor_attr;
CM_ATTRS(svm_regressor, regressor_attr, CM_ATTR_FLOATS(regressor_attr, coefficients, 0),
         CM_ATTR_FLOATS(regressor_attr, kernel_params, 0),
         CM_ATTR_STR(regressor_attr, kernel_type, "LINEAR"),
         CM_ATTR_INT(regressor_attr, n_supports, 0), CM_ATTR_INT(regressor_attr, one_class, 0),
         CM_ATTR_STR(regressor_attr, post_transform, "NONE"),
         CM_ATTR_FLOATS(regressor_attr, rho, 0), CM_ATTR_FLOATS(regressor_attr, support_vectors, 0))

/* ---- kernels ---- */

typedef enum { LINEAR, POLY, RBF, SIGMOID, BAD_KERNEL } kernel_type;

typedef struct {
    kernel_type type;
    double gamma, coef0, degree;
} kernel;

static kernel kernel_of(cm_str name, const cm_floats *params)
{
    static const char *const names[] = {"LINEAR", "POLY", "RBF", "SIGMOID"};
    kernel k = {.type = BAD_KERNEL};
    for (int i = 0; i < CM_COUNT(names); i++)
        if (cm_str_equal(name, cm_str_of(names[i])))
            k.type = (kernel_type)i;
    k.gamma = params->n > 0 ? (double)params->v[0] : 0;
    k.coef0 = params->n > 1 ? (double)params->v[1] : 0;
    k.degree = params->n > 2 ? (double)params->v[2] : 0;
    return k;
}

static cm_status check_kernel(cm_ctx *cx, cm_str name)
{
    if (kernel_of(name, &(cm_floats){0}).type == BAD_KERNEL)
        return cm_fail(cx, CM_ERR_MODEL, "kernel_type is none of LINEAR, POLY, RBF, SIGMOID");
    return CM_OK;
}

static double apply(const kernel *k, const double *x, const float *v, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        const double d = x[i] - (double)v[i];
        sum += k->type == RBF ? d * d : x[i] * (double)v[i];
    }
    switch (k->type) {
    case POLY:
        return cm_pow(k->gamma * sum + k->coef0, k->degree);
    case RBF:
        return cm_exp(-k->gamma * sum);
    case SIGMOID:
        return cm_tanh(k->gamma * sum + k->coef0);
    default:
        return sum;
    }
}

/* ---- type rules ---- */

static cm_ml_labels labels_of(const classifier_attr *a)
{
    return (cm_ml_labels){a->classlabels_ints, a->classlabels_strings};
}

/* Vectors in all classes, or -1 when a count is negative or they are too many. */
static int64_t count_vectors(const cm_ints *per_class)
{
    int64_t n = 0;
    for (int64_t i = 0; i < per_class->n; i++)
        if (per_class->v[i] < 0 || !cm_add_i64(n, per_class->v[i], &n))
            return -1;
    return n;
}

static cm_status wrong_count(cm_infer *f, const char *what, int64_t found, int64_t wanted)
{
    return cm_fail(f->cx, CM_ERR_MODEL, "%s has %lld values, wanted %lld", what, (long long)found,
                   (long long)wanted);
}

/* The number of features, when the type says it; else -1. */
static int64_t known_features(cm_infer *f)
{
    int64_t n;
    if (cm_infer_rank(f, 0) < 1 ||
        !cm_infer_const(f, cm_infer_dim(f, 0, cm_infer_rank(f, 0) - 1), &n))
        return -1;
    return n;
}

static cm_status check_vectors(cm_infer *f, const cm_floats *vectors, int64_t n_vectors)
{
    const int64_t n = known_features(f);
    int64_t wanted;
    if (n_vectors < 0 || (n_vectors == 0 && vectors->n))
        return cm_fail(f->cx, CM_ERR_MODEL, "the count of support vectors is wrong");
    if (n >= 0 && (!cm_mul_i64(n, n_vectors, &wanted) || vectors->n != wanted))
        return cm_fail(f->cx, CM_ERR_MODEL,
                       "support_vectors has %lld values for %lld vectors of "
                       "%lld features",
                       (long long)vectors->n, (long long)n_vectors, (long long)n);
    return CM_OK;
}

static cm_status check_pairs(cm_infer *f, const classifier_attr *a, int64_t n, int64_t pairs)
{
    const int64_t n_vectors = count_vectors(&a->vectors_per_class);
    int64_t wanted;
    CM_TRY(check_vectors(f, &a->support_vectors, n_vectors));
    if (a->vectors_per_class.n != n)
        return wrong_count(f, "vectors_per_class", a->vectors_per_class.n, n);
    if (!cm_mul_i64(n_vectors, n - 1, &wanted) || a->coefficients.n != wanted)
        return wrong_count(f, "coefficients", a->coefficients.n, wanted);
    if (a->rho.n < pairs)
        return wrong_count(f, "rho", a->rho.n, pairs);
    if (a->prob_a.n != a->prob_b.n || (a->prob_a.n && a->prob_a.n < pairs))
        return wrong_count(f, "prob_a", a->prob_a.n, pairs);
    return CM_OK;
}

static cm_status infer_classifier(cm_infer *f)
{
    const classifier_attr *a = f->attr;
    const cm_ml_labels labels = labels_of(a);
    const int64_t n = cm_ml_labels_count(&labels), width = known_features(f);
    cm_ml_transform t;
    CM_TRY(cm_ml_transform_parse(f->cx, a->post_transform, &t));
    CM_TRY(check_kernel(f->cx, a->kernel_type));
    if (n < 2 || n > 1 << 20)
        return cm_fail(f->cx, CM_ERR_MODEL, "%lld classes", (long long)n);
    const int64_t pairs = n * (n - 1) / 2;
    CM_TRY(cm_ml_check_input(f));
    if (a->support_vectors.n) {
        CM_TRY(check_pairs(f, a, n, pairs));
        return cm_ml_infer_classifier(f, &labels, a->prob_a.n || n == 2 ? n : pairs);
    }
    if (a->rho.n < 1)
        return wrong_count(f, "rho", a->rho.n, 1);
    if (width >= 0 && (a->coefficients.n / n != width || a->coefficients.n % n))
        return cm_fail(f->cx, CM_ERR_MODEL,
                       "coefficients has %lld values for %lld classes of %lld "
                       "features",
                       (long long)a->coefficients.n, (long long)n, (long long)width);
    return cm_ml_infer_classifier(f, &labels, n);
}

static cm_status infer_regressor(cm_infer *f)
{
    const regressor_attr *a = f->attr;
    const int64_t width = known_features(f);
    cm_ml_transform t;
    CM_TRY(cm_ml_transform_parse(f->cx, a->post_transform, &t));
    CM_TRY(check_kernel(f->cx, a->kernel_type));
    CM_TRY(cm_ml_check_input(f));
    if (a->rho.n < 1)
        return wrong_count(f, "rho", a->rho.n, 1);
    if (a->n_supports > 0) {
        CM_TRY(check_vectors(f, &a->support_vectors, a->n_supports));
        if (a->coefficients.n != a->n_supports)
            return wrong_count(f, "coefficients", a->coefficients.n, a->n_supports);
    } else if (width >= 0 && a->coefficients.n != width) {
        return wrong_count(f, "coefficients", a->coefficients.n, width);
    }
    if (!cm_infer_ranked(f, 0)) {
        cm_infer_unknown(f, 0);
        return CM_OK;
    }
    return cm_infer_tensor(f, 0, 2, (cm_dim[]){cm_ml_rows(f), 1});
}

static cm_status infer(cm_infer *f)
{
    return f->op->id == CM_OP_SVM_CLASSIFIER ? infer_classifier(f) : infer_regressor(f);
}

/* ---- classifier ---- */

typedef struct {
    const classifier_attr *a;
    kernel k;
    cm_ml_transform t;
    int64_t n, pairs, width, n_vectors; /* classes, pairs of them, features, vectors */
    double *kernels;                    /* of the row with each vector */
    double *scores;                     /* of each pair, or of each class */
    int64_t *votes;
    double *p, *q, *r; /* to join pairwise probabilities: n, n*n, n*n */
} svm;

/* A decision for each pair (i, j), i < j: positive says i. */
static void decide_pairs(svm *s, const double *x)
{
    const classifier_attr *a = s->a;
    int64_t pair = 0, from_i = 0;
    for (int64_t v = 0; v < s->n_vectors; v++)
        s->kernels[v] = apply(&s->k, x, a->support_vectors.v + v * s->width, s->width);
    memset(s->votes, 0, (size_t)s->n * sizeof *s->votes);
    for (int64_t i = 0; i < s->n; from_i += a->vectors_per_class.v[i++]) {
        int64_t from_j = from_i + a->vectors_per_class.v[i];
        for (int64_t j = i + 1; j < s->n; from_j += a->vectors_per_class.v[j++], pair++) {
            double sum = (double)a->rho.v[pair];
            for (int64_t v = from_i; v < from_i + a->vectors_per_class.v[i]; v++)
                sum += (double)a->coefficients.v[s->n_vectors * (j - 1) + v] * s->kernels[v];
            for (int64_t v = from_j; v < from_j + a->vectors_per_class.v[j]; v++)
                sum += (double)a->coefficients.v[s->n_vectors * i + v] * s->kernels[v];
            s->scores[pair] = sum;
            s->votes[sum > 0 ? i : j]++;
        }
    }
}

/* Class probabilities p from those of pairs r (r[i][j]: i rather than j), by the iteration of Wu,
 * Lin and Weng (2004): the p that makes sum over pairs of (r[j][i] p[i] - r[i][j] p[j])^2 least. */
static void couple(svm *s)
{
    const int64_t n = s->n, steps = n > 100 ? n : 100;
    double *p = s->p, *q = s->q;
    const double *r = s->r, eps = 0.005 / (double)n;
    for (int64_t t = 0; t < n; t++) {
        p[t] = 1 / (double)n;
        q[t * n + t] = 0;
        for (int64_t j = 0; j < n; j++)
            if (j != t) {
                q[t * n + t] += r[j * n + t] * r[j * n + t];
                q[t * n + j] = -r[j * n + t] * r[t * n + j];
            }
    }
    double *qp = s->scores; /* the pairs' scores are not needed any more; at least n of room */
    for (int64_t step = 0; step < steps; step++) {
        double pqp = 0, worst = 0;
        for (int64_t t = 0; t < n; t++) {
            qp[t] = 0;
            for (int64_t j = 0; j < n; j++)
                qp[t] += q[t * n + j] * p[j];
            pqp += p[t] * qp[t];
        }
        for (int64_t t = 0; t < n; t++)
            worst = fabs(qp[t] - pqp) > worst ? fabs(qp[t] - pqp) : worst;
        if (worst < eps)
            break;
        for (int64_t t = 0; t < n; t++) {
            const double d = (pqp - qp[t]) / q[t * n + t];
            p[t] += d;
            pqp = (pqp + d * (d * q[t * n + t] + 2 * qp[t])) / (1 + d) / (1 + d);
            for (int64_t j = 0; j < n; j++) {
                qp[j] = (qp[j] + d * q[t * n + j]) / (1 + d);
                p[j] /= 1 + d;
            }
        }
    }
}

static void probabilities(svm *s)
{
    const int64_t n = s->n;
    int64_t pair = 0;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = i + 1; j < n; j++, pair++) {
            double v = 1 - cm_ml_logistic(s->scores[pair] * (double)s->a->prob_a.v[pair] +
                                          (double)s->a->prob_b.v[pair]);
            v = v < 1e-7 ? 1e-7 : v > 1 - 1e-7 ? 1 - 1e-7 : v;
            s->r[i * n + j] = v;
            s->r[j * n + i] = 1 - v;
        }
    couple(s);
    memcpy(s->scores, s->p, (size_t)n * sizeof *s->p);
}

/* Scores of the classes without support vectors, and the label. */
static int64_t decide_linear(svm *s, const double *x)
{
    const classifier_attr *a = s->a;
    const kernel plain = {.type = LINEAR};
    int64_t best = 0;
    bool positive = true;
    for (int64_t i = 0; i < s->n; i++) {
        s->scores[i] =
            apply(&plain, x, a->coefficients.v + i * s->width, s->width) + (double)a->rho.v[0];
        if (s->scores[i] > s->scores[best])
            best = i;
    }
    if (s->n != 2 || a->rho.n != 1)
        return best;
    for (int64_t i = 0; i < a->coefficients.n; i++)
        positive &= a->coefficients.v[i] >= 0;
    return s->scores[best] >= (positive ? 0.5 : 0) && s->scores[best] > 0 ? 1 : best;
}

/* The two scores of a binary classifier from its one decision. */
static void spread(cm_ml_transform t, double *s)
{
    const double d = s[0];
    s[0] = t == CM_ML_NONE ? -d : t == CM_ML_LOGISTIC ? cm_ml_logistic(-d) : 1 - d;
    s[1] = t == CM_ML_LOGISTIC ? cm_ml_logistic(d) : d;
    if (t == CM_ML_PROBIT)
        cm_ml_transform_scores(t, s, 2);
}

/* The label of a row, and its scores in s->scores. */
static int64_t classify(svm *s, const double *x)
{
    if (!s->n_vectors) {
        const int64_t label = decide_linear(s, x);
        cm_ml_transform_scores(s->t, s->scores, s->n);
        return label;
    }
    decide_pairs(s, x);
    int64_t best = 0;
    for (int64_t i = 1; i < s->n; i++)
        if (s->votes[i] > s->votes[best])
            best = i;
    if (s->a->prob_a.n) {
        probabilities(s);
        cm_ml_transform_scores(s->t, s->scores, s->n);
    } else if (s->n == 2) {
        spread(s->t, s->scores);
    } else {
        cm_ml_transform_scores(s->t, s->scores, s->pairs);
    }
    return best;
}

static cm_status make_svm(cm_eval *e, svm *s)
{
    const classifier_attr *a = e->attr;
    const cm_ml_labels labels = labels_of(a);
    void *v;
    *s = (svm){.a = a, .k = kernel_of(a->kernel_type, &a->kernel_params)};
    CM_TRY(cm_ml_transform_parse(e->cx, a->post_transform, &s->t));
    s->n = cm_ml_labels_count(&labels);
    s->pairs = s->n * (s->n - 1) / 2;
    s->width = cm_ml_eval_features(e);
    s->n_vectors = a->support_vectors.n ? count_vectors(&a->vectors_per_class) : 0;
    CM_TRY(cm_eval_scratch(e, (size_t)(s->n_vectors + s->pairs + 3 * s->n), sizeof(double), &v));
    s->kernels = v;
    s->scores = s->kernels + s->n_vectors;
    s->p = s->scores + s->pairs + s->n;
    CM_TRY(cm_eval_scratch(e, (size_t)s->n, sizeof(int64_t), &v));
    s->votes = v;
    if (!a->prob_a.n || !s->n_vectors)
        return CM_OK;
    CM_TRY(cm_eval_scratch(e, (size_t)s->n * (size_t)s->n, 2 * sizeof(double), &v));
    s->q = v;
    s->r = s->q + s->n * s->n;
    return CM_OK;
}

static cm_status eval_classifier(cm_eval *e)
{
    const cm_ml_labels labels = labels_of(e->attr);
    const int64_t rows = cm_ml_eval_rows(e);
    const double *x;
    svm s;
    CM_TRY(make_svm(e, &s));
    CM_TRY(cm_eval_as_f64(e, 0, &x));
    for (int64_t r = 0; r < rows; r++) {
        CM_TRY(cm_check_cancel(e->cx));
        cm_ml_put_label(e, &labels, r, classify(&s, x + r * s.width));
        if (cm_eval_wants(e, 1)) {
            const int64_t n = cm_eval_out(e, 1)->dims[1];
            cm_store_f64(CM_F32, s.scores, n, (float *)cm_eval_out(e, 1)->data + r * n);
        }
    }
    return CM_OK;
}

static cm_status eval_regressor(cm_eval *e)
{
    const regressor_attr *a = e->attr;
    const int64_t rows = cm_ml_eval_rows(e), width = cm_ml_eval_features(e);
    const kernel k = kernel_of(a->kernel_type, &a->kernel_params);
    const double *x;
    if (!cm_eval_wants(e, 0))
        return CM_OK;
    CM_TRY(cm_eval_as_f64(e, 0, &x));
    float *out = cm_eval_out(e, 0)->data;
    for (int64_t r = 0; r < rows; r++, x += width) {
        CM_TRY(cm_check_cancel(e->cx));
        double sum = (double)a->rho.v[0];
        for (int64_t v = 0; v < a->n_supports; v++)
            sum += (double)a->coefficients.v[v] *
                   apply(&k, x, a->support_vectors.v + v * width, width);
        if (a->n_supports <= 0)
            sum += apply(&k, x, a->coefficients.v, width);
        out[r] = a->one_class ? (sum > 0 ? 1 : -1) : (float)sum;
    }
    return CM_OK;
}

static cm_status eval(cm_eval *e)
{
    return e->op->id == CM_OP_SVM_CLASSIFIER ? eval_classifier(e) : eval_regressor(e);
}

const cm_family cm_family_ml_svm = {.name = "ml_svm", .infer = infer, .eval = eval};
