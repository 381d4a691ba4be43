/* compare.c -- whole numbers compared at the level avx512.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/simd/compare.h"
