/* gemv_dot.c -- products of vectors at this level.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/simd/gemv_dot.h"
