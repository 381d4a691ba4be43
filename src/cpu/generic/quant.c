/* quant.c -- runs of quantised elements for generic.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/simd/quant.h"
