/* quant_pool.h -- pools of bytes: one body for every level.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Sums of real numbers: they are multiples of a unit of the scale's last place below 2^9 times the scale, so
 * that double holds sums of 2^20 of them exactly and their order does not matter. */
#ifndef CM_CPU_SIMD_QUANT_POOL_H
#define CM_CPU_SIMD_QUANT_POOL_H

#include "cpu/quant_pool.h"
#include "cpu/simd/quant_bytes.h"

enum { CHANNELS = 64, FEW = 16 };

/* Every position of a window; x points to the channels there. */
#define EACH_POSITION(w, c)                                                                        \
    for (int64_t d = 0; d < (w)->n[0]; d++)                                                        \
        for (int64_t h = 0; h < (w)->n[1]; h++)                                                    \
            for (int64_t i = 0; i < (w)->n[2]; i++)                                                \
                for (const uint8_t *x =                                                            \
                         (w)->from + d * (w)->step[0] + h * (w)->step[1] + i * (w)->step[2] + (c); \
                     x; x = NULL)

VINLINE void most_of(const cm_qwindow *w, int64_t c, int n, bool is_signed, uint8_t *y)
{
    uint8_t m[CHANNELS];
    memset(m, is_signed ? 0x80 : 0, (size_t)n);
    EACH_POSITION(w, c)
    for (int k = 0; k < n; k++) {
        if (is_signed)
            m[k] = (int8_t)x[k] > (int8_t)m[k] ? x[k] : m[k];
        else
            m[k] = x[k] > m[k] ? x[k] : m[k];
    }
    memcpy(y + c, m, (size_t)n);
}

/* v rounded to a byte, n of them. */
VINLINE void put_bytes(const float *v, int n, float zero, bool is_signed, uint8_t *y)
{
    uint8_t bytes[CHANNELS];
    vf z = vf_set(zero);
    for (int k = 0; k < n; k += VW)
        store_bytes(bytes + k, round_to_byte(vf_load(v + k), z, is_signed), is_signed);
    memcpy(y, bytes, (size_t)n);
}

VINLINE void mean_of(const cm_qpool *q, const cm_qwindow *w, int64_t c, int n, bool is_signed,
                     uint8_t *y)
{
    double sum[CHANNELS] = {0};
    float v[CHANNELS] = {0};
    EACH_POSITION(w, c)
    for (int k = 0; k < n; k++) {
        float number = is_signed ? (float)(int8_t)x[k] : (float)x[k];
        sum[k] += q->scale * (number - q->zero);
    }
    for (int k = 0; k < n; k++)
        v[k] = (float)(sum[k] / q->divisor) / q->y_scale;
    put_bytes(v, n, q->y_zero, is_signed, y + c);
}

VINLINE void total_of(const cm_qpool *q, const cm_qwindow *w, int64_t c, int n, bool is_signed,
                      uint8_t *y)
{
    int32_t sum[CHANNELS] = {0};
    float v[CHANNELS] = {0};
    EACH_POSITION(w, c)
    for (int k = 0; k < n; k++)
        sum[k] += is_signed ? (int8_t)x[k] : x[k];
    for (int k = 0; k < n; k++)
        v[k] = (float)(sum[k] - q->zero_sum) * q->scale;
    put_bytes(v, n, q->y_zero, is_signed, y + c);
}

VINLINE void pool_block(const cm_qpool *q, const cm_qwindow *w, int64_t c, int n, bool is_signed,
                        uint8_t *y)
{
    if (q->kind == CM_QPOOL_MAX)
        most_of(w, c, n, is_signed, y);
    else if (q->kind == CM_QPOOL_AVERAGE)
        mean_of(q, w, c, n, is_signed, y);
    else
        total_of(q, w, c, n, is_signed, y);
}

/* Blocks are of constant length as far as that goes. */
void CM_LEVEL(cm_cpu_qpool)(const cm_qpool *q, const cm_qwindow *w, int64_t n, uint8_t *y)
{
    int64_t c = 0;
    for (; c + CHANNELS <= n; c += CHANNELS) {
        if (q->is_signed)
            pool_block(q, w, c, CHANNELS, true, y);
        else
            pool_block(q, w, c, CHANNELS, false, y);
    }
    for (; c + FEW <= n; c += FEW) {
        if (q->is_signed)
            pool_block(q, w, c, FEW, true, y);
        else
            pool_block(q, w, c, FEW, false, y);
    }
    if (c < n)
        pool_block(q, w, c, (int)(n - c), q->is_signed, y);
}

#endif
