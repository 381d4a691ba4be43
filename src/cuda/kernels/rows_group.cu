// rows_group.cu -- group and instance normalisation in parts: moments of parts, their join, and the result.
// SPDX-License-Identifier: Apache-2.0
//
// CHANNELS_LAST 0: a group is one run of elements; `parts` blocks share it. CHANNELS_LAST 1: `parts` blocks share the
// positions of an image, each thread keeping to its channels. WIDTH elements are read at once.
#include "common.cuh"
#include "rows.cuh"

// Means and squared distances of WIDTH streams of elements `step` apart, n of each; in doubles where float32 cannot
// hold them.
DEVICE void take_moments(const rows_args &a, const XT *x, i64 n, i64 step, double *mean,
                         double *square)
{
    float m[WIDTH], s[WIDTH];
    bool slow = false;
    for (int i = 0; i < WIDTH; i++)
        m[i] = s[i] = 0;
    const XT *at = x;
#pragma unroll 4
    for (int k = 0; k < (int)n; k++, at += step) {
        vec<XT, WIDTH> v = *(const vec<XT, WIDTH> *)at;
        float one = __fdividef(1.0f, (float)(k + 1));
        for (int i = 0; i < WIDTH; i++) {
            float e = to_float(v.v[i]), d = e - m[i];
            m[i] += d * one;
            s[i] += d * (e - m[i]);
        }
    }
    for (int i = 0; i < WIDTH; i++) {
        mean[i] = m[i];
        square[i] = s[i];
        slow = slow || out_of_range(s[i], a.epsilon);
    }
    for (int i = 0; slow && i < WIDTH; i++) {
        mean[i] = square[i] = 0;
        for (i64 k = 0; k < n; k++)
            mean[i] += to_float(x[k * step + i]) / (double)n;
        for (i64 k = 0; k < n; k++) {
            double d = to_float(x[k * step + i]) - mean[i];
            square[i] += d * d;
        }
    }
}

// Of a row: its mean, as a double and as two floats, and what is divided by. Extreme: float32 cannot subtract and
// scale.
struct row_stats {
    double mean, by;
    float center, rest, factor;
    int extreme;
};

// The mean of all from means of parts of `count` elements, and then the same for squared distances.
DEVICE double squares_about(double mean, double part, double square, double count)
{
    return count > 0 ? square + (part - mean) * (part - mean) * count : 0;
}

