// rows_units.cu -- group and instance normalisation in parts, by vectors: moments of small units, their join, and results, where all that a
// thread needs of a unit is on its way at once.
// SPDX-License-Identifier: Apache-2.0
//
// What rows_group.cuh says of macros; a row (channels first) or an image (last) is a whole of `parts` units. Units are small enough for
// HELD vectors of each thread. JOINERS: threads for each group of a unit, channels last.
#include "common.cuh"
#include "rows.cuh"
#include "rows_group.cuh"

// ---- Moments of a unit --------------------------------------------------------------------------

// Of n elements of each of a thread's WIDTH streams: the first, how far the mean is from it, and squared distances from the mean. They are
// so few that squares about the first tell these well.
struct stream_moments {
    float first[WIDTH], off[WIDTH], square[WIDTH];
};

DEVICE void take_streams(const XT *x, int n, int step, stream_moments &m)
{
    vec<XT, WIDTH> v[HELD];
#pragma unroll
    for (int k = 0; k < HELD; k++)
        if (k < n)
            v[k] = *(const vec<XT, WIDTH> *)(x + k * step);
    for (int i = 0; i < WIDTH; i++) {
        m.first[i] = n > 0 ? to_float(v[0].v[i]) : 0.0f;
        m.off[i] = m.square[i] = 0;
    }
#pragma unroll
    for (int k = 1; k < HELD; k++)
        if (k < n)
            for (int i = 0; i < WIDTH; i++) {
                const float d = to_float(v[k].v[i]) - m.first[i];
                m.off[i] += d;
                m.square[i] += d * d;
            }
    const float share = n > 0 ? __fdividef(1.0f, (float)n) : 0.0f;
    for (int i = 0; i < WIDTH; i++) {
        const float sum = m.off[i];
        m.off[i] *= share;
        m.square[i] -= sum * m.off[i];
        m.square[i] = m.square[i] < 0 ? 0.0f : m.square[i];
    }
}

// Are further sums in range as well?
DEVICE bool are_held(const rows_args &a, const stream_moments &m)
{
    bool held = true;
    for (int i = 0; i < WIDTH; i++) {
        const float mean = m.first[i] + m.off[i];
        held = held && !out_of_range(m.square[i] * 1e4f, a.epsilon) && mean < 1e15f && mean > -1e15f;
    }
    return held;
}

template <class T> DEVICE T over_some(T v, int n)
{
    for (int o = n / 2; o > 0; o /= 2)
        v += __shfl_xor_sync(~0u, v, o);
    return v;
}

#if !CHANNELS_LAST
DEVICE void unit_in_double(const rows_args &a, const XT *x, u32 size, part_moments *to)
{
    int turn = 0;
    double mean = 0, sum = 0;
    for (u32 c = threadIdx.x; c < size; c += THREADS)
        mean += to_float(x[c]);
    mean = over_row<plus>(mean, turn) / size;
    for (u32 c = threadIdx.x; c < size; c += THREADS) {
        const double d = to_float(x[c]) - mean;
        sum += d * d;
    }
    sum = over_row<plus>(sum, turn);
    if (threadIdx.x == 0)
        *to = {mean, sum};
}

DEVICE void unit_moments(const rows_args &a, u32 unit)
{
    __shared__ double means[THREADS / 32];
    __shared__ float squares[THREADS / 32], counts[THREADS / 32];
    const u32 row = unit / (u32)a.parts, first = unit % (u32)a.parts * (u32)a.part;
    const u32 size = (u32)a.cols - first < (u32)a.part ? (u32)a.cols - first : (u32)a.part;
    const XT *x = (const XT *)a.x + place_of(a, a.at_x, row) + first;
    const int step = THREADS * WIDTH, left = (int)size - (int)threadIdx.x * WIDTH;
    const int n = left > 0 ? (left + step - 1) / step : 0; // units are whole vectors
    part_moments *to = (part_moments *)a.partials + unit;
    stream_moments m;
    take_streams(x + threadIdx.x * WIDTH, n, step, m);
    if (__syncthreads_or(!are_held(a, m))) {
        unit_in_double(a, x, size, to);
        return;
    }
    double mean = 0;
    float square = 0, count = (float)(n * WIDTH);
    for (int i = 0; i < WIDTH; i++)
        mean += (double)m.first[i] + m.off[i];
    const float all = over_some(count, 32);
    mean = over_some(mean * n, 32) / (all > 0 ? all : 1);
    for (int i = 0; i < WIDTH; i++) {
        const float d = (float)(m.first[i] - mean) + m.off[i];
        square += m.square[i] + (float)n * d * d;
    }
    square = over_some(square, 32);
    if (threadIdx.x % 32 == 0) {
        means[threadIdx.x / 32] = mean;
        squares[threadIdx.x / 32] = square;
        counts[threadIdx.x / 32] = all;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        double sum = 0;
        mean = 0;
        for (int w = 0; w < THREADS / 32; w++)
            mean += means[w] * counts[w];
        mean /= size;
        for (int w = 0; w < THREADS / 32; w++)
            sum += squares[w] + (means[w] - mean) * (means[w] - mean) * counts[w];
        *to = {mean, sum};
    }
}
#else
// A group at a time.
static __device__ __noinline__ void unit_in_double(const rows_args &a, const XT *x, u32 size, part_moments *to)
{
    const u32 each = (u32)a.channels / (u32)a.groups, all = each * size;
    for (u32 g = 0; g < (u32)a.groups; g++) {
        int turn = 0;
        double mean = 0, sum = 0;
        for (u32 c = threadIdx.x; c < all; c += THREADS)
            mean += to_float(x[c / each * (u32)a.channels + g * each + c % each]);
        mean = over_row<plus>(mean, turn) / all;
        for (u32 c = threadIdx.x; c < all; c += THREADS) {
            const double d = to_float(x[c / each * (u32)a.channels + g * each + c % each]) - mean;
            sum += d * d;
        }
        sum = over_row<plus>(sum, turn);
        if (threadIdx.x == 0)
            to[g] = {mean, sum};
    }
}

