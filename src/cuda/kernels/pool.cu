// pool.cu -- the largest, the mean or the norm of each window.
// SPDX-License-Identifier: Apache-2.0
//
// A thread has an output, or RUN channels of one; of a large window LANES threads share the work. Generated before this:
// `after` (a program), and
//   NUMBER, SUM   what is computed with, and what is added up in
//   KIND          cm_pool_kind; P: of a norm; LOWEST: what the largest of nothing is
//   INPUT, OUTPUT elements
//   LAST          channels are innermost
//   RUN, LANES, COUNT_PADS, COUNT_OVERHANG
//   AFTER(X), N_AFTER, AFTER_OPERANDS, WIDE (nest.cuh)
#include "common.cuh"
#include "elements.cuh"
#include "nest.cuh"

enum { MAX, AVERAGE, NORM };
enum { N_, C_, Z_, Y_, X_, AXES };

struct operand {
    void *data;
    i64 stride[AXES];
};
struct arguments {
    operand in, out, after[N_AFTER + 1];
    axis runs, channels, dims[3]; // of the output; runs: of channels
    i64 size[3], kernel[3], stride[3], dilation[3], pad[3], pad_end[3];
    u64 outputs, runs_fit;
};

struct folded {
    NUMBER best;
    SUM sum;
};

DEVICE void fold(folded &f, NUMBER x)
{
    if (KIND == MAX)
        f.best = x > f.best || x != x ? x : f.best;
    else if (KIND == AVERAGE)
        f.sum += (SUM)x;
    else if (P == 1)
        f.sum += (SUM)fabs(x);
    else if (P == 2)
        f.sum += (SUM)x * (SUM)x;
    else
        f.sum += pow((SUM)fabs(x), (SUM)P);
}

// Positions of a window along one axis: the first inside, how many, and what a mean counts.
struct span {
    i64 from;
    int n, counted;
};
DEVICE span span_of(const arguments &a, int d, i64 o)
{
    const i64 at = o * a.stride[d] - a.pad[d], step = a.dilation[d], size = a.size[d];
    i64 first = at < 0 ? (-at + step - 1) / step : 0;
    i64 end = at < size ? (size - at + step - 1) / step : 0;
    end = end < a.kernel[d] ? end : a.kernel[d];
    span s;
    s.from = at + first * step;
    s.n = end > first ? (int)(end - first) : 0;
    s.counted = s.n;
    if (COUNT_PADS) {
        i64 room = (size + a.pad[d] + a.pad_end[d] - o * a.stride[d] + step - 1) / step;
        room = room > 1 ? room : 1;
        s.counted = COUNT_OVERHANG || room > a.kernel[d] ? (int)a.kernel[d] : (int)room;
    }
    return s;
}

DEVICE NUMBER finish(const folded &f, const span &z, const span &y, const span &x)
{
    if (KIND == MAX)
        return f.best;
    if (KIND == NORM)
        return (NUMBER)(P == 1 ? f.sum : P == 2 ? sqrt(f.sum) : pow(f.sum, 1 / (SUM)P));
    bool empty = z.n == 0 || y.n == 0 || x.n == 0;
    return empty ? (NUMBER)0 : (NUMBER)(f.sum / ((SUM)z.counted * (SUM)y.counted * (SUM)x.counted));
}

template <int N>
DEVICE void fold_window(const arguments &a, const INPUT *from, span z, span y, span x, folded *f)
{
    const int lane = LANES == 1 ? 0 : threadIdx.x % LANES, plane = y.n * x.n, all = z.n * plane;
    for (int w = lane; w < all; w += LANES) {
        int iz = w / plane, rest = w - iz * plane, iy = rest / x.n, ix = rest - iy * x.n;
        INPUT v[N];
        load_run<true, INPUT, N>(from + (z.from + iz * a.dilation[0]) * a.in.stride[Z_] +
                                     (y.from + iy * a.dilation[1]) * a.in.stride[Y_] +
                                     (x.from + ix * a.dilation[2]) * a.in.stride[X_],
                                 v);
#pragma unroll
        for (int i = 0; i < N; i++)
            fold(f[i], get<NUMBER, INPUT>(v[i]));
    }
#pragma unroll
    for (int d = LANES / 2; d > 0; d /= 2)
#pragma unroll
        for (int i = 0; i < N; i++) {
            NUMBER best = __shfl_xor_sync(~0u, f[i].best, d);
            SUM sum = __shfl_xor_sync(~0u, f[i].sum, d);
            f[i].best = best > f[i].best || best != best ? best : f[i].best;
            f[i].sum += sum;
        }
}

template <int N> DEVICE void pool_one(const arguments &a, index u)
{
    i64 at[AXES];
    const axis channels = N > 1 ? a.runs : a.channels;
    index rest = u;
    if (LAST) {
        index q = quotient(rest, channels);
        at[C_] = (i64)(rest - q * size_of(channels)) * N;
        rest = q;
    }
#pragma unroll
    for (int d = 2; d >= 0; d--) {
        index q = quotient(rest, a.dims[d]);
        at[Z_ + d] = rest - q * size_of(a.dims[d]);
        rest = q;
    }
    if (!LAST) {
        index q = quotient(rest, channels);
        at[C_] = (i64)(rest - q * size_of(channels)) * N;
        rest = q;
    }
    at[N_] = rest;
    const span z = span_of(a, 0, at[Z_]), y = span_of(a, 1, at[Y_]), x = span_of(a, 2, at[X_]);
    folded f[N];
#pragma unroll
    for (int i = 0; i < N; i++) {
        f[i].best = LOWEST;
        f[i].sum = 0;
    }
    fold_window<N>(a, (const INPUT *)a.in.data + at[N_] * a.in.stride[N_] + at[C_] * a.in.stride[C_],
                   z, y, x, f);
    if (LANES > 1 && threadIdx.x % LANES)
        return;
    OUTPUT result[N];
    i64 to = 0;
#pragma unroll
    for (int d = 0; d < AXES; d++)
        to += at[d] * a.out.stride[d];
#pragma unroll
    for (int i = 0; i < N; i++) {
        NUMBER o[AFTER_OPERANDS + 1], r[1];
#define GET_AFTER(slot, k, E)                                                                      \
    {                                                                                              \
        const operand &w = a.after[slot];                                                          \
        i64 from = (at[C_] + i) * w.stride[C_] + at[N_] * w.stride[N_] + at[Z_] * w.stride[Z_] +   \
                   at[Y_] * w.stride[Y_] + at[X_] * w.stride[X_];                                  \
        o[k] = get<NUMBER, E>(((const E *)w.data)[from]);                                          \
    }
        AFTER(GET_AFTER)
        after(finish(f[i], z, y, x), o, r);
        result[i] = element<OUTPUT>::put(r[0]);
    }
#pragma unroll
    for (int i = 0; i < N; i++)
        ((OUTPUT *)a.out.data)[to + i * a.out.stride[C_]] = result[i];
}

template <int N> DEVICE void pool_all(const arguments &a)
{
    const u64 n = a.outputs / N * LANES, step = (u64)gridDim.x * blockDim.x;
    for (u64 u = (u64)blockIdx.x * blockDim.x + threadIdx.x; u < n; u += step)
        pool_one<N>(a, (index)(u / LANES)); // whole warps: n is a multiple of the lanes
}

extern "C" __global__ void __launch_bounds__(256) pool(const __grid_constant__ arguments a)
{
    if (RUN > 1 && a.runs_fit && (u64)a.in.data % (sizeof(INPUT) * RUN) == 0)
        pool_all<RUN>(a);
    else
        pool_all<1>(a);
}
