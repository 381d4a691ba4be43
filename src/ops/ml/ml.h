/* ml.h -- what the models of ai.onnx.ml share: labels, rows of features, transforms of scores.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_OPS_ML_H
#define CM_OPS_ML_H

#include "ops/eval.h"

/* The numbers are those of TreeEnsemble's post_transform. */
typedef enum {
    CM_ML_NONE,
    CM_ML_SOFTMAX,
    CM_ML_LOGISTIC,
    CM_ML_SOFTMAX_ZERO, /* softmax that leaves zeros out */
    CM_ML_PROBIT
} cm_ml_transform;

cm_status cm_ml_transform_parse(cm_ctx *cx, cm_str name, cm_ml_transform *out) CM_MUST_USE;
double cm_ml_logistic(double x);
/* Transform n scores in place. A single score is left alone but by PROBIT, as ONNX Runtime does. */
void cm_ml_transform_scores(cm_ml_transform t, double *scores, int64_t n);

/* Labels of a classifier: one of the two lists. */
typedef struct cm_ml_labels {
    cm_ints ints;
    cm_strs strs;
} cm_ml_labels;

int64_t cm_ml_labels_count(const cm_ml_labels *l);
/* Outputs of a classifier: labels [N] and scores [N, n_scores]. */
cm_status cm_ml_infer_classifier(cm_infer *f, const cm_ml_labels *l, cm_dim n_scores) CM_MUST_USE;
/* Label `index` into row `row` of output 0, where somebody reads it. */
void cm_ml_put_label(cm_eval *e, const cm_ml_labels *l, int64_t row, int64_t index);

/* Rows of the input: [N,C], or [C] as [1,C]. */
cm_status cm_ml_check_input(cm_infer *f) CM_MUST_USE;
cm_dim cm_ml_rows(const cm_infer *f);
int64_t cm_ml_eval_rows(const cm_eval *e);
int64_t cm_ml_eval_features(const cm_eval *e);

#endif
