/* quant_gemm.c -- products of 8-bit matrices for generic.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/simd/quant_gemm.h"
