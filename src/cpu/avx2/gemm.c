/* gemm.c -- tile kernels of the matrix product with AVX2 and FMA: up to 6 x 16.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/gemm_impl.h"
#include "cpu/simd/gemm_pack.h"
#include "cpu/simd/gemm_strip.h"

/* clang-format off */
TILE(1) TILE(2) TILE(3) TILE(4) TILE(5) TILE(6)

/* Rows, panels. */
WIDE(1, 4) WIDE(2, 2) WIDE(3, 2)

const cm_gemm_f32_kernel CM_LEVEL(cm_gemm_f32) = {
    GEMM_MR, NR, 128,
    {NULL, rows_1, rows_2, rows_3, rows_4, rows_5, rows_6},
    {NULL, packed_1, packed_2, packed_3, packed_4, packed_5, packed_6},
    {NULL, shifted_1, shifted_2, shifted_3, shifted_4, shifted_5, shifted_6},
    {NULL, lined_1, lined_2, lined_3, lined_4, lined_5, lined_6},
    strip, STRIP_STEP,
    {NULL, wide_1, wide_2, wide_3},
    {0, 4, 2, 2},
    pack_a, pack_rows, pack_b,
};
