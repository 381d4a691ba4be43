/* sort.h -- the best of a row, and running sums.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_CPU_SORT_H
#define CM_CPU_SORT_H

#include <stdbool.h>
#include <stdint.h>

/* The first i in [from, n) where x[i] is NaN or beyond t (above it, or below); n: none. */
typedef int64_t cm_next_beyond_fn(const float *x, int64_t from, int64_t n, float t, bool above);
cm_next_beyond_fn cm_cpu_next_beyond__generic, cm_cpu_next_beyond__avx2, cm_cpu_next_beyond__avx512;

/* The k first of n numbers in order, the lower index first among equals, NaN above all. order: k
 * numbers, of which the lower 32 bits are the index. room: 2 * n of 64 bits. n is below 2^31. */
void cm_top_k(int level, const float *x, int64_t n, int64_t k, bool largest, uint64_t *room,
              uint64_t *order);

/* Running sums of `lanes` numbers side by side, n steps of `step` elements each, in double. */
typedef void cm_running_fn(const float *x, float *y, int64_t lanes, int64_t n, int64_t step,
                           bool exclusive);
cm_running_fn cm_cpu_running__generic, cm_cpu_running__avx2, cm_cpu_running__avx512;

#endif
