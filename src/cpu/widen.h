/* widen.h -- problems of float16 and bfloat16 solved in float32: inputs widened into the workspace, the result
 * through the epilogue, where it is rounded once.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_CPU_WIDEN_H
#define CM_CPU_WIDEN_H

#include "cpu/cpu.h"

static inline bool cm_is_half(cm_dtype t)
{
    return t == CM_F16 || t == CM_BF16;
}
/* A tensor's bytes in float32, a multiple of 64. */
size_t cm_wide_bytes(const cm_tensor *t);
/* Input i, dense in some order, at `to`; returns what follows it. */
char *cm_widen_input(const cm_run *r, int i, char *to);
/* Output 0, which lies in y in float32 as it will lie in memory. n_col_axes: as cm_epilogue_init's. */
void cm_narrow_output(const cm_run *r, int n_col_axes, const float *y);

#endif
