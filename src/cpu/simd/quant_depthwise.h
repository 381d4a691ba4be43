/* quant_depthwise.h -- depthwise convolutions of bytes, channels innermost: one body for every level.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A byte and a weight stand in the lower halves of 32 bits, the upper half of the weight is zero: PMADDWD is
 * then their exact product. */
#ifndef CM_CPU_SIMD_QUANT_DEPTHWISE_H
#define CM_CPU_SIMD_QUANT_DEPTHWISE_H

#include "cpu/simd/quant_finish.h"

enum { WIDE = 2 * VW };

/* WIDE channels from c on. */
VINLINE void sum_taps(const uint8_t *from, int64_t taps, const int64_t *offsets,
                      const int32_t *weights, int64_t width, int64_t c, bool is_signed,
                      int32_t *acc)
{
    vi s0 = vi_set(0), s1 = vi_set(0);
    for (int64_t t = 0; t < taps; t++) {
        const uint8_t *x = from + offsets[t] + c;
        const int32_t *w = weights + t * width + c;
        s0 = vi_add(s0, vi_madd(load_bytes(x, is_signed), vi_load(w)));
        s1 = vi_add(s1, vi_madd(load_bytes(x + VW, is_signed), vi_load(w + VW)));
    }
    vi_store(acc, s0);
    vi_store(acc + VW, s1);
}

VINLINE void sum_last_taps(const uint8_t *from, int64_t taps, const int64_t *offsets,
                           const int32_t *weights, int64_t width, int64_t c, int n, bool is_signed,
                           int32_t *acc)
{
    vi s0 = vi_set(0), s1 = vi_set(0);
    uint8_t x[WIDE] = {0};
    for (int64_t t = 0; t < taps; t++) {
        const int32_t *w = weights + t * width + c;
        memcpy(x, from + offsets[t] + c, (size_t)n);
        s0 = vi_add(s0, vi_madd(load_bytes(x, is_signed), vi_load(w)));
        s1 = vi_add(s1, vi_madd(load_bytes(x + VW, is_signed), vi_load(w + VW)));
    }
    vi_store(acc, s0);
    vi_store(acc + VW, s1);
}

void CM_LEVEL(cm_cpu_qdepthwise)(const uint8_t *from, int64_t step, int64_t n, int64_t taps,
                                 const int64_t *offsets, const int32_t *weights, int64_t channels,
                                 int64_t width, bool is_signed, const cm_qfinish *f)
{
    int32_t acc[WIDE];
    for (int64_t i = 0; i < n; i++, from += step) {
        int64_t c = 0;
        for (; c + WIDE <= channels; c += WIDE) {
            if (is_signed)
                sum_taps(from, taps, offsets, weights, width, c, true, acc);
            else
                sum_taps(from, taps, offsets, weights, width, c, false, acc);
            finish_row(f, acc, i, c, WIDE);
        }
        if (c < channels) {
            int rest = (int)(channels - c);
            sum_last_taps(from, taps, offsets, weights, width, c, rest, is_signed, acc);
            finish_row(f, acc, i, c, rest);
        }
    }
}

#endif
