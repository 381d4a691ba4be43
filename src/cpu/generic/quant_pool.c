/* quant_pool.c -- pools of bytes for generic.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/simd/quant_pool.h"
