/* rotary.c -- rotating pairs of columns at the level generic.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/simd/rotary.h"
