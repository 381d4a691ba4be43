/* sort.c -- looking for numbers beyond a bound for avx2.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/simd/sort.h"
