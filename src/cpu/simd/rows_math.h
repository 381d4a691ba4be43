/* rows_math.h -- exp and log of vectors.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_CPU_SIMD_ROWS_MATH_H
#define CM_CPU_SIMD_ROWS_MATH_H
#include <math.h>

#include "cpu/simd/vec.h"

VINLINE vf vf_exp(vf x)
{
    x = vf_max(vf_set(-104), x); /* NaN stays */
    x = vf_min(vf_set(89), x);
    vf n = vf_round(vf_mul(x, vf_set(1.44269504f)));
    vf r = vf_fnma(n, vf_set(0.693145752f), x);
    r = vf_fnma(n, vf_set(1.42860677e-6f), r);
    vf p = vf_set(1.38888889e-3f);
    p = vf_fma(p, r, vf_set(8.33333333e-3f));
    p = vf_fma(p, r, vf_set(4.16666667e-2f));
    p = vf_fma(p, r, vf_set(1.66666667e-1f));
    p = vf_fma(p, r, vf_set(0.5f));
    p = vf_fma(p, r, vf_set(1));
    p = vf_fma(p, r, vf_set(1));
    vi k = vi_of_float(n), h = vi_sar(k, 1);
    vf a = vf_bits(vi_shl(vi_add(h, vi_set(127)), 23));
    vf b = vf_bits(vi_shl(vi_add(vi_sub(k, h), vi_set(127)), 23));
    return vf_mul(vf_mul(p, a), b);
}
VINLINE vf vf_log(vf x)
{
    float v[VW];
    vf_store(v, x);
    for (int i = 0; i < VW; i++)
        v[i] = logf(v[i]);
    return vf_load(v);
}
#endif
