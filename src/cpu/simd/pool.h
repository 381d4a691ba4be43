/* pool.h -- the kernels of pools for one ISA level: include it once, in that folder.
 * SPDX-License-Identifier: Apache-2.0
 *
 * `r`, what is reduced with, is a constant wherever the inline functions are called. */
#ifndef CM_CPU_SIMD_POOL_H
#define CM_CPU_SIMD_POOL_H

#include <math.h>

#include "cpu/pool.h"
#include "cpu/simd/half.h"

VINLINE float identity(cm_reducing r)
{
    return r == CM_REDUCING_MAX ? -INFINITY : 0;
}

/* An element of the input, as it goes into the reduction. */
VINLINE vf taken(cm_reducing r, vf x)
{
    return r == CM_REDUCING_MAGNITUDES ? vf_abs(x) : r == CM_REDUCING_SQUARES ? vf_mul(x, x) : x;
}
VINLINE float taken_1(cm_reducing r, float x)
{
    return r == CM_REDUCING_MAGNITUDES ? fabsf(x) : r == CM_REDUCING_SQUARES ? x * x : x;
}

/* Two that were taken. vf_max gives its second operand when one is NaN: `a` stays NaN, and x is put
 * back where it is one. */
VINLINE vf joined(cm_reducing r, vf a, vf x)
{
    if (r == CM_REDUCING_MAX)
        return vf_select(vf_ne(x, x), x, vf_max(x, a));
    return vf_add(a, x);
}
VINLINE float joined_1(cm_reducing r, float a, float x)
{
    if (r == CM_REDUCING_MAX)
        return x > a || x != x ? x : a;
    return a + x;
}

VINLINE vf finished(cm_reducing r, vf a, vf divisor)
{
    return r == CM_REDUCING_SUM ? vf_div(a, divisor) : r == CM_REDUCING_SQUARES ? vf_sqrt(a) : a;
}

enum { RUN = 64 }; /* pixels that are added up on their own */

/* Vector of the channels from element `at` on. */
VINLINE vf channels_at(bool half, const void *x, int64_t at, int lanes)
{
    if (half) {
        const uint16_t *p = (const uint16_t *)x + at;
        return lanes < VW ? vf_load_bf16_n(p, lanes) : vf_load_bf16(p);
    }
    const float *p = (const float *)x + at;
    return lanes < VW ? vf_load_n(p, lanes) : vf_load(p);
}

/* `count` pixels from element `at` on, `step` apart, onto the sums of n vectors of channels, the last of them with
 * `lanes`. */
VINLINE void window_run(cm_reducing r, bool half, const void *x, int64_t at, int64_t count,
                        int64_t step, int n, int lanes, vf *sum)
{
    vf run[4];
#pragma GCC unroll 4
    for (int v = 0; v < n; v++)
        run[v] = vf_set(identity(r));
    for (int64_t j = 0; j < count; j++, at += step) {
#pragma GCC unroll 4
        for (int v = 0; v < n; v++) {
            vf e = channels_at(half, x, at + v * VW, v == n - 1 ? lanes : VW);
            run[v] = joined(r, run[v], taken(r, e));
        }
    }
#pragma GCC unroll 4
    for (int v = 0; v < n; v++)
        sum[v] = joined(r, sum[v], run[v]);
}

VINLINE void window_vectors(cm_reducing r, bool half, const cm_pool_window *w, int64_t channel,
                            int n, int lanes, int64_t pixel, float divisor, float *y)
{
    vf sum[4];
#pragma GCC unroll 4
    for (int v = 0; v < n; v++)
        sum[v] = vf_set(identity(r));
    for (int64_t z = 0; z < w->n[0]; z++)
        for (int64_t i = 0; i < w->n[1]; i++) {
            int64_t at = pixel * w->apart + z * w->step[0] + i * w->step[1] + channel;
            for (int64_t j = 0; j < w->n[2]; j += RUN)
                window_run(r, half, w->x, at + j * w->step[2],
                           w->n[2] - j < RUN ? w->n[2] - j : RUN, w->step[2], n, lanes, sum);
        }
#pragma GCC unroll 4
    for (int v = 0; v < n; v++) {
        vf e = finished(r, sum[v], vf_set(divisor));
        if (v == n - 1 && lanes < VW)
            vf_store_n(y + channel + v * VW, e, lanes);
        else
            vf_store(y + channel + v * VW, e);
    }
}

