/* gemm.c -- tile kernels of the matrix product with AVX-512: up to 14 x 32.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/gemm_impl.h"
#include "cpu/simd/gemm_pack.h"
#include "cpu/simd/gemm_strip.h"

/* clang-format off */
TILE(1) TILE(2) TILE(3) TILE(4) TILE(5) TILE(6) TILE(7)
TILE(8) TILE(9) TILE(10) TILE(11) TILE(12) TILE(13) TILE(14)

/* Rows, panels. */
WIDE(1, 4) WIDE(2, 4) WIDE(3, 4) WIDE(4, 3) WIDE(5, 2) WIDE(6, 2) WIDE(7, 2)

const cm_gemm_f32_kernel CM_LEVEL(cm_gemm_f32) = {
    GEMM_MR, NR, 1073741824,
    {NULL, rows_1, rows_2, rows_3, rows_4, rows_5, rows_6, rows_7, rows_8, rows_9, rows_10,
     rows_11, rows_12, rows_13, rows_14},
    {NULL, packed_1, packed_2, packed_3, packed_4, packed_5, packed_6, packed_7, packed_8,
     packed_9, packed_10, packed_11, packed_12, packed_13, packed_14},
    {NULL, shifted_1, shifted_2, shifted_3, shifted_4, shifted_5, shifted_6, shifted_7, shifted_8,
     shifted_9, shifted_10, shifted_11, shifted_12, shifted_13, shifted_14},
    {NULL, lined_1, lined_2, lined_3, lined_4, lined_5, lined_6, lined_7, lined_8, lined_9, lined_10, lined_11, lined_12, lined_13, lined_14},
    strip, STRIP_STEP,
    {NULL, wide_1, wide_2, wide_3, wide_4, wide_5, wide_6, wide_7},
    {0, 4, 4, 4, 3, 2, 2, 2},
    pack_a, pack_rows, pack_b,
};
