/* copy.c -- transposes and short runs for avx2.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/simd/transpose.h"
