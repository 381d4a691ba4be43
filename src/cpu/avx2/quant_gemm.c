/* quant_gemm.c -- products of 8-bit matrices for avx2.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/simd/quant_gemm.h"
