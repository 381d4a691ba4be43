/* conv_bf16.h -- what the tactics for convolutions of bfloat16 by the processor's own instructions share.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_CPU_CONV_BF16_H
#define CM_CPU_CONV_BF16_H

#include "cpu/conv.h"
#include "cpu/finish_bf16.h"
#include "cpu/gemm_half.h"

/* What they want of a problem: channels-last bfloat16, constant weights. A sentence, or NULL. */
const char *cm_conv_bf16_reject(const cm_problem *p);

/* What one costs, in ns: so many operations, `gain` times as fast as float32's; ns to bring its rows together; units that threads
 * share. */
double cm_conv_bf16_ns(const cm_problem *p, double flops, double gain, double gathered_ns,
                       int64_t units);

/* What happens to sums. */
typedef struct cm_conv_bf16_sink {
    cm_epilogue_plan plan;
    bool fast; /* `finish` is all there is to do, the bias with it */
    cm_bf16_finish finish;
    const uint16_t *bias; /* the operator's own, NULL: none */
} cm_conv_bf16_sink;

void cm_conv_bf16_sink_init(cm_conv_bf16_sink *s, const cm_run *r);

/* x: sums of pixels [pixel, pixel + m) and channels [channel, channel + n), rows `ld` apart; x is overwritten. Where `fast`, n is
 * at most CM_BF16_NR; else at most CM_CONV_BF16_GROUP panels of those. */
enum { CM_CONV_BF16_GROUP = 8 };
void cm_conv_bf16_sink_tile(const cm_conv_bf16_sink *s, int64_t pixel, int64_t channel, int64_t m,
                            int64_t n, float *x, int64_t ld);

#endif
