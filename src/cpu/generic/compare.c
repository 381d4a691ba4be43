/* compare.c -- whole numbers compared at the level generic.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/simd/compare.h"
