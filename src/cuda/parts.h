/* parts.h -- the tactic of POINTWISE for elements of less than a byte.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_CUDA_PARTS_H
#define CM_CUDA_PARTS_H

#include "cuda/gpu.h"

const char *cm_cuda_cast_parts_reject(const cm_problem *p);
double cm_cuda_cast_parts_cost(const cm_problem *p, const cm_knobs *k);
cm_status cm_cuda_cast_parts_ready(cm_ctx *cx, cm_device *d, cm_arena *arena, const cm_problem *p,
                                   const cm_knobs *k, const void **out) CM_MUST_USE;
cm_status cm_cuda_cast_parts_run(const cm_run *r) CM_MUST_USE;

/* The element type in kernels/parts.cuh or, of whole bytes, in elements.cuh; NULL: none. */
const char *cm_gpu_part_or_element(cm_dtype t);

#endif