/* Four vectors at a time; what is left, the last of its vectors perhaps not whole, as one. */
VINLINE void window_channels(cm_reducing r, bool half, const cm_pool_window *w, int64_t channels,
                             int64_t pixel, float divisor, float *y)
{
    int64_t c = 0;
    y += pixel * w->to_apart;
    for (; c + 4 * VW <= channels; c += 4 * VW)
        window_vectors(r, half, w, c, 4, VW, pixel, divisor, y);
    int64_t rest = channels - c;
    int lanes = (int)(rest % VW ? rest % VW : VW);
    if (rest > 3 * VW)
        window_vectors(r, half, w, c, 4, lanes, pixel, divisor, y);
    else if (rest > 2 * VW)
        window_vectors(r, half, w, c, 3, lanes, pixel, divisor, y);
    else if (rest > VW)
        window_vectors(r, half, w, c, 2, lanes, pixel, divisor, y);
    else if (rest == VW)
        window_vectors(r, half, w, c, 1, VW, pixel, divisor, y);
    else if (rest > 0)
        window_vectors(r, half, w, c, 1, lanes, pixel, divisor, y);
}

VINLINE void down_row(cm_reducing r, float *t, const float *x, int64_t n, int onto)
{
    int64_t i = 0;
    for (; i + VW <= n; i += VW) {
        vf e = taken(r, vf_load(x + i));
        vf_store(t + i, onto ? joined(r, vf_load(t + i), e) : e);
    }
    if (i < n) {
        int lanes = (int)(n - i);
        vf e = taken(r, vf_load_n(x + i, lanes));
        vf_store_n(t + i, onto ? joined(r, vf_load_n(t + i, lanes), e) : e, lanes);
    }
}

/* VW elements of t, `stride` apart (1 or 2); reads as far as 2 * VW. */
VINLINE vf load_apart(const float *t, int stride)
{
    if (stride == 1)
        return vf_load(t);
#if VW == 16
    const vi even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    return _mm512_permutex2var_ps(vf_load(t), even, vf_load(t + VW));
#elif VW == 8
    __m256 v = _mm256_shuffle_ps(vf_load(t), vf_load(t + VW), 0x88);
    return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(v), 0xd8));
#else
    return _mm_shuffle_ps(vf_load(t), vf_load(t + VW), 0x88);
#endif
}

/* The last vector reads beyond what is wanted: the line has room (CM_POOL_SLACK). */
VINLINE void along_vectors(cm_reducing r, const float *t, int64_t n, int64_t kernel, int stride,
                           int64_t dilation, float *y)
{
    for (int64_t i = 0; i < n; i += VW) {
        vf sum = load_apart(t + i * stride, stride);
        for (int64_t j = 1; j < kernel; j++)
            sum = joined(r, sum, load_apart(t + i * stride + j * dilation, stride));
        if (i + VW <= n)
            vf_store(y + i, sum);
        else
            vf_store_n(y + i, sum, (int)(n - i));
    }
}

VINLINE void along_row(cm_reducing r, const float *t, int64_t n, int64_t kernel, int64_t stride,
                       int64_t dilation, float *y)
{
    if (stride == 1) {
        along_vectors(r, t, n, kernel, 1, dilation, y);
        return;
    }
    if (stride == 2) {
        along_vectors(r, t, n, kernel, 2, dilation, y);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        float sum = t[i * stride];
        for (int64_t j = 1; j < kernel; j++)
            sum = joined_1(r, sum, t[i * stride + j * dilation]);
        y[i] = sum;
    }
}

/* Elements 0, 2, ... and 1, 3, ... of the 2 * n that are at t. */
VINLINE void split_pairs(const float *t, int n, vf *even, vf *odd)
{
    vf a = vf_load_n(t, 2 * n < VW ? 2 * n : VW),
       b = vf_load_n(t + VW, 2 * n > VW ? 2 * n - VW : 0);
#if VW == 16
    const vi at = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    *even = _mm512_permutex2var_ps(a, at, b);
    *odd = _mm512_permutex2var_ps(a, _mm512_or_epi32(at, vi_set(1)), b);
#elif VW == 8
    vf e = _mm256_shuffle_ps(a, b, 0x88), o = _mm256_shuffle_ps(a, b, 0xdd);
    *even = _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(e), 0xd8));
    *odd = _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(o), 0xd8));
#else
    *even = _mm_shuffle_ps(a, b, 0x88);
    *odd = _mm_shuffle_ps(a, b, 0xdd);
