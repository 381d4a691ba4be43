/* quant_softmax.h -- the tactic of QUANTISE on GPUs for softmax.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_CUDA_QUANT_SOFTMAX_H
#define CM_CUDA_QUANT_SOFTMAX_H

#include "cuda/gpu.h"

const char *cm_cuda_quant_softmax_reject(const cm_problem *p);
double cm_cuda_quant_softmax_cost(const cm_problem *p, const cm_knobs *k);
cm_status cm_cuda_quant_softmax_ready(cm_ctx *cx, cm_device *d, cm_arena *arena,
                                      const cm_problem *p, const cm_knobs *k,
                                      const void **out) CM_MUST_USE;
cm_status cm_cuda_quant_softmax_run(const cm_run *r) CM_MUST_USE;

#endif
