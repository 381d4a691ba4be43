/* product_norm.h -- a product's rows normalised by the same kernel: what kernels/finish_norm.cuh is given.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_CUDA_PRODUCT_NORM_H
#define CM_CUDA_PRODUCT_NORM_H

#include "cuda/matmul.h"
#include "cuda/wgmma.h"

/* As kernels/finish_norm.cuh has it. */
typedef struct cm_norm_args {
    const void *scale, *bias;
    void *told;
    int64_t further;
    float epsilon;
} cm_norm_args;

/* Why the step behind the product, p->then, is not done with it, or NULL. */
const char *cm_norm_reject(const cm_problem *p, const cm_gpu_product *v);
/* Blocks whose tiles of a setting make up whole rows of n columns. */
int cm_norm_members(const cm_wgmma *w, int64_t n);
/* What they tell each other, in bytes. */
size_t cm_norm_signals(const cm_wgmma *w, const cm_extent *e);
/* Beside the product's own time, in ns. */
double cm_norm_cost(const cm_problem *p, const cm_wgmma *w, const cm_extent *e,
                    const cm_gpu_facts *g);
void cm_norm_text(const cm_problem *p, int members, cm_buf *out);
/* In each run. */
cm_norm_args cm_norm_bind(const cm_run *r);

#endif
