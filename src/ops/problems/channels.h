/* channels.h -- where the channels of an activation are.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_OPS_CHANNELS_H
#define CM_OPS_CHANNELS_H

#include "plan/tensor.h"

/* Dense with axes in the order n, spatial..., c? Axes of size 1 may lie anywhere. */
static inline bool cm_channels_last(const cm_tensor *t)
{
    int64_t step = 1;
    for (int i = 0; i < t->rank; i++) {
        int d = i == 0 ? 1 : i == t->rank - 1 ? 0 : t->rank - i;
        if (t->dims[d] > 1 && t->strides[d] != step)
            return false;
        step *= t->dims[d];
    }
    return true;
}

/* [n, spatial..., c] seen as [n, c, spatial...]. */
static inline cm_tensor cm_channels_second(const cm_tensor *t)
{
    cm_tensor v = *t;
    v.dims[1] = t->dims[t->rank - 1];
    v.strides[1] = t->strides[t->rank - 1];
    for (int d = 2; d < t->rank; d++) {
        v.dims[d] = t->dims[d - 1];
        v.strides[d] = t->strides[d - 1];
    }
    return v;
}

#endif
