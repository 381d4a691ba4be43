/* rotary.h -- the kernel that rotates pairs of columns.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_CPU_ROTARY_H
#define CM_CPU_ROTARY_H

#include <stdbool.h>
#include <stdint.h>

/* One row of n columns; n is even. */
typedef void cm_rotate_fn(const float *x, const float *cos, const float *sin, int64_t n, float *y);
cm_rotate_fn cm_cpu_rotate_halves__generic, cm_cpu_rotate_halves__avx2,
    cm_cpu_rotate_halves__avx512;
cm_rotate_fn cm_cpu_rotate_pairs__generic, cm_cpu_rotate_pairs__avx2, cm_cpu_rotate_pairs__avx512;
/* Pairs of adjacent columns where interleaved, else (j, j + n / 2). */
cm_rotate_fn *cm_cpu_rotate_kernel(int level, bool interleaved);

#endif
