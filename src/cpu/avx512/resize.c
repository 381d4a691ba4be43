/* resize.c -- interpolation with AVX-512.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/simd/resize.h"
