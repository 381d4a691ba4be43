// rows_group.cu -- group and instance normalisation in parts: moments of parts, their join, and the result.
// SPDX-License-Identifier: Apache-2.0
//
// What rows_group.cuh says of macros.
#include "common.cuh"
#include "rows.cuh"
#include "rows_group.cuh"

// Of WIDTH streams of elements: the first, how far the mean is from it, and squared distances from the mean. Distances from an element are
// exact where all are near each other, so that a large mean costs nothing.
struct stream_moments {
    float first[WIDTH], off[WIDTH], square[WIDTH];
    INLINE double mean(int i) const { return (double)first[i] + off[i]; }
};

// Streams of n elements `step` apart. False: float32 cannot hold what they come to.
DEVICE bool take_moments(const rows_args &a, const XT *x, i64 n, i64 step, stream_moments &m)
{
    bool held = true;
    const vec<XT, WIDTH> begin = n > 0 ? *(const vec<XT, WIDTH> *)x : vec<XT, WIDTH>{};
    for (int i = 0; i < WIDTH; i++) {
        m.first[i] = to_float(begin.v[i]);
        m.off[i] = m.square[i] = 0;
    }
#pragma unroll 4
    for (int k = 1; k < (int)n; k++) {
        x += step;
        const vec<XT, WIDTH> v = *(const vec<XT, WIDTH> *)x;
        const float one = __fdividef(1.0f, (float)(k + 1));
        for (int i = 0; i < WIDTH; i++) {
            const float e = to_float(v.v[i]) - m.first[i], d = e - m.off[i];
            m.off[i] += d * one;
            m.square[i] += d * (e - m.off[i]);
        }
    }
    for (int i = 0; i < WIDTH; i++) {
        const float mean = m.first[i] + m.off[i];
        held = held && !out_of_range(m.square[i], a.epsilon) && mean < 1e30f && mean > -1e30f;
    }
    return held;
}

struct moment {
    double mean, square;
};

// Of one stream.
static __device__ __noinline__ moment moment_in_double(const XT *x, i64 n, i64 step)
{
    moment m = {0, 0};
    for (i64 k = 0; k < n; k++)
        m.mean += to_float(x[k * step]) / (double)n;
    for (i64 k = 0; k < n; k++) {
        double d = to_float(x[k * step]) - m.mean;
        m.square += d * d;
    }
    return m;
}

