/* quant_depthwise.c -- depthwise convolutions of bytes for avx512.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/simd/quant_depthwise.h"
