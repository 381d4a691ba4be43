/* pool.h -- pools that say where the largest were (pool_places.c).
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_CUDA_POOL_H
#define CM_CUDA_POOL_H

#include "cuda/gpu.h"

const char *cm_cuda_pool_places_reject(const cm_problem *p);
double cm_cuda_pool_places_cost(const cm_problem *p, const cm_knobs *k);
cm_status cm_cuda_pool_places_ready(cm_ctx *cx, cm_device *d, cm_arena *arena, const cm_problem *p,
                                    const cm_knobs *k, const void **out) CM_MUST_USE;
cm_status cm_cuda_pool_places_run(const cm_run *r) CM_MUST_USE;

#endif
