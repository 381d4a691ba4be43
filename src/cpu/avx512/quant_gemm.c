/* quant_gemm.c -- products of 8-bit matrices for avx512.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/simd/quant_gemm.h"
