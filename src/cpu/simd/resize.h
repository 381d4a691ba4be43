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

/* x[from[0]] ... x[from[VW - 1]], x having n elements. Where the input is enlarged these lie within
 * one vector, which is loaded and permuted; elements that are wide apart are picked one by one. A
 * position outside (-1) gives an element of x. */
VINLINE vf picked(const float *x, int64_t n, const int32_t *from)
{
#if VW > 4
    const int64_t base = from[0] < 0 ? 0 : from[0];
    const int room = n - base < VW ? (int)(n - base) : VW;
#endif
#if VW == 16
    vi at = _mm512_sub_epi32(_mm512_loadu_si512(from), _mm512_set1_epi32((int)base));
    if (_mm512_cmplt_epu32_mask(at, _mm512_set1_epi32(VW)) == 0xffff)
        return _mm512_permutexvar_ps(at, vf_load_n(x + base, room));
#elif VW == 8
    vi at =
        _mm256_sub_epi32(_mm256_loadu_si256((const __m256i *)from), _mm256_set1_epi32((int)base));
    vi high = _mm256_andnot_si256(_mm256_set1_epi32(VW - 1), at);
    if (_mm256_testz_si256(high, high))
        return _mm256_permutevar8x32_ps(vf_load_n(x + base, room), at);
#endif
    float v[VW];
    for (int i = 0; i < VW; i++)
        v[i] = x[from[i] < 0 ? 0 : from[i]];
    (void)n;
    return vf_load(v);
}

static void along(const float *x, int64_t n, int64_t out, int taps, const int32_t *from,
                  const float *weight, float *y)
{
    int64_t o = 0;
    for (; o + VW <= out; o += VW) {
        vf sum = vf_zero();
        for (int t = 0; t < taps; t++) {
            vf w = vf_load(weight + t * out + o), e = picked(x, n, from + t * out + o);
            vm used = vf_ne(w, vf_zero());
            sum = vf_fma(w, vf_select(used, e, vf_zero()), sum);
        }
        vf_store(y + o, sum);
    }
    for (; o < out; o++) {
        float sum = 0;
        for (int t = 0; t < taps && from[o] >= 0; t++)
            if (weight[t * out + o] != 0)
                sum += weight[t * out + o] * x[from[t * out + o]];
        y[o] = sum;
    }
}

static void nearest(const float *x, int64_t n, int64_t out, const int32_t *from, float *y)
{
    int64_t o = 0;
    for (; o + VW <= out; o += VW)
        vf_store(y + o, picked(x, n, from + o));
    for (; o < out; o++)
        y[o] = x[from[o] < 0 ? 0 : from[o]];
}

const cm_resize_kernels CM_LEVEL(cm_cpu_resize) = {
    .blend = blend, .along = along, .nearest = nearest};

#endif
