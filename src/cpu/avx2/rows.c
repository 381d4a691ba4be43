/* rows.c -- softmax and normalisations for avx2.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/simd/rows.h"
