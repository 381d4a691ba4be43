/* attention.c -- kernels of attention for avx2.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/simd/attention.h"
