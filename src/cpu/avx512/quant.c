/* quant.c -- runs of quantised elements for avx512.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/simd/quant.h"
