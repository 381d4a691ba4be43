/* move.h -- the functions of the tactic for padded and sliced tensors (pad.c), which the table of move.c has.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_CUDA_MOVE_H
#define CM_CUDA_MOVE_H

#include "cuda/gpu.h"

const char *cm_cuda_pad_reject(const cm_problem *p);
double cm_cuda_pad_cost(const cm_problem *p, const cm_knobs *k);
cm_status cm_cuda_pad_ready(cm_ctx *cx, cm_device *d, cm_arena *arena, const cm_problem *p,
                            const cm_knobs *k, const void **state) CM_MUST_USE;
cm_status cm_cuda_pad_run(const cm_run *r) CM_MUST_USE;

#endif