// Thread t has vector t % vectors of the channels at every `ways`-th position.
DEVICE void unit_moments(const rows_args &a, u32 unit)
{
    // Of a way's channel; then of a channel. Means are distances from an element of the group.
    __shared__ float means[THREADS * WIDTH], squares[THREADS * WIDTH];
    const int channels = (int)a.channels, vectors = channels / WIDTH, ways = THREADS / vectors;
    const int lane = threadIdx.x % vectors, way = threadIdx.x / vectors;
    const u32 image = unit / (u32)a.parts, first = unit % (u32)a.parts * (u32)a.part;
    const int size = (int)((u32)a.space - first < (u32)a.part ? (u32)a.space - first : (u32)a.part);
    const XT *x = (const XT *)a.x + image * a.at_x.outer[0] + (i64)first * channels;
    const int n = way < ways && way < size ? (size - way + ways - 1) / ways : 0;
    part_moments *to = (part_moments *)a.partials + (i64)unit * a.groups;
    stream_moments m;
    take_streams(x + way * channels + lane * WIDTH, n, ways * channels, m);
    if (__syncthreads_or(!are_held(a, m))) {
        unit_in_double(a, x, (u32)size, to);
        return;
    }
    const int each = channels / (int)a.groups;
    int g = lane * WIDTH / each, c = lane * WIDTH - g * each;
    for (int i = 0; i < WIDTH && n > 0; i++) {
        means[way * channels + lane * WIDTH + i] = m.first[i] - to_float(x[g * each]) + m.off[i];
        squares[way * channels + lane * WIDTH + i] = m.square[i];
        g += ++c == each;
        c = c == each ? 0 : c;
    }
    __syncthreads();
    // Ways before `more` have one position more than the others.
    const int used = ways < size ? ways : size, less = size / ways, more = size - less * ways;
    const float share = 1.0f / (float)size;
    for (int c = threadIdx.x; c < channels; c += THREADS) {
        float mean = 0, square = 0;
        for (int w = 0; w < used; w++)
            mean += means[w * channels + c] * (float)(less + (w < more));
        mean *= share;
        for (int w = 0; w < used; w++) {
            const float d = means[w * channels + c] - mean;
            square += squares[w * channels + c] + d * d * (float)(less + (w < more));
        }
        means[c] = mean;
        squares[c] = square;
    }
    __syncthreads();
    const int part = threadIdx.x % JOINERS, teams = THREADS / JOINERS;
    for (int from = 0; from < (int)a.groups; from += teams) {
        const int at = from + threadIdx.x / JOINERS, g = at < (int)a.groups ? at : 0;
        float mean = 0, square = 0;
        for (int c = part; c < each; c += JOINERS)
            mean += means[g * each + c];
        mean = over_some(mean, JOINERS) / (float)each;
        for (int c = part; c < each; c += JOINERS) {
            const float d = means[g * each + c] - mean;
            square += squares[g * each + c] + d * d * (float)size;
        }
        square = over_some(square, JOINERS);
        if (part == 0 && at < (int)a.groups)
            to[g] = {to_float(x[g * each]) + (double)mean, square};
    }
}
#endif

extern "C" __global__ void __launch_bounds__(THREADS, 4) moments(const __grid_constant__ rows_args a)
{
    wait_for_predecessor();
    unit_moments(a, blockIdx.x);
}

// ---- Moments of a whole -------------------------------------------------------------------------

// What is done to channels of all images: centers, factors (NaN: float32 cannot), shifts.
DEVICE float *channels_of(const rows_args &a) { return (float *)((row_stats *)a.stats + a.rows); }

