/* resize.h -- the kernels of interpolation for one ISA level: include it once, in that folder.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_CPU_SIMD_RESIZE_H
#define CM_CPU_SIMD_RESIZE_H

#include "cpu/resize.h"
#include "cpu/simd/vec.h"

/* `vectors` vectors at i, the last with `lanes`. */
VINLINE void blend_vectors(int vectors, int lanes, int rows, const float *const *x,
                           const float *weight, int64_t i, int onto, float *y)
{
    vf sum[4];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++)
        sum[v] = !onto ? vf_zero() : lanes < VW ? vf_load_n(y + i, lanes) : vf_load(y + i + v * VW);
    for (int k = 0; k < rows; k++) {
        vf w = vf_set(weight[k]);
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) {
            const float *at = x[k] + i + v * VW;
            sum[v] = vf_fma(w, lanes < VW ? vf_load_n(at, lanes) : vf_load(at), sum[v]);
        }
    }
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++) {
        if (lanes < VW)
            vf_store_n(y + i, sum[v], lanes);
        else
            vf_store(y + i + v * VW, sum[v]);
    }
}

static void blend(int rows, const float *const *x, const float *weight, int64_t n, int onto,
                  float *y)
{
    int64_t i = 0;
    for (; i + 4 * VW <= n; i += 4 * VW)
        blend_vectors(4, VW, rows, x, weight, i, onto, y);
    for (; i + VW <= n; i += VW)
        blend_vectors(1, VW, rows, x, weight, i, onto, y);
    if (i < n)
        blend_vectors(1, (int)(n - i), rows, x, weight, i, onto, y);
}

/* Elements are picked one by one: a gather is no faster on the machines that were tried. `taps` is a
 * constant where the usual filters call this. */
VINLINE void along_taps(const float *restrict x, int64_t out, int taps,
                        const int32_t *restrict from, const float *restrict weight,
                        float *restrict y)
{
    for (int64_t o = 0; o < out; o++) {
        float sum = 0;
        for (int t = 0; t < taps && from[o] >= 0; t++) {
            float w = weight[t * out + o], term = w * x[from[t * out + o]];
            sum += w != 0 ? term : 0;
        }
        y[o] = sum;
    }
}

static void along(const float *x, int64_t out, int taps, const int32_t *from, const float *weight,
                  float *y)
{
    if (taps == 2)
        along_taps(x, out, 2, from, weight, y);
    else if (taps == 4)
        along_taps(x, out, 4, from, weight, y);
    else
        along_taps(x, out, taps, from, weight, y);
}

const cm_resize_kernels CM_LEVEL(cm_cpu_resize) = {.blend = blend, .along = along};

#endif
