/* rows.h -- the table of a level's row kernels; included by one file per level.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/simd/norm.h"
#include "cpu/simd/norm_group.h"
#include "cpu/simd/softmax.h"

const cm_rows_kernels CM_LEVEL(cm_cpu_rows_kernels) = {.softmax_rows = softmax_rows,
                                                       .softmax_lanes = softmax_lanes,
                                                       .norm_row = norm_row,
                                                       .norm_lanes = norm_lanes,
                                                       .sum = sum_rows,
                                                       .to_f32 = to_f32,
                                                       .moments = moments,
                                                       .affine = affine,
                                                       .group_moments = group_moments,
                                                       .group_affine = group_affine};