#if !CHANNELS_LAST
extern "C" __global__ void __launch_bounds__(THREADS) moments(const __grid_constant__ rows_args a)
{
    int turn = 0;
    for (i64 unit = blockIdx.x; unit < a.rows * a.parts; unit += gridDim.x) {
        i64 row = unit / a.parts, first = unit % a.parts * a.part;
        i64 size = a.cols - first < a.part ? a.cols - first : a.part;
        const XT *x = (const XT *)a.x + place_of(a, a.at_x, row) + first + (i64)threadIdx.x * WIDTH;
        i64 left = size - (i64)threadIdx.x * WIDTH, step = THREADS * WIDTH;
        i64 n = left > 0 ? (left + step - 1) / step : 0; // parts are whole vectors
        double part[WIDTH], square[WIDTH], mean = 0, sum = 0;
        take_moments(a, x, n, step, part, square);
        for (int i = 0; i < WIDTH; i++)
            mean += n > 0 ? part[i] * (double)n : 0;
        mean = over_row<plus>(mean, turn) / (double)size;
        for (int i = 0; i < WIDTH; i++)
            sum += squares_about(mean, part[i], square[i], (double)n);
        sum = over_row<plus>(sum, turn);
        if (threadIdx.x == 0) {
            a.partials[unit * 2] = mean;
            a.partials[unit * 2 + 1] = sum;
        }
    }
}
#else
// Thread t has vector t % vectors of the channels at every `ways`-th position; blocks of y do the vectors beyond.
extern "C" __global__ void __launch_bounds__(THREADS) moments(const __grid_constant__ rows_args a)
{
    __shared__ double held[THREADS][WIDTH][2];
    i64 vectors = a.channels / WIDTH, from = (i64)blockIdx.y * THREADS;
    int here = (int)(vectors - from < THREADS ? vectors - from : THREADS), ways = THREADS / here;
    int lane = threadIdx.x % here, way = threadIdx.x / here;
    i64 image = blockIdx.x / a.parts, first = blockIdx.x % a.parts * a.part;
    i64 size = a.space - first < a.part ? a.space - first : a.part;
    i64 n = way < ways && way < size ? (size - way + ways - 1) / ways : 0;
    const XT *x = (const XT *)a.x + image * a.at_x.outer[0] + (first + way) * a.channels +
                  (from + lane) * WIDTH;
    double mean[WIDTH], square[WIDTH];
    take_moments(a, x, n, ways * a.channels, mean, square);
    for (int i = 0; i < WIDTH; i++) {
        held[threadIdx.x][i][0] = mean[i];
        held[threadIdx.x][i][1] = square[i];
    }
    __syncthreads();
    if (way > 0)
        return;
    int used = ways < size ? ways : (int)size, positions = (int)size;
    for (int i = 0; i < WIDTH; i++) {
        double all = 0, sum = 0;
        for (int w = 0; w < used; w++)
            all += held[w * here + lane][i][0] * (double)((positions - w + ways - 1) / ways);
        all /= (double)size;
        for (int w = 0; w < used; w++)
            sum += squares_about(all, held[w * here + lane][i][0], held[w * here + lane][i][1],
                                 (double)((positions - w + ways - 1) / ways));
        double *to = a.partials + (blockIdx.x * a.channels + (from + lane) * WIDTH + i) * 2;
        to[0] = all;
        to[1] = sum;
    }
}
#endif

// One row: part p of channel c has moments at partials[first + p * by_part + c]. A warp each.
extern "C" __global__ void join(const __grid_constant__ rows_args a)
{
    i64 row = blockIdx.x, each = CHANNELS_LAST ? a.channels / a.groups : 1;
    i64 first = CHANNELS_LAST ? row / a.groups * a.parts * a.channels + row % a.groups * each
                              : row * a.parts;
    i64 by_part = CHANNELS_LAST ? a.channels : 1, whole = CHANNELS_LAST ? a.space : a.cols;
    double mean = 0, sum = 0;
    for (i64 i = threadIdx.x; i < a.parts * each; i += 32) {
        i64 p = i / each, n = whole - p * a.part < a.part ? whole - p * a.part : a.part;
        mean += a.partials[(first + p * by_part + i % each) * 2] * (double)n;
    }
    for (int o = 16; o > 0; o /= 2)
        mean += __shfl_xor_sync(~0u, mean, o);
    mean /= (double)a.cols;
    for (i64 i = threadIdx.x; i < a.parts * each; i += 32) {
        i64 p = i / each, n = whole - p * a.part < a.part ? whole - p * a.part : a.part;
        const double *m = a.partials + (first + p * by_part + i % each) * 2;
        sum += squares_about(mean, m[0], m[1], (double)n);
    }
    for (int o = 16; o > 0; o /= 2)
        sum += __shfl_xor_sync(~0u, sum, o);
    if (threadIdx.x == 0) {
        double by = deviation_of<double>(a, sum);
        row_stats *r = (row_stats *)a.stats + row;
        r->mean = mean;
        r->by = by;
        r->center = (float)mean;
        r->rest = (float)(mean - (float)mean);
        r->factor = (float)(1 / by);
        r->extreme = !(by < 1e15 && mean < 1e30 && mean > -1e30);
    }
}

// What is done to the elements of one channel.
struct channel {
    float center, factor, shift;
    bool extreme;
};

DEVICE channel channel_of(const rows_args &a, i64 row, i64 c)
{
    const row_stats *r = (const row_stats *)a.stats + row;
    channel h;
    h.center = r->center;
    h.factor = r->factor * to_float(((const SCALET *)a.scale)[c]);
    h.shift = to_float(((const BIAST *)a.bias)[c]) - r->rest * h.factor;
    h.extreme = r->extreme;
    return h;
}

