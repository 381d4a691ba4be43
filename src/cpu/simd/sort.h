/* sort.h -- looking for numbers beyond a bound: one body for every level.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_CPU_SIMD_SORT_H
#define CM_CPU_SIMD_SORT_H

#include "cpu/simd/vec.h"
#include "cpu/sort.h"

/* Which lanes are not on this side of t. */
VINLINE uint32_t beyond(vf x, vf t, bool above)
{
    vm inside = above ? vf_le(x, t) : vf_le(t, x);
#if VW == 16
    return (uint16_t)~inside;
#elif VW == 8
    return (uint8_t)~_mm256_movemask_ps(inside);
#else
    return 15 & ~(uint32_t)_mm_movemask_ps(inside);
#endif
}

int64_t CM_LEVEL(cm_cpu_next_beyond)(const float *x, int64_t from, int64_t n, float t, bool above)
{
    const vf bound = vf_set(t);
    int64_t i = from;
    for (; i + 4 * VW <= n; i += 4 * VW) {
        uint32_t any = 0;
        for (int k = 0; k < 4; k++)
            any |= beyond(vf_load(x + i + k * VW), bound, above);
        if (any)
            break;
    }
    for (; i + VW <= n; i += VW) {
        uint32_t m = beyond(vf_load(x + i), bound, above);
        if (m)
            return i + __builtin_ctz(m);
    }
    for (; i < n; i++)
        if (!(above ? x[i] <= t : x[i] >= t))
            return i;
    return n;
}

#endif