#endif
}

VINLINE vf quarter(cm_reducing r, const float *x, int64_t row, int n)
{
    vf v[4];
    UNROLL
    for (int i = 0; i < 2; i++) {
        vf even, odd;
        split_pairs(x + i * row, n, &even, &odd);
        v[2 * i] = taken(r, even);
        v[2 * i + 1] = taken(r, odd);
    }
    return finished(r, joined(r, joined(r, v[0], v[2]), joined(r, v[1], v[3])), vf_set(4));
}

VINLINE void quarter_rows(cm_reducing r, const float *x, int64_t row, int64_t rows, int64_t n,
                          float *y)
{
    for (int64_t k = 0; k < rows; k++, x += 2 * row, y += n) {
        int64_t i = 0;
        for (; i + VW <= n; i += VW)
            vf_store(y + i, quarter(r, x + 2 * i, row, VW));
        if (i < n)
            vf_store_n(y + i, quarter(r, x + 2 * i, row, (int)(n - i)), (int)(n - i));
    }
}

VINLINE float line_of(cm_reducing r, const float *x, int64_t n)
{
    vf sum[4] = {vf_set(identity(r)), vf_set(identity(r)), vf_set(identity(r)),
                 vf_set(identity(r))};
    int64_t i = 0;
    for (; i + 4 * VW <= n; i += 4 * VW)
#pragma GCC unroll 4
        for (int v = 0; v < 4; v++)
            sum[v] = joined(r, sum[v], taken(r, vf_load(x + i + v * VW)));
    for (; i + VW <= n; i += VW)
        sum[0] = joined(r, sum[0], taken(r, vf_load(x + i)));
    float lanes[VW], all = identity(r);
    vf_store(lanes, joined(r, joined(r, sum[0], sum[1]), joined(r, sum[2], sum[3])));
    for (; i < n; i++)
        all = joined_1(r, all, taken_1(r, x[i]));
    for (int v = 0; v < VW; v++)
        all = joined_1(r, all, lanes[v]);
    return all;
}

#define REDUCING(name, r)                                                                          \
    static void window_##name(const cm_pool_window *w, int64_t channels, float divisor, float *y)  \
    {                                                                                              \
        for (int64_t i = 0; i < w->pixels; i++)                                                    \
            window_channels(r, false, w, channels, i, divisor, y);                                 \
    }                                                                                              \
    static void half_##name(const cm_pool_window *w, int64_t channels, float divisor, float *y)    \
    {                                                                                              \
        for (int64_t i = 0; i < w->pixels; i++)                                                    \
            window_channels(r, true, w, channels, i, divisor, y);                                  \
    }                                                                                              \
    static void down_##name(float *t, const float *x, int64_t n, int onto)                         \
    {                                                                                              \
        if (onto)                                                                                  \
            down_row(r, t, x, n, 1);                                                               \
        else                                                                                       \
            down_row(r, t, x, n, 0);                                                               \
    }                                                                                              \
    static void along_##name(const float *t, int64_t n, int64_t kernel, int64_t stride,            \
                             int64_t dilation, float *y)                                           \
    {                                                                                              \
        along_row(r, t, n, kernel, stride, dilation, y);                                           \
    }                                                                                              \
    static void quarters_##name(const float *x, int64_t row, int64_t rows, int64_t n, float *y)    \
    {                                                                                              \
        quarter_rows(r, x, row, rows, n, y);                                                       \
    }                                                                                              \
    static float line_##name(const float *x, int64_t n)                                            \
    {                                                                                              \
        return line_of(r, x, n);                                                                   \
    }

REDUCING(max, CM_REDUCING_MAX)
REDUCING(sum, CM_REDUCING_SUM)
REDUCING(magnitudes, CM_REDUCING_MAGNITUDES)
REDUCING(squares, CM_REDUCING_SQUARES)

const cm_pool_kernels CM_LEVEL(cm_cpu_pool) = {
    .window = {{window_max, window_sum, window_magnitudes, window_squares},
               {half_max, half_sum, half_magnitudes, half_squares}},
    .down = {down_max, down_sum, down_magnitudes, down_squares},
    .along = {along_max, along_sum, along_magnitudes, along_squares},
    .quarters = {quarters_max, quarters_sum, quarters_magnitudes, quarters_squares},
    .line = {line_max, line_sum, line_magnitudes, line_squares},
};

#endif
