/* quant_softmax.c -- softmax of bytes for generic.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/simd/quant_softmax.h"
