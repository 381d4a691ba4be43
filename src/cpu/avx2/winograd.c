/* winograd.c -- Winograd convolution with AVX2 and FMA.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/simd/winograd.h"
