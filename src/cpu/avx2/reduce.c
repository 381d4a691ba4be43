/* reduce.c -- kernels of reductions at this level.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/simd/reduce.h"
