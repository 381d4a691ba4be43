/* finish_bf16.h -- sums of float32 on their way out as bfloat16, in one pass: the commonest epilogues.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_CPU_FINISH_BF16_H
#define CM_CPU_FINISH_BF16_H

#include "cpu/epilogue.h"

/* y = act(x + bias[col] + residual[row * ld + col]). */
typedef struct cm_bf16_finish {
    cm_chain c;
    uint16_t *out; /* rows `ld` apart */
    int64_t ld;
    bool by_instruction; /* the processor's own rounds to bfloat16: denormals become zero */
} cm_bf16_finish;

/* Has the epilogue that form, its output being bfloat16 with adjacent columns? */
bool cm_bf16_finish_of(const cm_epilogue_plan *e, cm_bf16_finish *out);

/* x: m rows of n sums, at most 32, `ld` apart: those of rows [row, row + m) and columns [col, col + n). */
void cm_bf16_finish_panel(const cm_bf16_finish *f, int64_t row, int64_t col, int64_t m, int64_t n,
                          const float *x, int64_t ld);

#endif
