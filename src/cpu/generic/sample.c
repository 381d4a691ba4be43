/* sample.c -- images read at the places of a grid, with SSE2.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/simd/sample.h"
