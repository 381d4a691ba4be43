/* winograd_transform.h -- the transforms of F(2,3), F(4,3) and F(6,3) along one axis.
 * SPDX-License-Identifier: Apache-2.0
 *
 * With points 0, +-a, +-b ... the rows of B^T for +p and -p share their even and odd halves, and so do
 * the columns of A^T. `m` is a constant where these are called, so that only one branch is left. */
#ifndef CM_CPU_SIMD_WINOGRAD_TRANSFORM_H
#define CM_CPU_SIMD_WINOGRAD_TRANSFORM_H

#include "cpu/conv_winograd.h"
#include "cpu/simd/vec.h"

static const float points_4[] = {CM_WINOGRAD_4_POINTS}, points_6[] = {CM_WINOGRAD_6_POINTS};

/* even + p * odd and even - p * odd. */
VINLINE void both(vf even, vf odd, float p, vf *plus, vf *minus)
{
    *plus = vf_fma(vf_set(p), odd, even);
    *minus = vf_fnma(vf_set(p), odd, even);
}

VINLINE void input_2(const vf *d, vf *o)
{
    o[0] = vf_sub(d[2], d[0]);
    o[1] = vf_add(d[1], d[2]);
    o[2] = vf_sub(d[2], d[1]);
    o[3] = vf_sub(d[3], d[1]);
}

VINLINE void input_4(const vf *d, vf *o)
{
    const float a = points_4[0], b = points_4[1], aa = a * a, bb = b * b;
    const vf sum = vf_set(aa + bb), product = vf_set(aa * bb);
    o[0] = vf_fma(product, d[0], vf_fnma(sum, d[2], d[4]));
    o[5] = vf_fma(product, d[1], vf_fnma(sum, d[3], d[5]));
    both(vf_fnma(vf_set(bb), d[2], d[4]), vf_fnma(vf_set(bb), d[1], d[3]), a, &o[1], &o[2]);
    both(vf_fnma(vf_set(aa), d[2], d[4]), vf_fnma(vf_set(aa), d[1], d[3]), b, &o[3], &o[4]);
}

/* The rows of +p and -p among three pairs, q and r being the squares of the others. */
VINLINE void input_6_pair(const vf *d, float p, float q, float r, vf *plus, vf *minus)
{
    const vf sum = vf_set(q + r), product = vf_set(q * r);
    vf even = vf_fma(product, d[2], vf_fnma(sum, d[4], d[6]));
    vf odd = vf_fma(product, d[1], vf_fnma(sum, d[3], d[5]));
    both(even, odd, p, plus, minus);
}

VINLINE void input_6(const vf *d, vf *o)
{
    const float a = points_6[0], b = points_6[1], c = points_6[2];
    const float aa = a * a, bb = b * b, cc = c * c;
    const vf s1 = vf_set(aa + bb + cc), s2 = vf_set(aa * bb + aa * cc + bb * cc);
    const vf s3 = vf_set(aa * bb * cc);
    o[0] = vf_fnma(s3, d[0], vf_fma(s2, d[2], vf_fnma(s1, d[4], d[6])));
    o[7] = vf_fnma(s3, d[1], vf_fma(s2, d[3], vf_fnma(s1, d[5], d[7])));
    input_6_pair(d, a, bb, cc, &o[1], &o[2]);
    input_6_pair(d, b, aa, cc, &o[3], &o[4]);
    input_6_pair(d, c, aa, bb, &o[5], &o[6]);
}

/* B^T d: m + 2 inputs to m + 2 positions. */
VINLINE void transform_input(int m, const vf *d, vf *o)
{
    if (m == 2)
        input_2(d, o);
    else if (m == 4)
        input_4(d, o);
    else
        input_6(d, o);
}

VINLINE void output_2(const vf *d, vf *o)
{
    vf s = vf_add(d[1], d[2]), t = vf_sub(d[1], d[2]);
    o[0] = vf_add(d[0], s);
    o[1] = vf_add(t, d[3]);
}

VINLINE void output_4(const vf *d, vf *o)
{
    const float a = points_4[0], b = points_4[1];
    vf s = vf_add(d[1], d[2]), t = vf_sub(d[1], d[2]);
    vf u = vf_add(d[3], d[4]), v = vf_sub(d[3], d[4]);
    o[0] = vf_add(d[0], vf_add(s, u));
    o[1] = vf_fma(vf_set(a), t, vf_mul(vf_set(b), v));
    o[2] = vf_fma(vf_set(a * a), s, vf_mul(vf_set(b * b), u));
    o[3] = vf_fma(vf_set(a * a * a), t, vf_fma(vf_set(b * b * b), v, d[5]));
}

VINLINE vf output_6_sum(vf x, vf y, vf z, float a, float b, float c)
{
    return vf_fma(vf_set(a), x, vf_fma(vf_set(b), y, vf_mul(vf_set(c), z)));
}

VINLINE void output_6(const vf *d, vf *o)
{
    const float a = points_6[0], b = points_6[1], c = points_6[2];
    const float aa = a * a, bb = b * b, cc = c * c;
    vf s = vf_add(d[1], d[2]), t = vf_sub(d[1], d[2]);
    vf u = vf_add(d[3], d[4]), v = vf_sub(d[3], d[4]);
    vf w = vf_add(d[5], d[6]), x = vf_sub(d[5], d[6]);
    o[0] = vf_add(vf_add(d[0], s), vf_add(u, w));
    o[1] = output_6_sum(t, v, x, a, b, c);
    o[2] = output_6_sum(s, u, w, aa, bb, cc);
    o[3] = output_6_sum(t, v, x, aa * a, bb * b, cc * c);
    o[4] = output_6_sum(s, u, w, aa * aa, bb * bb, cc * cc);
    o[5] = vf_add(d[7], output_6_sum(t, v, x, aa * aa * a, bb * bb * b, cc * cc * c));
}

/* A^T d: m + 2 positions to m outputs. */
VINLINE void transform_output(int m, const vf *d, vf *o)
{
    if (m == 2)
        output_2(d, o);
    else if (m == 4)
        output_4(d, o);
    else
        output_6(d, o);
}

#endif
