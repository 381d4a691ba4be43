/* quant_softmax.h -- softmax of rows of bytes.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_CPU_QUANT_SOFTMAX_H
#define CM_CPU_QUANT_SOFTMAX_H

#include "plan/tactic.h"

/* Rows of n bytes, one after the other. `power` holds e^(-d |scale|) for the distances d that two bytes may have;
 * the others are the entries of it at multiples of 8, 16 and 64. */
typedef struct cm_qsoftmax {
    const uint8_t *x;
    uint8_t *y;
    int64_t n;
    bool is_signed;
    float scale, zero, y_scale, y_zero;
    float power[256], by_8[8], by_16[16], by_64[8];
} cm_qsoftmax;
typedef void cm_qsoftmax_powers_fn(cm_qsoftmax *q); /* makes the tables */
typedef void cm_qsoftmax_rows_fn(const cm_qsoftmax *q, int64_t begin, int64_t end);
cm_qsoftmax_powers_fn cm_cpu_qsoftmax_powers__generic, cm_cpu_qsoftmax_powers__avx2,
    cm_cpu_qsoftmax_powers__avx512;
cm_qsoftmax_rows_fn cm_cpu_qsoftmax_rows__generic, cm_cpu_qsoftmax_rows__avx2,
    cm_cpu_qsoftmax_rows__avx512;

/* QLinearSoftmax, a row of the table of QUANTISE. */
const char *cm_quantise_softmax_reject(const cm_problem *p);
double cm_quantise_softmax_cost(const cm_problem *p, const cm_knobs *k);
cm_status cm_quantise_softmax_run(const cm_run *r) CM_MUST_USE;

#endif
