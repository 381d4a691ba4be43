// rows_group.cuh -- groups of channels whose statistics are known: what these are, and what is done to a part of a group or of an image.
// SPDX-License-Identifier: Apache-2.0
//
// Follows rows.cuh. CHANNELS_LAST 0: a group is one run of elements; `parts` units share it. CHANNELS_LAST 1: `parts` units share the
// positions of an image, each thread keeping to its channels. WIDTH elements are read at once; WHOLE_CHANNELS: those of a
// group are of whole vectors.
#pragma once

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

DEVICE row_stats stats_from(const rows_args &a, double mean, double square)
{
    const double by = deviation_of<double>(a, square);
    row_stats r;
    r.mean = mean;
    r.by = by;
    r.center = (float)mean;
    r.rest = (float)(mean - (float)mean);
    r.factor = (float)(1 / by);
    r.extreme = !(by < 1e15 && mean < 1e30 && mean > -1e30);
    return r;
}

DEVICE void set_stats(const rows_args &a, i64 row, double mean, double square)
{
    ((row_stats *)a.stats)[row] = stats_from(a, mean, square);
}

DEVICE const row_stats &stats_of_row(const rows_args &a, i64 row) { return ((const row_stats *)a.stats)[row]; }

struct part_moments { // of one group in one unit
    double mean, square;
};

// What is done to the elements of one channel.
struct channel {
    float center, factor, shift;
};

template <class S> DEVICE channel channel_of(const rows_args &a, const S &r, i64 c)
{
    channel h;
    h.center = r.center;
    h.factor = r.factor * to_float(((const SCALET *)a.scale)[c]);
    h.shift = to_float(((const BIAST *)a.bias)[c]) - r.rest * h.factor;
    return h;
}

static __device__ __noinline__ float normalise_in_double(const rows_args &a, const row_stats &r, i64 c, float v)
{
    double n = (v - r.mean) / r.by;
    return (float)(n * to_float(((const SCALET *)a.scale)[c]) + to_float(((const BIAST *)a.bias)[c]));
}

DEVICE float normalise(const channel &h, float v) { return (v - h.center) * h.factor + h.shift; }

#if !CHANNELS_LAST
// The vector from element c of a group on; `h` is of channel `known` of the group, and then of the vector's.
template <class S>
DEVICE vec<YT, WIDTH> apply_vector(const rows_args &a, const operand_places &o, const S &r,
                                   u32 first, u32 c, const vec<XT, WIDTH> &v, channel &h, u32 &known)
{
    vec<YT, WIDTH> to;
    u32 k = over_space(a, c), position = c - k * (u32)a.space;
    if (k != known)
        h = channel_of(a, r, first + (known = k));
    for (int i = 0; i < WIDTH; i++) {
        to.v[i] = from_float<YT>(
            finish(a, o, first + known, position, normalise(h, to_float(v.v[i]))));
        position++;
        if (!WHOLE_CHANNELS && position == (u32)a.space && i + 1 < WIDTH) {
            position = 0;
            h = channel_of(a, r, first + ++known);
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
    const row_stats &r = stats_of_row(a, row);
    u32 known = ~0u;
    channel h;
    operand_places o;
    find_operands(a, row, o);
    if (r.extreme) {
        for (u32 c = begin + threadIdx.x; c < end; c += THREADS) {
            const u32 k = over_space(a, c);
            float v = normalise_in_double(a, r, first + k, to_float(x[c]));
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
                    apply_vector(a, o, r, first, c + u * step, v[u], h, known);
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
        const row_stats &r = stats_of_row(a, image * a.groups + (u32)(c + i) / each);
        h[i] = channel_of(a, r, c + i);
        extreme = extreme || r.extreme;
    }
    const XT *x = (const XT *)a.x + image * a.at_x.outer[0] + c;
    YT *y = (YT *)a.y + image * a.at_y.outer[0] + c;
    if (extreme) {
        for (i64 p = first + way; p < end; p += ways)
#pragma unroll 1
            for (int i = 0; i < WIDTH; i++) {
                float v = normalise_in_double(a, stats_of_row(a, image * a.groups + (u32)(c + i) / each), c + i,
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
