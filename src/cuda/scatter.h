/* scatter.h -- what the files of scattering share.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_CUDA_SCATTER_H
#define CM_CUDA_SCATTER_H

#include "cuda/nest.h"
#include "cuda/tactics.h"

/* Of any updates. scatter.c */
const char *cm_cuda_scatter_reject(const cm_problem *p);

/* Along rows that a block keeps. scatter_rows.c */
const char *cm_cuda_scatter_rows_reject(const cm_problem *p);
int cm_cuda_scatter_rows_knobs(const cm_problem *p, cm_knobs *out);
double cm_cuda_scatter_rows_cost(const cm_problem *p, const cm_knobs *k);
cm_status cm_cuda_scatter_rows_ready(cm_ctx *cx, cm_device *d, cm_arena *arena, const cm_problem *p,
                                     const cm_knobs *k, const void **state) CM_MUST_USE;
cm_status cm_cuda_scatter_rows_run(const cm_run *r) CM_MUST_USE;

#endif
