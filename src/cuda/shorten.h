/* shorten.h -- float32 as sm_80's matrix units read it: ten bits behind the point.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_CUDA_SHORTEN_H
#define CM_CUDA_SHORTEN_H

#include <stdint.h>
#include <string.h>

/* Warp groups' products cut what they are given. Weights that were rounded to the nearest when they were packed lose half
 * as much, and not always towards zero. NaN, infinities, and what would become one are left as they are. */
static inline float cm_gpu_shortened(float v)
{
    enum { HALF = 0x1000, KEPT = ~0x1fff, INFINITE = 0x7f800000 };
    uint32_t bits, rounded;
    memcpy(&bits, &v, sizeof bits);
    rounded = (bits + HALF) & (uint32_t)KEPT;
    if ((bits & INFINITE) != INFINITE && (rounded & INFINITE) != INFINITE)
        memcpy(&v, &rounded, sizeof v);
    return v;
}

#endif
