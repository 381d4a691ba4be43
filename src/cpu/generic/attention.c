/* attention.c -- kernels of attention for generic.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/simd/attention.h"
