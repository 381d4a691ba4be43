/* gemm_half.c -- 16-bit elements to float32 at this level.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/simd/gemm_half.h"