// A warp for each row.
extern "C" __global__ void __launch_bounds__(THREADS) join(const __grid_constant__ rows_args a)
{
    const i64 row = (i64)blockIdx.x * (THREADS / 32) + threadIdx.x / 32, groups = CHANNELS_LAST ? a.groups : 1;
    const i64 all = CHANNELS_LAST ? a.space : a.cols, each = CHANNELS_LAST ? a.channels / a.groups : 1;
    wait_for_predecessor();
    if (row >= a.rows)
        return;
    const part_moments *from = (const part_moments *)a.partials + row / groups * a.parts * groups + row % groups;
    double mean = 0, sum = 0;
#pragma unroll 4
    for (int p = threadIdx.x % 32; p < (int)a.parts; p += 32) {
        const i64 n = all - p * a.part < a.part ? all - p * a.part : a.part;
        mean += from[p * groups].mean * (double)n;
    }
    mean = over_some(mean, 32) / (double)all;
#pragma unroll 4
    for (int p = threadIdx.x % 32; p < (int)a.parts; p += 32) {
        const i64 n = all - p * a.part < a.part ? all - p * a.part : a.part;
        sum += squares_about(mean, from[p * groups].mean, from[p * groups].square, (double)(n * each));
    }
    sum = over_some(sum, 32);
    if (threadIdx.x % 32 == 0)
        set_stats(a, row, mean, sum);
#if CHANNELS_LAST
    __syncwarp();
    for (int c = threadIdx.x % 32; c < (int)each; c += 32) {
        const i64 channel = row % groups * each + c, at = row / groups * a.channels + channel;
        const struct channel h = channel_of(a, stats_of_row(a, row), channel);
        float *to = channels_of(a);
        to[at] = h.center;
        to[at + a.rows * each] = stats_of_row(a, row).extreme ? __int_as_float(0x7fffffff) : h.factor;
        to[at + a.rows * each * 2] = h.shift;
    }
#endif
}

// ---- Results ------------------------------------------------------------------------------------

#if CHANNELS_LAST
DEVICE void unit_results(const rows_args &a, u32 unit)
{
    const int channels = (int)a.channels, vectors = channels / WIDTH, ways = THREADS / vectors;
    const int c = threadIdx.x % vectors * WIDTH, way = threadIdx.x / vectors, each = channels / (int)a.groups;
    const u32 image = unit / (u32)a.parts, first = unit % (u32)a.parts * (u32)a.part + way;
    const u32 end = first - way + (u32)a.part < (u32)a.space ? first - way + (u32)a.part : (u32)a.space;
    const XT *x = (const XT *)a.x + image * a.at_x.outer[0] + (i64)first * channels + c;
    YT *y = (YT *)a.y + image * a.at_y.outer[0] + (i64)first * channels + c;
    vec<XT, WIDTH> v[HELD];
    if (way >= ways)
        return;
#pragma unroll
    for (int k = 0; k < HELD; k++)
        if (first + k * ways < end)
            v[k] = *(const vec<XT, WIDTH> *)(x + k * ways * channels);
    typedef vec<float, WIDTH> floats;
    const float *from = channels_of(a) + (i64)image * channels + c;
    const i64 all = a.rows * each;
    const floats center = *(const floats *)from, factor = *(const floats *)(from + all), shift = *(const floats *)(from + 2 * all);
    bool extreme = false;
    for (int i = 0; i < WIDTH; i++)
        extreme = extreme || factor.v[i] != factor.v[i];
    operand_places o;
    find_operands(a, (i64)image * a.groups, o);
#pragma unroll 1
    for (int k = 0; k < HELD && extreme; k++)
#pragma unroll 1
        for (int i = 0; i < WIDTH && first + k * ways < end; i++) {
            const i64 at = (i64)k * ways * channels + i;
            const float n = normalise_in_double(a, stats_of_row(a, (i64)image * a.groups + (c + i) / each), c + i, to_float(x[at]));
            y[at] = from_float<YT>(finish(a, o, c + i, first + k * ways, n));
        }
#pragma unroll
    for (int k = 0; k < HELD; k++) {
        if (extreme || first + k * ways >= end)
            break;
        vec<YT, WIDTH> to;
        for (int i = 0; i < WIDTH; i++)
            to.v[i] = from_float<YT>(finish(a, o, c + i, first + k * ways,
                                            (to_float(v[k].v[i]) - center.v[i]) * factor.v[i] + shift.v[i]));
        *(vec<YT, WIDTH> *)(y + k * ways * channels) = to;
    }
}
#else
DEVICE void unit_results(const rows_args &a, u32 unit) { apply_unit(a, unit); }
#endif

// From the last unit on, which the cache has.
extern "C" __global__ void __launch_bounds__(THREADS, CHANNELS_LAST ? 2 : 3) apply(const __grid_constant__ rows_args a)
{
    wait_for_predecessor();
    unit_results(a, (u32)a.units - 1 - blockIdx.x);
}
