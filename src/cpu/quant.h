/* quant.h -- runs of elements between real numbers and bytes.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Exactly as ops/quant/ has it: divisions and products in float32, rounded half to even, then the zero point
 * added and the range kept; NaN gives the least. */
#ifndef CM_CPU_QUANT_H
#define CM_CPU_QUANT_H

#include <stdbool.h>
#include <stdint.h>

/* y = round(x / scale) + zero. step 0: scale and zero are one number each; 1: one for each element. */
typedef void cm_quantise_fn(const float *x, int64_t n, const float *scale, const float *zero,
                            int step, bool is_signed, uint8_t *y);
/* y = (x - zero) * scale */
typedef void cm_dequantise_fn(const uint8_t *x, int64_t n, const float *scale, const float *zero,
                              int step, bool is_signed, float *y);
/* The least and the largest of n numbers and 0; NaNs do not count. */
typedef void cm_range_of_fn(const float *x, int64_t n, float *lo, float *hi);

/* Two operands of bytes; step 0: one element stands for all. */
typedef struct cm_qbinary {
    const uint8_t *a, *b;
    int a_step, b_step;
    bool is_signed; /* of all three */
    float a_scale, b_scale, a_zero, b_zero, y_scale, y_zero;
    uint8_t *y;
} cm_qbinary;
typedef void cm_qbinary_fn(const cm_qbinary *q, int64_t n);

/* fn__generic, fn__avx2 or fn__avx512. */
#define CM_QUANT_AT(level, fn)                                                                     \
    ((level) < CM_ISA_AVX2 ? fn##__generic : (level) < CM_ISA_AVX512 ? fn##__avx2 : fn##__avx512)

/* y = table[x], 256 entries. */
typedef void cm_lookup_fn(const uint8_t *x, int64_t n, const uint8_t *table, uint8_t *y);
cm_lookup_fn cm_cpu_lookup__generic;
cm_lookup_fn cm_cpu_lookup__avx512; /* for CPUs with VBMI */

#define CM_QUANT_KERNELS(level)                                                                    \
    cm_quantise_fn cm_cpu_quantise__##level;                                                       \
    cm_dequantise_fn cm_cpu_dequantise__##level;                                                   \
    cm_range_of_fn cm_cpu_range_of__##level;                                                       \
    cm_qbinary_fn cm_cpu_qadd__##level, cm_cpu_qmul__##level;
CM_QUANT_KERNELS(generic)
CM_QUANT_KERNELS(avx2)
CM_QUANT_KERNELS(avx512)
#undef CM_QUANT_KERNELS

/* For a level, one scale for all. */
void cm_quantise_run(int level, const float *x, int64_t n, float scale, int32_t zero,
                     bool is_signed, uint8_t *y);
void cm_quantise_range(int level, const float *x, int64_t n, float *lo, float *hi);
/* Scale and zero point of u8 that cover [lo, hi], as DynamicQuantizeLinear chooses them. */
void cm_quantise_choose(float lo, float hi, float *scale, int32_t *zero);

#endif
