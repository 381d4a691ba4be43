/* linear.h -- convolutions and products with constant weights, whose result can be scaled and shifted per
 * channel by changing the weights.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_PASSES_LINEAR_H
#define CM_PASSES_LINEAR_H

#include "passes/match.h"

typedef struct cm_linear {
    cm_node *node;     /* Conv, ConvTranspose, or MatMul with a matrix on the right */
    cm_node *add;      /* MatMul: the Add of a bias that follows, or NULL */
    cm_value *weights; /* constant floats */
    cm_value *bias;    /* a constant of one number per channel, or NULL */
    int axis;          /* of the result that the channels are on */
    int64_t channels;
} cm_linear;

/* Is v the result of one, with one reader on every step of the way? */
bool cm_linear_find(const cm_value *v, cm_linear *out);

/* Does the constant c, broadcast against v, depend on nothing but v's axis of that many channels? */
bool cm_per_channel(const cm_value *c, const cm_value *v, int axis, int64_t channels);
/* Its numbers, one per channel, in scratch. */
cm_status cm_channel_values(cm_ctx *cx, const cm_value *c, int64_t channels,
                            const double **out) CM_MUST_USE;

/* Can the weights be scaled without loss that matters: finite, and within the range of a short type? */
bool cm_can_scale(const cm_value *weights, const double *scale, int64_t channels);

/* Before `last`, the node that computes `scale*l + shift` (either may be NULL); *out is the one whose output 0
 * is that. It covers the nodes of l. */
cm_status cm_linear_apply(cm_rewriter *rw, cm_node *last, const cm_linear *l, const double *scale,
                          const double *shift, cm_node **out) CM_MUST_USE;

#endif
