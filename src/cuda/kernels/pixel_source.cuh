// pixel_source.cuh -- the left operand of a convolution as a product: rows are output pixels, k runs over kernel positions
// and, inside, channels of a group; gathered from the input while it is loaded.
// SPDX-License-Identifier: Apache-2.0
//
// Given before: what tells tiles apart (T, CHUNK, A_CHUNKS, TILE_M, TILE_K, chunk_at), TRANSPOSED (the output's pixels take
// from an input that is spread out), VOLUME (a third spatial axis is more than one deep), A_WHOLE (chunks are channels
// of one kernel position).
#pragma once
#include "conv_sizes.cuh"

struct conv_args {
    const T *x, *w;
    float *partial;      // sums of each split: [split][group][pixel][column]
    int m, n, k, splits; // pixels, columns of a group, k of a group
    int k_pitch;         // of the packed weights
    int channels;        // of a group
    conv_sizes s;
    u32 groups;
};

// One axis of an output pixel: where its window begins, in the input (transposed: in the spread-out input).
DEVICE int window_begin(const conv_args &p, int axis, int at)
{
    return TRANSPOSED ? at + p.s.pad[axis] : at * p.s.stride[axis] - p.s.pad[axis];
}

// The place that kernel position `tap` of a window sees; -1: outside.
DEVICE int window_place(const conv_args &p, int axis, int begin, int tap)
{
    if (!TRANSPOSED) {
        int at = begin + tap * p.s.dilation[axis];
        return (u32)at < (u32)p.s.in[axis] ? at : -1;
    }
    int spread = begin - tap * p.s.dilation[axis];
    if (spread < 0 || spread % p.s.stride[axis] != 0)
        return -1;
    int at = spread / p.s.stride[axis];
    return at < p.s.in[axis] ? at : -1;
}

// A position in k: which kernel position, which channel.
struct k_place {
    int channel, x, y, z;

    INLINE void begin(const conv_args &p, int k)
    {
        int tap = k / p.channels;
        channel = k - tap * p.channels;
        x = tap % p.s.kernel[2];
        tap /= p.s.kernel[2];
        y = tap % p.s.kernel[1];
        z = tap / p.s.kernel[1];
    }
    INLINE void advance(const conv_args &p, int by)
    {
        channel += by;
        while (channel >= p.channels) {
            channel -= p.channels;
            if (++x == p.s.kernel[2]) {
                x = 0;
                if (++y == p.s.kernel[1]) {
                    y = 0;
                    z++;
                }
            }
        }
    }
};

// How the threads of a block (or `WORKERS` of it) load rows of A. A thread copies the same chunk of every APART-th line.
template <int WORKERS> struct pixel_source {
    enum {
        APART = WORKERS / A_CHUNKS,
        EACH = (TILE_M + APART - 1) / APART,
    };
    const conv_args &p;
    const T *first[EACH]; // what the window's first place sees (transposed: the image), inside the input or not
    int z[VOLUME ? EACH : 1], y[EACH], x[EACH];
    int line, chunk;
    k_place at;

    INLINE pixel_source(const conv_args &args, int worker)
        : p(args), line(worker / A_CHUNKS), chunk(worker % A_CHUNKS)
    {
    }

    INLINE void begin(const T *from, int row, int rows, int k)
    {
        enum { NOWHERE = -(1 << 30) }; // no window from there meets the input
        at.begin(p, k + chunk * CHUNK);
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            int own = line + i * APART;
            u32 pixel = row + own, rest = pixel / p.s.out[2];
            x[i] = window_begin(p, 2, pixel - rest * p.s.out[2]);
            pixel = rest, rest = pixel / p.s.out[1];
            int begin_y = window_begin(p, 1, pixel - rest * p.s.out[1]), begin_z = 0;
            y[i] = own < rows ? begin_y : NOWHERE;
            if (VOLUME) {
                pixel = rest, rest = pixel / p.s.out[0];
                begin_z = z[i] = window_begin(p, 0, pixel - rest * p.s.out[0]);
            }
            first[i] = from + (i64)rest * p.s.image;
            if (!TRANSPOSED)
                first[i] += (i64)begin_z * p.s.step[0] + (i64)begin_y * p.s.step[1] + (i64)x[i] * p.s.step[2];
        }
    }

    // From what the window's first place sees to what q sees.
    INLINE i64 offset(const k_place &q)
    {
        i64 o = (i64)q.channel * p.s.channel;
        if (!TRANSPOSED)
            o += (i64)(q.y * p.s.dilation[1]) * p.s.step[1] + (i64)(q.x * p.s.dilation[2]) * p.s.step[2] +
                 (VOLUME ? (i64)(q.z * p.s.dilation[0]) * p.s.step[0] : 0);
        return o;
    }

    // The element of pixel i that q sees, or NULL; o: offset(q).
    INLINE const T *see(int i, const k_place &q, i64 o)
    {
        int iy = window_place(p, 1, y[i], q.y), ix = window_place(p, 2, x[i], q.x);
        int iz = VOLUME ? window_place(p, 0, z[VOLUME ? i : 0], q.z) : 0;
        if ((iz | iy | ix) < 0 || q.z >= p.s.kernel[0])
            return 0;
        if (TRANSPOSED)
            o += (i64)iy * p.s.step[1] + (i64)ix * p.s.step[2] + (VOLUME ? (i64)iz * p.s.step[0] : 0);
        return first[i] + o;
    }

    INLINE void load(u32 to)
    {
        union {
            T v[CHUNK];
            uint4 all;
        } part[A_WHOLE ? 1 : EACH];
        if (!A_WHOLE) {
            k_place q = at;
#pragma unroll
            for (int i = 0; i < EACH; i++)
                part[A_WHOLE ? 0 : i].all = make_uint4(0, 0, 0, 0);
#pragma unroll
            for (int e = 0; e < CHUNK; e++) {
                i64 o = offset(q);
#pragma unroll
                for (int i = 0; i < EACH; i++) {
                    const T *from = see(i, q, o);
                    if (from)
                        part[A_WHOLE ? 0 : i].v[e] = *from;
                }
                q.advance(p, 1);
            }
        }
        i64 o = offset(at);
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            int own = line + i * APART;
            if (EACH * APART > TILE_M && own >= TILE_M)
                break;
            u32 place = to + chunk_at<A_CHUNKS, 0>(own, chunk);
            if (A_WHOLE) {
                const T *from = see(i, at, o);
                copy16(place, from ? from : p.x, from != 0);
            } else {
                store_shared16(place, part[A_WHOLE ? 0 : i].all);
            }
        }
        at.advance(p, TILE_K);
    }
};
