/* attention.c -- kernels of attention for avx512.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/simd/attention.h"
