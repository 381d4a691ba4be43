/* rows_math.h -- exponentials of what is at most zero, for softmax.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_CPU_SIMD_ROWS_MATH_H
#define CM_CPU_SIMD_ROWS_MATH_H

#include "cpu/simd/vec.h"

/* exp(x) for x <= 0 or NaN, to 2^-23 of itself; 0 below 2^-126, so that masked scores make no denormals,
 * which are slow. x = n ln 2 + r: adding 1.5 * 2^23 rounds to n, whose low bits then are the exponent. */
VINLINE vf vf_exp_low(vf x)
{
    const vf big = vf_set(12582912.0f), least = vf_set(-87.3f);
    vm none = vf_lt(x, least);
    vf t = vf_fma(x, vf_set(1.44269504f), big);
    vf n = vf_sub(t, big);
    vf r = vf_fnma(n, vf_set(0.693145752f), x);
    r = vf_fnma(n, vf_set(1.42860677e-6f), r);
    vf p = vf_set(1.381454e-3f);
    p = vf_fma(p, r, vf_set(8.368745136e-3f));
    p = vf_fma(p, r, vf_set(4.166839079e-2f));
    p = vf_fma(p, r, vf_set(1.66665204e-1f));
    p = vf_fma(p, r, vf_set(4.999999343e-1f));
    p = vf_fma(p, r, vf_set(1));
    p = vf_fma(p, r, vf_set(1));
    p = vf_bits(vi_add(vi_bits(p), vi_shl(vi_bits(t), 23)));
    return vf_select(none, vf_zero(), p);
}

/* The same for weights that are summed up with that of 0, which is 1: to 2^-23 of that sum, not of
 * itself. */
VINLINE vf vf_exp_weight(vf x)
{
    const vf big = vf_set(12582912.0f), least = vf_set(-87.3f);
    vm none = vf_lt(x, least);
    vf t = vf_fma(x, vf_set(1.44269504f), big);
    vf r = vf_fnma(vf_sub(t, big), vf_set(0.693147181f), x);
    vf p = vf_set(8.312501357e-3f);
    p = vf_fma(p, r, vf_set(4.189033177e-2f));
    p = vf_fma(p, r, vf_set(1.666711539e-1f));
    p = vf_fma(p, r, vf_set(4.999923031e-1f));
    p = vf_fma(p, r, vf_set(1));
    p = vf_fma(p, r, vf_set(1));
    p = vf_bits(vi_add(vi_bits(p), vi_shl(vi_bits(t), 23)));
    return vf_select(none, vf_zero(), p);
}

#endif
