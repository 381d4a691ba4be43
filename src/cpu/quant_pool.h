/* quant_pool.h -- pools of bytes, channels innermost.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_CPU_QUANT_POOL_H
#define CM_CPU_QUANT_POOL_H

#include "plan/tactic.h"

/* What of a window lies inside of the input: n positions along each axis, `step` bytes apart. */
typedef struct cm_qwindow {
    const uint8_t *from;
    int64_t n[3], step[3];
} cm_qwindow;

/* y[c] for channels [0, n). AVERAGE: real numbers scale * (x - zero) are summed, exactly, divided, rounded
 * to float32 and quantised. SUM: whole numbers are summed, less zero_sum, times `scale`, quantised. */
typedef enum { CM_QPOOL_MAX, CM_QPOOL_AVERAGE, CM_QPOOL_SUM } cm_qpool_kind;
typedef struct cm_qpool {
    cm_qpool_kind kind;
    bool is_signed;
    float scale, zero, y_scale, y_zero;
    double divisor;
    int32_t zero_sum;
} cm_qpool;
typedef void cm_qpool_fn(const cm_qpool *q, const cm_qwindow *w, int64_t n, uint8_t *y);
cm_qpool_fn cm_cpu_qpool__generic, cm_cpu_qpool__avx2, cm_cpu_qpool__avx512;

/* MaxPool of bytes, a row of the table of POOL. */
const char *cm_cpu_pool_bytes_reject(const cm_problem *p);
double cm_cpu_pool_bytes_cost(const cm_problem *p, const cm_knobs *k);
cm_status cm_cpu_pool_bytes_run(const cm_run *r);
/* QLinearAveragePool and QLinearGlobalAveragePool, kinds of QUANTISE. */
const char *cm_quantise_pool_reject(const cm_problem *p);
double cm_quantise_pool_cost(const cm_problem *p);
void cm_quantise_pool_run(const cm_run *r);

#endif
