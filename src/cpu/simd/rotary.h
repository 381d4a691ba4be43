/* rotary.h -- rows whose pairs of columns are rotated, at any level.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/rotary.h"

#include "cpu/simd/vec.h"

/* Columns [i, i + lanes) of both halves. */
VINLINE void halves(const float *x, const float *c, const float *s, int64_t half, int64_t i,
                    int lanes, float *y)
{
    vf a = vf_load_n(x + i, lanes), b = vf_load_n(x + half + i, lanes);
    vf first = vf_mul(a, vf_load_n(c + i, lanes));
    vf second = vf_mul(b, vf_load_n(c + half + i, lanes));
    vf_store_n(y + i, vf_fnma(b, vf_load_n(s + i, lanes), first), lanes);
    vf_store_n(y + half + i, vf_fma(a, vf_load_n(s + half + i, lanes), second), lanes);
}

void CM_LEVEL(cm_cpu_rotate_halves)(const float *x, const float *cos, const float *sin, int64_t n,
                                    float *y)
{
    int64_t half = n / 2, i = 0;
    for (; i + VW <= half; i += VW)
        halves(x, cos, sin, half, i, VW, y);
    if (i < half)
        halves(x, cos, sin, half, i, (int)(half - i), y);
}

/* The two of each pair in the other's place. */
VINLINE vf swapped(vf x)
{
#if VW == 16
    return _mm512_permute_ps(x, 0xb1);
#elif VW == 8
    return _mm256_permute_ps(x, 0xb1);
#else
    return _mm_shuffle_ps(x, x, 0xb1);
#endif
}

/* Columns [i, i + lanes); lanes is even. */
VINLINE void pairs(const float *x, const float *c, const float *s, vf sign, int64_t i, int lanes,
                   float *y)
{
    vf v = vf_load_n(x + i, lanes), turned = vf_mul(swapped(v), sign);
    vf kept = vf_mul(v, vf_load_n(c + i, lanes));
    vf_store_n(y + i, vf_fma(turned, vf_load_n(s + i, lanes), kept), lanes);
}

void CM_LEVEL(cm_cpu_rotate_pairs)(const float *x, const float *cos, const float *sin, int64_t n,
                                   float *y)
{
    static const float signs[16] = {-1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1};
    vf sign = vf_load(signs);
    int64_t i = 0;
    for (; i + VW <= n; i += VW)
        pairs(x, cos, sin, sign, i, VW, y);
    if (i < n)
        pairs(x, cos, sin, sign, i, (int)(n - i), y);
}
