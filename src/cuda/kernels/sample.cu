// sample.cu -- images read at the places of a grid.
// SPDX-License-Identifier: Apache-2.0
//
// A thread has one position of the output and CHANNELS planes, which share its taps. Places are computed in double, as
// the evaluator does. Generated before this: ELEMENT, GRID, AXES, TAPS (1 nearest, 2 linear, 4 cubic), PADDING (0 zeros, 1
// border, 2 reflection), ALIGN, NUMBER.
#include "common.cuh"
#include "elements.cuh"

enum { CHANNELS = 8 };

struct arguments {
    const ELEMENT *x;
    const GRID *grid;
    ELEMENT *y;
    i64 images, channels, in[3], in_volume, out_volume;
};

DEVICE double reflected(double x, double low, double high)
{
    const double range = high - low;
    if (x >= low && x <= high)
        return x;
    if (!(range > 0) || !(x - x == 0))
        return low;
    const double over = x < low ? low - x : x - high, times = floor(over / range), rest = over - times * range;
    const bool even = times - 2 * floor(times / 2) == 0;
    return (x < low) == even ? low + rest : high - rest;
}

DEVICE double cubic(double d)
{
    const double a = -0.75;
    d = d < 0 ? -d : d;
    if (d <= 1)
        return ((a + 2) * d - (a + 3)) * d * d + 1;
    return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
}

// The element that a tap reads; -1: a zero.
DEVICE i64 tap_index(i64 size, double at, double low, double high)
{
    const double last = (double)(size - 1);
    if (at >= 0 && at <= last)
        return (i64)at;
    if (PADDING == 0)
        return -1;
    if (PADDING == 2)
        at = reflected(at, low, high);
    return at >= last ? size - 1 : at > 0 ? (i64)at : 0;
}

DEVICE void find_taps(double g, i64 size, i64 *index, NUMBER *weight)
{
    const double n = (double)size, low = ALIGN ? 0 : -0.5, high = n - (ALIGN ? 1 : 0.5);
    double x = ALIGN ? (g + 1) / 2 * (n - 1) : ((g + 1) * n - 1) / 2;
    if (TAPS == 1)
        x = rint(x);
    if (!(x >= low && x <= high) && PADDING == 1 && TAPS != 4)
        x = x > 0 ? (x < n - 1 ? x : n - 1) : 0;
    else if (!(x >= low && x <= high) && PADDING == 2)
        x = reflected(x, low, high);
    const double first = TAPS == 1 ? x : floor(x) - (TAPS == 4);
#pragma unroll
    for (int t = 0; t < TAPS; t++) {
        const double at = first + t, d = at < x ? x - at : at - x;
        index[t] = tap_index(size, at, low, high);
        weight[t] = (NUMBER)(TAPS == 1 ? 1 : TAPS == 2 ? 1 - d : cubic(d));
    }
}

extern "C" __global__ void __launch_bounds__(256) sample(const arguments a)
{
    const i64 all = a.images * a.out_volume, step = (i64)gridDim.x * blockDim.x;
    const i64 first = (i64)blockIdx.y * CHANNELS;
    const int planes = (int)(a.channels - first < CHANNELS ? a.channels - first : CHANNELS);
    for (i64 item = (i64)blockIdx.x * blockDim.x + threadIdx.x; item < all; item += step) {
        const i64 image = item / a.out_volume, place = item - image * a.out_volume;
        const ELEMENT *x = a.x + (image * a.channels + first) * a.in_volume;
        ELEMENT *y = a.y + (image * a.channels + first) * a.out_volume + place;
        i64 index[3][TAPS];
        NUMBER weight[3][TAPS], sum[CHANNELS];
#pragma unroll
        for (int d = 0; d < 3; d++) {
            index[d][0] = 0;
            weight[d][0] = 1;
            if (d < AXES)
                find_taps(get<double, GRID>(a.grid[item * AXES + AXES - 1 - d]), a.in[d], index[d], weight[d]);
        }
#pragma unroll
        for (int c = 0; c < CHANNELS; c++)
            sum[c] = 0;
        for (int t0 = 0; t0 < TAPS; t0++)
            for (int t1 = 0; t1 < (AXES > 1 ? TAPS : 1); t1++)
                for (int t2 = 0; t2 < (AXES > 2 ? TAPS : 1); t2++) {
                    i64 at = index[0][t0];
                    bool inside = at >= 0;
                    NUMBER w = weight[0][t0];
                    if (AXES > 1) {
                        at = at * a.in[1] + index[1][t1];
                        inside = inside && index[1][t1] >= 0;
                        w *= weight[1][t1];
                    }
                    if (AXES > 2) {
                        at = at * a.in[2] + index[2][t2];
                        inside = inside && index[2][t2] >= 0;
                        w *= weight[2][t2];
                    }
                    if (!inside)
                        continue;
#pragma unroll
                    for (int c = 0; c < CHANNELS; c++)
                        if (c < planes)
                            sum[c] += w * get<NUMBER, ELEMENT>(x[c * a.in_volume + at]);
                }
#pragma unroll
        for (int c = 0; c < CHANNELS; c++)
            if (c < planes)
                y[c * a.out_volume] = element<ELEMENT>::put(sum[c]);
    }
}
