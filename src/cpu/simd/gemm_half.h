/* gemm_half.h -- 16-bit elements to float32 for matrix products, built once per ISA level.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_CPU_SIMD_GEMM_HALF_H
#define CM_CPU_SIMD_GEMM_HALF_H

#include "cpu/gemm_half.h"
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function" /* not all conversions are wanted here */
#include "cpu/simd/convert.h"
#pragma GCC diagnostic pop

void CM_LEVEL(cm_gemm_widen_f16)(int64_t n, const uint16_t *from, int64_t stride, float *to)
{
    load_narrow(to, from, stride, n, false);
}

void CM_LEVEL(cm_gemm_widen_bf16)(int64_t n, const uint16_t *from, int64_t stride, float *to)
{
    load_narrow(to, from, stride, n, true);
}

#endif
