/* recurrent.c -- gates of recurrent networks for avx512.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/simd/recurrent.h"
