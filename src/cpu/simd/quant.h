/* quant.h -- between real numbers and bytes, and sums and products of bytes: one body for every level.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_CPU_SIMD_QUANT_H
#define CM_CPU_SIMD_QUANT_H

#include "cpu/qmatmul.h"
#include "cpu/quant.h"
#include "cpu/simd/quant_bytes.h"

/* The last, incomplete vector goes through a block of its own. */
VINLINE void quantise(const float *x, int64_t n, const float *scale, const float *zero, int step,
                      bool is_signed, uint8_t *y)
{
    vf s = vf_set(*scale), z = vf_set(*zero);
    int64_t i = 0;
    for (; i + VW <= n; i += VW) {
        if (step) {
            s = vf_load(scale + i);
            z = vf_load(zero + i);
        }
        store_bytes(y + i, round_to_byte(vf_div(vf_load(x + i), s), z, is_signed), is_signed);
    }
    int rest = (int)(n - i);
    if (rest == 0)
        return;
    uint8_t last[VW];
    if (step) {
        s = vf_load_n(scale + i, rest);
        z = vf_load_n(zero + i, rest);
    }
    vf v = vf_div(vf_load_n(x + i, rest), s);
    store_bytes(last, round_to_byte(v, z, is_signed), is_signed);
    memcpy(y + i, last, (size_t)rest);
}

void CM_LEVEL(cm_cpu_quantise)(const float *x, int64_t n, const float *scale, const float *zero,
                               int step, bool is_signed, uint8_t *y)
{
    if (step)
        quantise(x, n, scale, zero, 1, is_signed, y);
    else if (is_signed)
        quantise(x, n, scale, zero, 0, true, y);
    else
        quantise(x, n, scale, zero, 0, false, y);
}

VINLINE void dequantise(const uint8_t *x, int64_t n, const float *scale, const float *zero,
                        int step, bool is_signed, float *y)
{
    vf s = vf_set(*scale), z = vf_set(*zero);
    int64_t i = 0;
    for (; i + VW <= n; i += VW) {
        if (step) {
            s = vf_load(scale + i);
            z = vf_load(zero + i);
        }
        vf_store(y + i, vf_mul(vf_sub(vf_of_int(load_bytes(x + i, is_signed)), z), s));
    }
    int rest = (int)(n - i);
    if (rest == 0)
        return;
    uint8_t last[VW] = {0};
    memcpy(last, x + i, (size_t)rest);
    if (step) {
        s = vf_load_n(scale + i, rest);
        z = vf_load_n(zero + i, rest);
    }
    vf_store_n(y + i, vf_mul(vf_sub(vf_of_int(load_bytes(last, is_signed)), z), s), rest);
}

void CM_LEVEL(cm_cpu_dequantise)(const uint8_t *x, int64_t n, const float *scale, const float *zero,
                                 int step, bool is_signed, float *y)
{
    if (step)
        dequantise(x, n, scale, zero, 1, is_signed, y);
    else if (is_signed)
        dequantise(x, n, scale, zero, 0, true, y);
    else
        dequantise(x, n, scale, zero, 0, false, y);
}

void CM_LEVEL(cm_cpu_range_of)(const float *x, int64_t n, float *lo, float *hi)
{
    vf l[4], h[4];
    int64_t i = 0;
    for (int k = 0; k < 4; k++)
        l[k] = h[k] = vf_zero();
    for (; i + 4 * VW <= n; i += 4 * VW)
        for (int k = 0; k < 4; k++) {
            vf v = vf_load(x + i + k * VW);
            l[k] = vf_min(v, l[k]);
            h[k] = vf_max(v, h[k]);
        }
    for (; i < n; i += VW) {
        vf v = vf_load_n(x + i, n - i < VW ? (int)(n - i) : VW);
        l[0] = vf_min(v, l[0]);
        h[0] = vf_max(v, h[0]);
    }
    *lo = vf_least(vf_min(vf_min(l[0], l[1]), vf_min(l[2], l[3])));
    *hi = vf_most(vf_max(vf_max(h[0], h[1]), vf_max(h[2], h[3])));
}

