// quant_any.cu -- QuantizeLinear and DequantizeLinear of any types, parameters along an axis or for blocks of one: as the
// evaluators do it, in double.
// SPDX-License-Identifier: Apache-2.0
//
// Generated before this: X, Y, SCALE, ZERO (element types), LOW and HIGH (what integers are cut to), FLOATS (the
// quantised type is one), TO (or from that), GROUP (elements that a thread stores at once).
#include "common.cuh"
#include "elements.cuh"
#include "parts.cuh"
#define WIDE 1
#include "nest.cuh"

struct conversion {
    const void *x;
    void *y;
    const SCALE *scale;
    const void *zero; // NULL: none
    u64 n, extent, inner;
    u64 block, blocks; // elements along the axis that share a parameter, and how many such there are
};

DEVICE u64 parameter_of(const conversion &a, u64 i)
{
    if (a.extent == 1)
        return 0;
    const u64 line = i / a.inner, along = line % a.extent;
    if (a.block == 0)
        return along;
    return (line / a.extent * a.blocks + along / a.block) * a.inner + i % a.inner;
}

#if TO
// Rounded to what is divided in.
DEVICE double as_scale(double v) { return get<double, SCALE>(element<SCALE>::put(v)); }

DEVICE Y quantised(double v, double zero)
{
#if FLOATS
    return element<Y>::put(v + zero);
#else
    v = rint(v) + zero;
    return element<Y>::put((i64)(v > LOW ? (v < HIGH ? v : (double)HIGH) : (double)LOW));
#endif
}

DEVICE Y convert(double x, double scale, double zero) { return quantised(as_scale(as_scale(x) / scale), zero); }
#else
DEVICE Y convert(double x, double scale, double zero) { return element<Y>::put((x - zero) * scale); }
#endif

extern "C" __global__ void __launch_bounds__(256) convert_any(const conversion a)
{
    for (u64 u = first_index(); u * GROUP < a.n; u += all_threads()) {
        const u64 i = u * GROUP;
        const int n = a.n - i < GROUP ? (int)(a.n - i) : GROUP;
        Y y[GROUP];
#pragma unroll
        for (int k = 0; k < GROUP; k++)
            if (k < n) {
                const u64 p = parameter_of(a, i + k);
                const double zero = a.zero ? get<double, ZERO>(elements_at<ZERO>::load(a.zero, p)) : 0.0;
                y[k] = convert(get<double, X>(elements_at<X>::load(a.x, i + k)), get<double, SCALE>(a.scale[p]), zero);
            }
        elements_at<Y>::store(a.y, i, y, n);
    }
}
