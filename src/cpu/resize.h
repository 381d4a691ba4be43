/* resize.h -- the kernels of interpolation.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_CPU_RESIZE_H
#define CM_CPU_RESIZE_H

#include <stdint.h>

enum { CM_BLEND_ROWS = 32 };

typedef struct cm_resize_kernels {
    /* y[i] = (onto: y[i]) + sum over k < rows of weight[k] * x[k][i], i < n. 1 to CM_BLEND_ROWS rows. */
    void (*blend)(int rows, const float *const *x, const float *weight, int64_t n, int onto,
                  float *y);
    /* y[o] = sum over t < taps of weight[t * out + o] * x[from[t * out + o]], weights of 0 left out, o in
     * [0, out); x has n elements. Where from is -1 the result means nothing. */
    void (*along)(const float *x, int64_t n, int64_t out, int taps, const int32_t *from,
                  const float *weight, float *y);
    /* y[o] = x[from[o]], as bits. */
    void (*nearest)(const float *x, int64_t n, int64_t out, const int32_t *from, float *y);
} cm_resize_kernels;

extern const cm_resize_kernels cm_cpu_resize__generic, cm_cpu_resize__avx2, cm_cpu_resize__avx512;
const cm_resize_kernels *cm_resize_kernels_at(int level);

#endif
