/* quant_softmax.c -- softmax of bytes for avx2.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/simd/quant_softmax.h"
