/* batch_matmul.h -- shapes of numpy's matmul, for the operators that are one underneath.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_OPS_BATCH_MATMUL_H
#define CM_OPS_BATCH_MATMUL_H

#include "ops/eval.h"

/* Output o from inputs a and b: the last two axes multiplied (vectors as numpy has it), the others
 * broadcast. trans_x swaps the last two axes first; batch_x moves the first axis to the place of
 * the second last (com.microsoft.FusedMatMul). Unknown when a rank is. */
typedef struct cm_batch_matmul_form {
    bool trans_a, trans_b, batch_a, batch_b;
} cm_batch_matmul_form;
cm_status cm_batch_matmul_infer(cm_infer *f, int o, int a, int b,
                                const cm_batch_matmul_form *form) CM_MUST_USE;

/* An operand as matrices: element (i, j) of matrix n at offsets[n] + i*row + j*col. */
typedef struct cm_batch_operand {
    int64_t rows, cols, row, col;
    int64_t *offsets;
} cm_batch_operand;
typedef struct cm_batch_matmul {
    int64_t batch, m, n, k;
    cm_batch_operand a, b;
} cm_batch_matmul;
cm_status cm_batch_matmul_read(cm_eval *e, const cm_tensor *a, const cm_tensor *b,
                               const cm_batch_matmul_form *form, cm_batch_matmul *out) CM_MUST_USE;

#endif
