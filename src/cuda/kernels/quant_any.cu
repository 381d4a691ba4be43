// quant_any.cu -- QuantizeLinear and DequantizeLinear of any types, parameters along an axis or for blocks of one: as the
// evaluators do it, in double.
// SPDX-License-Identifier: Apache-2.0
//
// Generated before this: X, Y, SCALE, ZERO (element types), LOW and HIGH (what integers are cut to), FLOATS (the
// quantised type is one), TO (or from that).
#include "common.cuh"
#include "elements.cuh"
#define WIDE 1
#include "nest.cuh"

struct conversion {
    const X *x;
    Y *y;
    const SCALE *scale;
    const ZERO *zero; // NULL: none
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
    return (Y)(i64)(v > LOW ? (v < HIGH ? v : (double)HIGH) : (double)LOW);
#endif
}

extern "C" __global__ void __launch_bounds__(256) quantise_any(const conversion a)
{
    for (u64 i = first_index(); i < a.n; i += all_threads()) {
        const u64 p = parameter_of(a, i);
        const double v = as_scale(as_scale(get<double, X>(a.x[i])) / get<double, SCALE>(a.scale[p]));
        a.y[i] = quantised(v, a.zero ? get<double, ZERO>(a.zero[p]) : 0.0);
    }
}
#else
extern "C" __global__ void __launch_bounds__(256) dequantise_any(const conversion a)
{
    for (u64 i = first_index(); i < a.n; i += all_threads()) {
        const u64 p = parameter_of(a, i);
        const double zero = a.zero ? get<double, ZERO>(a.zero[p]) : 0.0;
        a.y[i] = element<Y>::put((get<double, X>(a.x[i]) - zero) * get<double, SCALE>(a.scale[p]));
    }
}
#endif