enum { BLOCK = 64 };

/* n numbers of a block to bytes. */
VINLINE void finish_block(const float *x, int n, float zero, bool is_signed, uint8_t *y)
{
    uint8_t bytes[BLOCK];
    vf z = vf_set(zero);
    for (int i = 0; i < BLOCK; i += VW)
        store_bytes(bytes + i, round_to_byte(vf_load(x + i), z, is_signed), is_signed);
    memcpy(y, bytes, (size_t)n);
}

/* Up to BLOCK bytes as numbers; step 0: the one of them. */
VINLINE void load_block(const uint8_t *p, int64_t i, int n, int step, bool is_signed, int32_t *to)
{
    uint8_t bytes[BLOCK] = {0};
    if (step)
        memcpy(bytes, p + i, (size_t)n);
    else
        memset(bytes, *p, BLOCK);
    for (int k = 0; k < BLOCK; k++)
        to[k] = is_signed ? (int8_t)bytes[k] : bytes[k];
}

/* a*ra + (b*rb + c), products exact in double, rounded to float32 after each sum. */
VINLINE void add_blocks(const cm_qbinary *q, int64_t n, bool is_signed)
{
    float ra = q->a_scale / q->y_scale, rb = q->b_scale / q->y_scale;
    float constant = q->y_zero - (ra * q->a_zero + rb * q->b_zero);
    int32_t a[BLOCK], b[BLOCK];
    float x[BLOCK];
    for (int64_t i = 0; i < n; i += BLOCK) {
        int m = n - i < BLOCK ? (int)(n - i) : BLOCK;
        load_block(q->a, i, m, q->a_step, is_signed, a);
        load_block(q->b, i, m, q->b_step, is_signed, b);
        for (int k = 0; k < BLOCK; k++) {
            float v = (float)((double)b[k] * rb + constant);
            x[k] = (float)((double)a[k] * ra + v);
        }
        finish_block(x, m, 0, is_signed, q->y + i);
    }
}

void CM_LEVEL(cm_cpu_qadd)(const cm_qbinary *q, int64_t n)
{
    if (q->is_signed)
        add_blocks(q, n, true);
    else
        add_blocks(q, n, false);
}

VINLINE void mul_blocks(const cm_qbinary *q, int64_t n, bool is_signed)
{
    int32_t a[BLOCK], b[BLOCK];
    float x[BLOCK];
    for (int64_t i = 0; i < n; i += BLOCK) {
        int m = n - i < BLOCK ? (int)(n - i) : BLOCK;
        load_block(q->a, i, m, q->a_step, is_signed, a);
        load_block(q->b, i, m, q->b_step, is_signed, b);
        for (int k = 0; k < BLOCK; k++) {
            float u = q->a_scale * ((float)a[k] - q->a_zero);
            float v = q->b_scale * ((float)b[k] - q->b_zero);
            x[k] = u * v / q->y_scale;
        }
        finish_block(x, m, q->y_zero, is_signed, q->y + i);
    }
}

void CM_LEVEL(cm_cpu_qmul)(const cm_qbinary *q, int64_t n)
{
    if (q->is_signed)
        mul_blocks(q, n, true);
    else
        mul_blocks(q, n, false);
}

/* Plain loops, which the compiler makes vectors of. */
void CM_LEVEL(cm_cpu_qrow)(cm_qrow_form form, bool is_signed, int32_t zero, const void *from,
                           int64_t n, void *to)
{
    const uint8_t *u = from;
    const int8_t *s = from;
    uint8_t *bytes = to;
    int16_t *wide = to;
    int16_t z = (int16_t)zero;
    if (form == CM_QROW_BYTES)
        memcpy(to, from, (size_t)n);
    else if (form == CM_QROW_MOVED)
        for (int64_t i = 0; i < n; i++)
            bytes[i] = u[i] ^ 0x80;
    else if (is_signed)
        for (int64_t i = 0; i < n; i++)
            wide[i] = (int16_t)(s[i] - z);
    else
        for (int64_t i = 0; i < n; i++)
            wide[i] = (int16_t)(u[i] - z);
}

#endif
