/* pool.c -- pools with AVX2.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/simd/pool.h"
