/* rotary.c -- rotating pairs of columns at the level avx2.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/simd/rotary.h"