#if !CHANNELS_LAST
DEVICE void unit_moments(const rows_args &a, u32 unit, int &turn)
{
    i64 row = unit / (u32)a.parts, first = unit % (u32)a.parts * a.part;
    i64 size = a.cols - first < a.part ? a.cols - first : a.part;
    const XT *x = (const XT *)a.x + place_of(a, a.at_x, row) + first + (i64)threadIdx.x * WIDTH;
    i64 left = size - (i64)threadIdx.x * WIDTH, step = THREADS * WIDTH;
    i64 n = left > 0 ? (left + step - 1) / step : 0; // parts are whole vectors
    stream_moments part;
    double mean = 0, sum = 0;
    const bool held = take_moments(a, x, n, step, part);
    for (int i = 0; held && i < WIDTH; i++)
        mean += part.mean(i) * (double)n;
#pragma unroll 1
    for (int i = 0; !held && i < WIDTH; i++)
        mean += moment_in_double(x + i, n, step).mean * (double)n;
    mean = over_row<plus>(mean, turn) / (double)size;
    for (int i = 0; held && i < WIDTH; i++)
        sum += squares_about(mean, part.mean(i), part.square[i], (double)n);
#pragma unroll 1
    for (int i = 0; !held && i < WIDTH; i++) {
        const moment m = moment_in_double(x + i, n, step);
        sum += squares_about(mean, m.mean, m.square, (double)n);
    }
    sum = over_row<plus>(sum, turn);
    if (threadIdx.x == 0) {
        a.partials[(i64)unit * 2] = mean;
        a.partials[(i64)unit * 2 + 1] = sum;
    }
}
#else
// Thread t has vector t % vectors of the channels from `from` on at every `ways`-th position.
DEVICE void moments_of(const rows_args &a, u32 unit, i64 from)
{
    __shared__ double held[THREADS][WIDTH][2];
    i64 vectors = a.channels / WIDTH;
    int here = (int)(vectors - from < THREADS ? vectors - from : THREADS), ways = THREADS / here;
    int lane = threadIdx.x % here, way = threadIdx.x / here;
    i64 image = unit / (u32)a.parts, first = unit % (u32)a.parts * a.part;
    i64 size = a.space - first < a.part ? a.space - first : a.part;
    i64 n = way < ways && way < size ? (size - way + ways - 1) / ways : 0;
    const XT *x = (const XT *)a.x + image * a.at_x.outer[0] + (first + way) * a.channels +
                  (from + lane) * WIDTH;
    stream_moments part;
    const bool fits = take_moments(a, x, n, ways * a.channels, part);
    __syncthreads(); // what was there has been read
    for (int i = 0; fits && i < WIDTH; i++) {
        held[threadIdx.x][i][0] = part.mean(i);
        held[threadIdx.x][i][1] = part.square[i];
    }
#pragma unroll 1
    for (int i = 0; !fits && i < WIDTH; i++) {
        const moment m = moment_in_double(x + i, n, ways * a.channels);
        held[threadIdx.x][i][0] = m.mean;
        held[threadIdx.x][i][1] = m.square;
    }
    __syncthreads();
    // Ways before `more` have one position more than the others.
    const int used = ways < size ? ways : (int)size, less = (int)size / ways, more = (int)size - less * ways;
    for (int i = threadIdx.x; i < here * WIDTH; i += THREADS) {
        double all = 0, sum = 0;
        for (int w = 0; w < used; w++)
            all += held[w * here + i / WIDTH][i % WIDTH][0] * (double)(less + (w < more));
        all /= (double)size;
        for (int w = 0; w < used; w++)
            sum += squares_about(all, held[w * here + i / WIDTH][i % WIDTH][0],
                                 held[w * here + i / WIDTH][i % WIDTH][1], (double)(less + (w < more)));
        double *to = a.partials + (unit * a.channels + from * WIDTH + i) * 2;
        to[0] = all;
        to[1] = sum;
    }
}
DEVICE void unit_moments(const rows_args &a, u32 unit, int &turn)
{
    for (i64 from = 0; from * WIDTH < a.channels; from += THREADS)
        moments_of(a, unit, from);
}
#endif

// One row: part p of channel c has moments at partials[first + p * by_part + c].
extern "C" __global__ void __launch_bounds__(THREADS) join(const __grid_constant__ rows_args a)
{
    int turn = 0;
    i64 row = blockIdx.x, each = CHANNELS_LAST ? a.channels / a.groups : 1;
    i64 first = CHANNELS_LAST ? row / a.groups * a.parts * a.channels + row % a.groups * each
                              : row * a.parts;
    i64 by_part = CHANNELS_LAST ? a.channels : 1, whole = CHANNELS_LAST ? a.space : a.cols;
    double mean = 0, sum = 0;
    for (i64 i = threadIdx.x; i < a.parts * each; i += THREADS) {
        i64 p = (u32)i / (u32)each, n = whole - p * a.part < a.part ? whole - p * a.part : a.part;
        mean += a.partials[(first + p * by_part + (u32)i % (u32)each) * 2] * (double)n;
    }
    mean = over_row<plus>(mean, turn) / (double)a.cols;
    for (i64 i = threadIdx.x; i < a.parts * each; i += THREADS) {
        i64 p = (u32)i / (u32)each, n = whole - p * a.part < a.part ? whole - p * a.part : a.part;
        const double *m = a.partials + (first + p * by_part + (u32)i % (u32)each) * 2;
        sum += squares_about(mean, m[0], m[1], (double)n);
    }
    sum = over_row<plus>(sum, turn);
    if (threadIdx.x == 0)
        set_stats(a, row, mean, sum);
}

extern "C" __global__ void __launch_bounds__(THREADS, 4) moments(const __grid_constant__ rows_args a)
{
    int turn = 0;
    for (u32 unit = blockIdx.x; unit < a.units; unit += gridDim.x)
        unit_moments(a, unit, turn);
}
// From the last unit on, which the cache has.
extern "C" __global__ void __launch_bounds__(THREADS, 3) apply(const __grid_constant__ rows_args a)
{
    for (u32 unit = blockIdx.x; unit < a.units; unit += gridDim.x)
        apply_unit(a, (u32)a.units - 1 - unit);
}