static __device__ __noinline__ float normalise_in_double(const rows_args &a, i64 row, i64 c, float v)
{
    const row_stats *r = (const row_stats *)a.stats + row;
    double n = (v - r->mean) / r->by;
    return (float)(n * to_float(((const SCALET *)a.scale)[c]) + to_float(((const BIAST *)a.bias)[c]));
}

DEVICE float normalise(const channel &h, float v) { return (v - h.center) * h.factor + h.shift; }

#if !CHANNELS_LAST
extern "C" __global__ void __launch_bounds__(THREADS) apply(const __grid_constant__ rows_args a)
{
    i64 each = a.channels / a.groups;
    for (i64 unit = blockIdx.x; unit < a.rows * a.parts; unit += gridDim.x) {
        i64 row = unit / a.parts, first = unit % a.parts * a.part;
        i64 end = first + a.part < a.cols ? first + a.part : a.cols;
        const XT *x = (const XT *)a.x + place_of(a, a.at_x, row);
        YT *y = (YT *)a.y + place_of(a, a.at_y, row);
        operand_places o;
        find_operands(a, row, o);
        for (i64 c = first + (i64)threadIdx.x * WIDTH; c < end; c += THREADS * WIDTH) {
            vec<XT, WIDTH> v = *(const vec<XT, WIDTH> *)(x + c);
            vec<YT, WIDTH> to;
            i64 k = row % a.groups * each + (u32)c / (u32)a.space, position = (u32)c % (u32)a.space;
            channel h = channel_of(a, row, k);
            for (int i = 0; i < WIDTH; i++) {
                float e = to_float(v.v[i]);
                float r = h.extreme ? normalise_in_double(a, row, k, e) : normalise(h, e);
                to.v[i] = from_float<YT>(finish(a, o, k, position, r));
                if (++position == a.space && i + 1 < WIDTH) {
                    position = 0;
                    h = channel_of(a, row, ++k);
                }
            }
            *(vec<YT, WIDTH> *)(y + c) = to;
        }
    }
}
#else
extern "C" __global__ void __launch_bounds__(THREADS) apply(const __grid_constant__ rows_args a)
{
    i64 vectors = a.channels / WIDTH, from = (i64)blockIdx.y * THREADS;
    int here = (int)(vectors - from < THREADS ? vectors - from : THREADS), ways = THREADS / here;
    int way = threadIdx.x / here;
    i64 image = blockIdx.x / a.parts, first = blockIdx.x % a.parts * a.part;
    i64 end = first + a.part < a.space ? first + a.part : a.space;
    i64 c = (from + threadIdx.x % here) * WIDTH, each = a.channels / a.groups;
    if (way >= ways)
        return;
    operand_places o;
    find_operands(a, image * a.groups, o);
    channel h[WIDTH];
    bool extreme = false;
    for (int i = 0; i < WIDTH; i++) {
        h[i] = channel_of(a, image * a.groups + (c + i) / each, c + i);
        extreme = extreme || h[i].extreme;
    }
#pragma unroll 2
    for (i64 p = first + way; p < end; p += ways) {
        vec<XT, WIDTH> v =
            *(const vec<XT, WIDTH> *)((const XT *)a.x + image * a.at_x.outer[0] + p * a.channels + c);
        vec<YT, WIDTH> to;
        for (int i = 0; i < WIDTH; i++) {
            float e = to_float(v.v[i]);
            float r = extreme
                          ? normalise_in_double(a, image * a.groups + (u32)(c + i) / (u32)each, c + i, e)
                          : normalise(h[i], e);
            to.v[i] = from_float<YT>(finish(a, o, c + i, p, r));
        }
        *(vec<YT, WIDTH> *)((YT *)a.y + image * a.at_y.outer[0] + p * a.channels + c) = to;
    }
}
#endif
