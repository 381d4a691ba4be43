/* nbits.c -- products with weights of a few bits at the level avx2.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/simd/nbits.h"
