/* tile.c -- functions of tiles at this level.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/simd/tile.h"
