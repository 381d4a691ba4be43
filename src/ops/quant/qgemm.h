/* qgemm.h -- products of quantised matrices: exact sums of (a - zero_a)(b - zero_b), then a scale.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_OPS_QGEMM_H
#define CM_OPS_QGEMM_H

#include "ops/linear/batch_matmul.h"

/* A zero point or a scale: one for all, or one for each line (row of A, column of B), or for each
 * line of each matrix. */
typedef struct cm_qparam {
    const double *v; /* NULL: the default */
    int64_t by_matrix, by_line;
} cm_qparam;

typedef struct cm_qoperand {
    cm_dtype dtype;
    const void *data;
    cm_qparam zero, scale;
} cm_qoperand;

typedef enum { CM_QGEMM_SUMS, CM_QGEMM_REAL, CM_QGEMM_QUANTIZED } cm_qgemm_mode;

typedef struct cm_qgemm {
    cm_batch_matmul shape;
    cm_qoperand a, b;
    cm_qgemm_mode mode;
    double alpha;        /* of REAL and QUANTIZED; 1 */
    const double *bias;  /* REAL: per column, added to the result; NULL: none */
    const int64_t *sums; /* added to the sums, strides below; NULL: none */
    int64_t sums_row, sums_col;
    double y_scale, y_zero;
    cm_dtype y_dtype;
    void *y; /* [batch, m, n] dense */
} cm_qgemm;

cm_status cm_qgemm_run(cm_eval *e, const cm_qgemm *g) CM_MUST_USE;

/* Check that input p may be the parameter of input x: one element, or one per row (A) or column
 * (B) as a vector or with x's rank and a 1 in the other of the last two axes. */
cm_status cm_qparam_check(cm_infer *f, int p, const char *name, int x, bool is_b) CM_MUST_USE;
cm_status cm_qparam_read(cm_eval *e, int p, const cm_tensor *x, bool is_b,
                         cm_qparam *out) CM_MUST_USE;

#endif
