/* sort.c -- looking for numbers beyond a bound for generic.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/simd/sort.h"
