/* rows.c -- softmax and normalisations for generic.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/simd/rows.h"
