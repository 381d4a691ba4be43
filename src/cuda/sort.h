/* sort.h -- the functions of the tactics that the table of sort.c has from other files, and what they share.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_CUDA_SORT_H
#define CM_CUDA_SORT_H

#include "cuda/gpu.h"

/* sort.c: what all tactics for the first of rows decline. */
const char *cm_gpu_top_k_reject(const cm_problem *p);

/* Whole rows, and wide elements: sort_whole.c. */
const char *cm_cuda_sort_whole_reject(const cm_problem *p);
double cm_cuda_sort_whole_cost(const cm_problem *p, const cm_knobs *k);
size_t cm_cuda_sort_whole_workspace(const cm_problem *p, const cm_knobs *k);
cm_status cm_cuda_sort_whole_ready(cm_ctx *cx, cm_device *d, cm_arena *arena, const cm_problem *p,
                                   const cm_knobs *k, const void **out) CM_MUST_USE;
cm_status cm_cuda_sort_whole_run(const cm_run *r) CM_MUST_USE;

/* The first few of long rows: top.c. */
const char *cm_cuda_top_reject(const cm_problem *p);
int cm_cuda_top_knobs(const cm_problem *p, cm_knobs *out);
double cm_cuda_top_cost(const cm_problem *p, const cm_knobs *k);
size_t cm_cuda_top_workspace(const cm_problem *p, const cm_knobs *k);
cm_status cm_cuda_top_ready(cm_ctx *cx, cm_device *d, cm_arena *arena, const cm_problem *p,
                            const cm_knobs *k, const void **state) CM_MUST_USE;
cm_status cm_cuda_top_run(const cm_run *r) CM_MUST_USE;

/* Running sums: running.c. */
const char *cm_cuda_running_reject(const cm_problem *p);
int cm_cuda_running_knobs(const cm_problem *p, cm_knobs *out);
double cm_cuda_running_cost(const cm_problem *p, const cm_knobs *k);
size_t cm_cuda_running_workspace(const cm_problem *p, const cm_knobs *k);
cm_status cm_cuda_running_ready(cm_ctx *cx, cm_device *d, cm_arena *arena, const cm_problem *p,
                                const cm_knobs *k, const void **state) CM_MUST_USE;
cm_status cm_cuda_running_run(const cm_run *r) CM_MUST_USE;

#endif
