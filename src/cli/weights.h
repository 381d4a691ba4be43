/* weights.h -- what can be said of weights: statistics, and the 2:4 pattern that sparse units want.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_CLI_WEIGHTS_H
#define CM_CLI_WEIGHTS_H

#include "ir/network.h"

/* The axis of a constant that its readers sum over, when all of them are products or convolutions that do
 * so along the same one; -1: there is none. */
int cm_weight_summed_axis(const cm_value *v);

/* Fours along an axis of a tensor of floats, row-major. */
typedef struct cm_fours {
    int64_t outer, length, inner; /* of the axis: strides are length * inner, inner, 1 */
} cm_fours;
/* False: the axis is no multiple of four, or the elements are no floats of a byte and more. */
bool cm_fours_of(const cm_tensor *t, int axis, cm_fours *out);
/* Have all fours at most two numbers that are not zero? */
bool cm_fours_hold(const cm_tensor *t, const cm_fours *f);
/* Set the two smallest of each four to zero, in place; the sum of squares before and after. */
void cm_fours_prune(cm_tensor *t, const cm_fours *f, double *before, double *after);

#endif
