/* copy.c -- transposes and short runs for generic.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/simd/transpose.h"
