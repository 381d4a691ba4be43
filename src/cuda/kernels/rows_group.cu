// rows_group.cu -- group and instance normalisation in parts: moments of parts, their join, and the result.
// SPDX-License-Identifier: Apache-2.0
//
// CHANNELS_LAST 0: a group is one run of elements; `parts` units share it. CHANNELS_LAST 1: `parts` units share the
// positions of an image, each thread keeping to its channels. WIDTH elements are read at once; WHOLE_CHANNELS: those of a
// group are of whole vectors.
#include "common.cuh"
#include "rows.cuh"

// Means and squared distances of WIDTH streams of elements `step` apart, n of each. False: float32 cannot hold them.
DEVICE bool take_moments(const rows_args &a, const XT *x, i64 n, i64 step, float *m, float *s)
{
    bool held = true;
    for (int i = 0; i < WIDTH; i++)
        m[i] = s[i] = 0;
#pragma unroll 4
    for (int k = 0; k < (int)n; k++, x += step) {
        vec<XT, WIDTH> v = *(const vec<XT, WIDTH> *)x;
        float one = __fdividef(1.0f, (float)(k + 1));
        for (int i = 0; i < WIDTH; i++) {
            float e = to_float(v.v[i]), d = e - m[i];
            m[i] += d * one;
            s[i] += d * (e - m[i]);
        }
    }
    for (int i = 0; i < WIDTH; i++)
        held = held && !out_of_range(s[i], a.epsilon);
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
DEVICE void unit_moments(const rows_args &a, u32 unit, int &turn)
{
    i64 row = unit / (u32)a.parts, first = unit % (u32)a.parts * a.part;
    i64 size = a.cols - first < a.part ? a.cols - first : a.part;
    const XT *x = (const XT *)a.x + place_of(a, a.at_x, row) + first + (i64)threadIdx.x * WIDTH;
    i64 left = size - (i64)threadIdx.x * WIDTH, step = THREADS * WIDTH;
    i64 n = left > 0 ? (left + step - 1) / step : 0; // parts are whole vectors
    float part[WIDTH], square[WIDTH];
    double mean = 0, sum = 0;
    const bool held = take_moments(a, x, n, step, part, square);
    for (int i = 0; held && i < WIDTH; i++)
        mean += n > 0 ? part[i] * (double)n : 0;
#pragma unroll 1
    for (int i = 0; !held && i < WIDTH; i++)
        mean += moment_in_double(x + i, n, step).mean * (double)n;
    mean = over_row<plus>(mean, turn) / (double)size;
    for (int i = 0; held && i < WIDTH; i++)
        sum += squares_about(mean, part[i], square[i], (double)n);
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
    float mean[WIDTH], square[WIDTH];
    const bool fits = take_moments(a, x, n, ways * a.channels, mean, square);
    __syncthreads(); // what was there has been read
    for (int i = 0; fits && i < WIDTH; i++) {
        held[threadIdx.x][i][0] = mean[i];
        held[threadIdx.x][i][1] = square[i];
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
};

DEVICE channel channel_of(const rows_args &a, i64 row, i64 c)
{
    const row_stats *r = (const row_stats *)a.stats + row;
    channel h;
    h.center = r->center;
    h.factor = r->factor * to_float(((const SCALET *)a.scale)[c]);
    h.shift = to_float(((const BIAST *)a.bias)[c]) - r->rest * h.factor;
    return h;
}

static __device__ __noinline__ float normalise_in_double(const rows_args &a, i64 row, i64 c, float v)
{
    const row_stats *r = (const row_stats *)a.stats + row;
    double n = (v - r->mean) / r->by;
    return (float)(n * to_float(((const SCALET *)a.scale)[c]) + to_float(((const BIAST *)a.bias)[c]));
}

DEVICE bool is_extreme(const rows_args &a, i64 row)
{
    return ((const row_stats *)a.stats + row)->extreme;
}

DEVICE float normalise(const channel &h, float v) { return (v - h.center) * h.factor + h.shift; }

#if !CHANNELS_LAST
// The vector from element c of a group on; `h` is of channel `known` of the group, and then of the vector's.
DEVICE vec<YT, WIDTH> apply_vector(const rows_args &a, const operand_places &o, i64 row, u32 first,
                                   u32 c, const vec<XT, WIDTH> &v, channel &h, u32 &known)
{
    vec<YT, WIDTH> to;
    u32 k = over_space(a, c), position = c - k * (u32)a.space;
    if (k != known)
        h = channel_of(a, row, first + (known = k));
    for (int i = 0; i < WIDTH; i++) {
        to.v[i] = from_float<YT>(
            finish(a, o, first + known, position, normalise(h, to_float(v.v[i]))));
        position++;
        if (!WHOLE_CHANNELS && position == (u32)a.space && i + 1 < WIDTH) {
            position = 0;
            h = channel_of(a, row, first + ++known);
        }
    }
    return to;
}

DEVICE void apply_unit(const rows_args &a, u32 unit)
{
    const int ahead = 4;
    const u32 step = THREADS * WIDTH, row = unit / (u32)a.parts;
    const u32 begin = (u32)(unit % (u32)a.parts * a.part);
    const u32 end = begin + a.part < a.cols ? begin + (u32)a.part : (u32)a.cols;
    const u32 first = row % (u32)a.groups * ((u32)a.channels / (u32)a.groups);
    const XT *x = (const XT *)a.x + place_of(a, a.at_x, row);
    YT *y = (YT *)a.y + place_of(a, a.at_y, row);
    u32 known = ~0u;
    channel h;
    operand_places o;
    find_operands(a, row, o);
    if (is_extreme(a, row)) {
        for (u32 c = begin + threadIdx.x; c < end; c += THREADS) {
            const u32 k = over_space(a, c);
            float v = normalise_in_double(a, row, first + k, to_float(x[c]));
            y[c] = from_float<YT>(finish(a, o, first + k, c - k * (u32)a.space, v));
        }
        return;
    }
    for (u32 c = begin + threadIdx.x * WIDTH; c < end; c += ahead * step) {
        vec<XT, WIDTH> v[ahead];
#pragma unroll
        for (int u = 0; u < ahead; u++)
            if (c + u * step < end)
                v[u] = *(const vec<XT, WIDTH> *)(x + c + u * step);
#pragma unroll
        for (int u = 0; u < ahead; u++)
            if (c + u * step < end)
                *(vec<YT, WIDTH> *)(y + c + u * step) =
                    apply_vector(a, o, row, first, c + u * step, v[u], h, known);
    }
}
#else
DEVICE void apply_to(const rows_args &a, u32 unit, i64 from)
{
    const int ahead = 4;
    i64 vectors = a.channels / WIDTH;
    int here = (int)(vectors - from < THREADS ? vectors - from : THREADS), ways = THREADS / here;
    int way = threadIdx.x / here;
    i64 image = unit / (u32)a.parts, first = unit % (u32)a.parts * a.part;
    i64 end = first + a.part < a.space ? first + a.part : a.space;
    i64 c = (from + threadIdx.x % here) * WIDTH;
    u32 each = (u32)a.channels / (u32)a.groups;
    if (way >= ways)
        return;
    operand_places o;
    find_operands(a, image * a.groups, o);
    channel h[WIDTH];
    bool extreme = false;
    for (int i = 0; i < WIDTH; i++) {
        const i64 row = image * a.groups + (u32)(c + i) / each;
        h[i] = channel_of(a, row, c + i);
        extreme = extreme || is_extreme(a, row);
    }
    const XT *x = (const XT *)a.x + image * a.at_x.outer[0] + c;
    YT *y = (YT *)a.y + image * a.at_y.outer[0] + c;
    if (extreme) {
        for (i64 p = first + way; p < end; p += ways)
#pragma unroll 1
            for (int i = 0; i < WIDTH; i++) {
                float v = normalise_in_double(a, image * a.groups + (u32)(c + i) / each, c + i,
                                              to_float(x[p * a.channels + i]));
                y[p * a.channels + i] = from_float<YT>(finish(a, o, c + i, p, v));
            }
        return;
    }
    for (i64 p = first + way; p < end; p += ahead * ways) {
        vec<XT, WIDTH> v[ahead];
#pragma unroll
        for (int u = 0; u < ahead; u++)
            if (p + u * ways < end)
                v[u] = *(const vec<XT, WIDTH> *)(x + (p + u * ways) * a.channels);
#pragma unroll
        for (int u = 0; u < ahead; u++) {
            vec<YT, WIDTH> to;
            if (p + u * ways >= end)
                break;
            for (int i = 0; i < WIDTH; i++)
                to.v[i] = from_float<YT>(
                    finish(a, o, c + i, p + u * ways, normalise(h[i], to_float(v[u].v[i]))));
            *(vec<YT, WIDTH> *)(y + (p + u * ways) * a.channels) = to;
        }
    }
}
DEVICE void apply_unit(const rows_args &a, u32 unit)
{
    for (i64 from = 0; from * WIDTH < a.channels; from += THREADS)
        apply_to(a, unit, from);
}
#endif

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
