/* tensor_stats.h -- numbers about the elements of a tensor.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_CLI_TENSOR_STATS_H
#define CM_CLI_TENSOR_STATS_H

#include "plan/tensor.h"

enum { CM_STATS_BINS = 16 };

/* Infinities and NaN are counted, and left out of the rest. */
typedef struct cm_tensor_stats {
    int64_t n, n_nan, n_inf, n_zero, n_finite;
    double min, max, mean, deviation; /* 0 when nothing is finite */
    int64_t bins[CM_STATS_BINS];      /* of equal width from min to max */
} cm_tensor_stats;

/* False: its elements are no numbers (strings, complex). Dense; sub-byte types packed or not. */
bool cm_tensor_stats_of(const cm_tensor *t, cm_tensor_stats *out);

#endif
