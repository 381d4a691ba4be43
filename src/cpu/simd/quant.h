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

/* VW bytes from element i on, n of which are there; step 0: one stands for all. */
VINLINE vf load_operand(const uint8_t *p, int64_t i, int n, int step, bool is_signed)
{
    uint8_t bytes[VW];
    if (step && n >= VW)
        return vf_of_int(load_bytes(p + i, is_signed));
    memset(bytes, *p, VW);
    if (step)
        memcpy(bytes, p + i, (size_t)n);
    return vf_of_int(load_bytes(bytes, is_signed));
}

VINLINE void store_result(uint8_t *y, int n, vf x, vf zero, bool is_signed)
{
    uint8_t bytes[VW];
    vi v = round_to_byte(x, zero, is_signed);
    if (n >= VW) {
        store_bytes(y, v, is_signed);
        return;
    }
    store_bytes(bytes, v, is_signed);
    memcpy(y, bytes, (size_t)n);
}

/* a * b + c with a product that is not rounded, then rounded to float32. */
VINLINE vf exact_fma(vf a, float b, vf c)
{
    float x[VW], z[VW];
    vf_store(x, a);
    vf_store(z, c);
    for (int i = 0; i < VW; i++)
        x[i] = (float)((double)x[i] * b + z[i]);
    return vf_load(x);
}

#if VW > 4
/* Numbers whose exponents are so near each other that sums of their multiples by bytes are exact in
 * double: rounding them to float32 is then what a fused multiply-add does. 255 * 2^24 * 2^19 < 2^53. */
static bool near_each_other(float a, float b, float c)
{
    uint32_t v[3], lo = 255, hi = 0;
    memcpy(&v[0], &a, 4);
    memcpy(&v[1], &b, 4);
    memcpy(&v[2], &c, 4);
    for (int i = 0; i < 3; i++) {
        uint32_t e = v[i] >> 23 & 255;
        if (i == 2 && c == 0)
            continue;
        lo = e < lo ? e : lo;
        hi = e > hi ? e : hi;
    }
    return lo > 0 && hi < 255 && hi - lo <= 18;
}
#endif

/* a*ra + (b*rb + c), products exact, rounded to float32 after each sum. */
VINLINE void add_bytes(const cm_qbinary *q, int64_t n, bool is_signed)
{
    float ra = q->a_scale / q->y_scale, rb = q->b_scale / q->y_scale;
    float constant = q->y_zero - (ra * q->a_zero + rb * q->b_zero);
    const vf c = vf_set(constant), zero = vf_zero();
#if VW > 4
    bool fused = near_each_other(ra, rb, constant);
#endif
    for (int64_t i = 0; i < n; i += VW) {
        int m = n - i < VW ? (int)(n - i) : VW;
        vf a = load_operand(q->a, i, m, q->a_step, is_signed);
        vf b = load_operand(q->b, i, m, q->b_step, is_signed), x;
#if VW > 4
        if (fused)
            x = vf_fma(a, vf_set(ra), vf_fma(b, vf_set(rb), c));
        else
#endif
            x = exact_fma(a, ra, exact_fma(b, rb, c));
        store_result(q->y + i, m, x, zero, is_signed);
    }
}

void CM_LEVEL(cm_cpu_qadd)(const cm_qbinary *q, int64_t n)
{
    if (q->is_signed)
        add_bytes(q, n, true);
    else
        add_bytes(q, n, false);
}

VINLINE void mul_bytes(const cm_qbinary *q, int64_t n, bool is_signed)
{
    const vf sa = vf_set(q->a_scale), sb = vf_set(q->b_scale), sy = vf_set(q->y_scale);
    const vf za = vf_set(q->a_zero), zb = vf_set(q->b_zero), zy = vf_set(q->y_zero);
    for (int64_t i = 0; i < n; i += VW) {
        int m = n - i < VW ? (int)(n - i) : VW;
        vf a = vf_mul(sa, vf_sub(load_operand(q->a, i, m, q->a_step, is_signed), za));
        vf b = vf_mul(sb, vf_sub(load_operand(q->b, i, m, q->b_step, is_signed), zb));
        store_result(q->y + i, m, vf_div(vf_mul(a, b), sy), zy, is_signed);
    }
}

void CM_LEVEL(cm_cpu_qmul)(const cm_qbinary *q, int64_t n)
{
    if (q->is_signed)
        mul_bytes(q, n, true);
    else
        mul_bytes(q, n, false);
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
