/* convert.h -- runs of elements between their type in memory and float32, with any stride.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_CPU_SIMD_CONVERT_H
#define CM_CPU_SIMD_CONVERT_H

#include "cpu/simd/half.h"

/* n numbers, `stride` apart in memory; y is dense. The rest of a run goes by way of a vector of its
 * own, so that nothing beyond it is read or written. */
VINLINE void load_narrow(float *y, const uint16_t *x, int64_t stride, int64_t n, bool bf16)
{
    uint16_t some[VW] = {0};
    float rest[VW];
    int64_t i = 0;
    for (; stride == 1 && i + VW <= n; i += VW)
        vf_store(y + i, vf_load_narrow(x + i, bf16));
    for (; i < n; i += VW) {
        int k = n - i < VW ? (int)(n - i) : VW;
        for (int l = 0; l < k; l++)
            some[l] = x[(i + l) * stride];
        vf_store(rest, vf_load_narrow(some, bf16));
        memcpy(y + i, rest, (size_t)k * sizeof *y);
    }
}
VINLINE void store_narrow(uint16_t *y, int64_t stride, const float *x, int64_t n, bool bf16)
{
    uint16_t some[VW];
    float rest[VW] = {0};
    int64_t i = 0;
    for (; stride == 1 && i + VW <= n; i += VW)
        vf_store_narrow(y + i, vf_load(x + i), bf16);
    for (; i < n; i += VW) {
        int k = n - i < VW ? (int)(n - i) : VW;
        memcpy(rest, x + i, (size_t)k * sizeof *x);
        vf_store_narrow(some, vf_load(rest), bf16);
        for (int l = 0; l < k; l++)
            y[(i + l) * stride] = some[l];
    }
}

#define LOADER(name, type)                                                                         \
    static void name(float *y, const void *from, int64_t stride, int64_t n)                        \
    {                                                                                              \
        const type *x = from;                                                                      \
        if (stride == 1) {                                                                         \
            for (int64_t i = 0; i < n; i++)                                                        \
                y[i] = (float)x[i];                                                                \
            return;                                                                                \
        }                                                                                          \
        if (stride == 0 && n > 0) {                                                                \
            const float one = (float)x[0];                                                         \
            for (int64_t i = 0; i < n; i++)                                                        \
                y[i] = one;                                                                        \
            return;                                                                                \
        }                                                                                          \
        for (int64_t i = 0; i < n; i++)                                                            \
            y[i] = (float)x[i * stride];                                                           \
    }
LOADER(load_f32, float)
LOADER(load_u8, uint8_t)
LOADER(load_i8, int8_t)
LOADER(load_u16, uint16_t)
LOADER(load_i16, int16_t)
#undef LOADER

/* Any byte but 0 is true. */
static void load_bool(float *y, const void *from, int64_t stride, int64_t n)
{
    const uint8_t *x = from;
    for (int64_t i = 0; i < n; i++)
        y[i] = (float)(x[i * stride] != 0);
}
static void load_f16(float *y, const void *from, int64_t stride, int64_t n)
{
    load_narrow(y, from, stride, n, false);
}
static void load_bf16(float *y, const void *from, int64_t stride, int64_t n)
{
    load_narrow(y, from, stride, n, true);
}

static void store_f32(void *to, int64_t stride, const float *x, int64_t n)
{
    float *y = to;
    for (int64_t i = 0; i < n; i++)
        y[i * stride] = x[i];
}
static void store_bool(void *to, int64_t stride, const float *x, int64_t n)
{
    uint8_t *y = to;
    for (int64_t i = 0; i < n; i++)
        y[i * stride] = x[i] != 0;
}
static void store_f16(void *to, int64_t stride, const float *x, int64_t n)
{
    store_narrow(to, stride, x, n, false);
}
static void store_bf16(void *to, int64_t stride, const float *x, int64_t n)
{
    store_narrow(to, stride, x, n, true);
}

#endif
