/* sort.h -- the tactics of SORT on GPUs that have files of their own.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_CUDA_SORT_H
#define CM_CUDA_SORT_H

#include "cuda/gpu.h"

const char *cm_cuda_sort_whole_reject(const cm_problem *p);
double cm_cuda_sort_whole_cost(const cm_problem *p, const cm_knobs *k);
size_t cm_cuda_sort_whole_workspace(const cm_problem *p, const cm_knobs *k);
cm_status cm_cuda_sort_whole_ready(cm_ctx *cx, cm_device *d, cm_arena *arena, const cm_problem *p,
                                   const cm_knobs *k, const void **out) CM_MUST_USE;
cm_status cm_cuda_sort_whole_run(const cm_run *r) CM_MUST_USE;

#endif
