/* strassen.c -- Strassen's products with AVX-512.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/simd/strassen.h"

/* clang-format off */
STRASSEN_TILE(9) STRASSEN_TILE(10) STRASSEN_TILE(11) STRASSEN_TILE(12) STRASSEN_TILE(13) STRASSEN_TILE(14)

const cm_strassen_kernel CM_LEVEL(cm_strassen_f32) = {
    {[9] = strassen_9, strassen_10, strassen_11, strassen_12, strassen_13, strassen_14},
    strassen_mix, strassen_finish,
};
