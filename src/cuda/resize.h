/* resize.h -- the functions of the tactic for strips (resize_strips.c), which the table of resize.c has.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_CUDA_RESIZE_H
#define CM_CUDA_RESIZE_H

#include "cuda/gpu.h"

const char *cm_cuda_resize_strips_reject(const cm_problem *p);
int cm_cuda_resize_strips_knobs(const cm_problem *p, cm_knobs *out);
double cm_cuda_resize_strips_cost(const cm_problem *p, const cm_knobs *k);
cm_status cm_cuda_resize_strips_ready(cm_ctx *cx, cm_device *d, cm_arena *arena,
                                      const cm_problem *p, const cm_knobs *k,
                                      const void **state) CM_MUST_USE;
cm_status cm_cuda_resize_strips_run(const cm_run *r) CM_MUST_USE;

#endif
