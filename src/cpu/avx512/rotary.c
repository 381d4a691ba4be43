/* rotary.c -- rotating pairs of columns at the level avx512.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/simd/rotary.h"
