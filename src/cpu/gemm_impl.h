/* gemm_impl.h -- the tile kernels of each level, for gemm.c alone.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_CPU_GEMM_IMPL_H
#define CM_CPU_GEMM_IMPL_H

#include "cpu/gemm.h"

extern const cm_gemm_f32_kernel cm_gemm_f32__generic, cm_gemm_f32__avx2, cm_gemm_f32__avx512;

#endif
