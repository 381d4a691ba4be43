// pool_places.cu -- the largest of each window and where in the tensor it was.
// SPDX-License-Identifier: Apache-2.0
//
// A thread has an output. Generated before this: ELEMENT, NUMBER (what is compared), LOWEST (the largest of nothing).
#include "common.cuh"
#include "elements.cuh"

struct arguments {
    const ELEMENT *x;
    ELEMENT *y;
    i64 *places;
    i64 outputs;
    i64 in[3], out[3], kernel[3], stride[3], dilation[3], pad[3];
    i64 weight[3]; // of a place along each axis, in the index that is told
};

// Positions [first, end) of a window along an axis are inside, the window's own being at `from`.
DEVICE void span_of(const arguments &a, int d, i64 o, i64 *from, i64 *first, i64 *end)
{
    const i64 step = a.dilation[d], at = o * a.stride[d] - a.pad[d], left = a.in[d] - at;
    *from = at;
    *first = at < 0 ? (-at + step - 1) / step : 0;
    *end = left <= 0 ? 0 : (left + step - 1) / step < a.kernel[d] ? (left + step - 1) / step : a.kernel[d];
}

extern "C" __global__ void __launch_bounds__(256) pool_places(const arguments a)
{
    const i64 step = (i64)gridDim.x * blockDim.x, volume = a.in[0] * a.in[1] * a.in[2];
    for (i64 item = (i64)blockIdx.x * blockDim.x + threadIdx.x; item < a.outputs; item += step) {
        i64 rest = item, from[3], first[3], end[3], at = -1;
#pragma unroll
        for (int d = 2; d >= 0; d--) {
            span_of(a, d, rest % a.out[d], &from[d], &first[d], &end[d]);
            rest /= a.out[d];
        }
        const ELEMENT *x = a.x + rest * volume;
        NUMBER best = LOWEST;
        for (i64 i = first[0]; i < end[0]; i++)
            for (i64 j = first[1]; j < end[1]; j++)
                for (i64 k = first[2]; k < end[2]; k++) {
                    const i64 p0 = from[0] + i * a.dilation[0], p1 = from[1] + j * a.dilation[1];
                    const i64 p2 = from[2] + k * a.dilation[2];
                    const NUMBER v = get<NUMBER, ELEMENT>(x[(p0 * a.in[1] + p1) * a.in[2] + p2]);
                    if (at < 0 || v > best || v != v) { // the last NaN is larger than all
                        best = v;
                        at = p0 * a.weight[0] + p1 * a.weight[1] + p2 * a.weight[2];
                    }
                }
        a.y[item] = element<ELEMENT>::put(best);
        a.places[item] = at < 0 ? -1 : rest * volume + at;
    }
}
