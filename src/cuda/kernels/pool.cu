// pool.cu -- the largest, the mean or the norm of each window.
// SPDX-License-Identifier: Apache-2.0
//
// A thread has an output, or RUN channels of one. Of a large window the work is shared: by LANES threads, or, where channels are
// innermost, by a block that has ACROSS runs of channels. Generated before this:
// `after` (a program), and
//   NUMBER, SUM   what is computed with, and what is added up in
//   KIND          cm_pool_kind; P: of a norm; LOWEST: what the largest of nothing is
//   INPUT, OUTPUT elements
//   LAST          channels are innermost
//   RUN, LANES, ACROSS (0: no blocks), COUNT_PADS, COUNT_OVERHANG
//   WHOLE         the window is the image, its pixels evenly apart
//   NEAR_Y, NEAR_X  a small window's size, 0: any
//   DISTANCE      an integer that holds places along an axis, and those of windows beyond it
//   AFTER(X), N_AFTER, AFTER_OPERANDS, WIDE (nest.cuh)
#include "common.cuh"
#include "elements.cuh"
#include "nest.cuh"
#include "ptx_matrix.cuh"

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
    u64 outputs, runs_fit, runs_stored;
};

struct folded {
    NUMBER best;
    SUM sum;
};

// A NaN is larger than all.
template <class N> DEVICE N larger(N x, N than) { return x > than || x != x ? x : than; }
#if __CUDA_ARCH__ >= 800
template <> __device__ __forceinline__ float larger<float>(float x, float than)
{
    float r;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(x), "f"(than));
    return r;
}
#endif

DEVICE void fold(folded &f, NUMBER x)
{
    if (KIND == MAX)
        f.best = larger(x, f.best);
    else if (KIND == AVERAGE)
        f.sum += (SUM)x;
    else if (P == 1)
        f.sum += (SUM)fabs(x);
    else if (P == 2)
        f.sum += (SUM)x * (SUM)x;
    else
        f.sum += pow((SUM)fabs(x), (SUM)P);
}

typedef DISTANCE distance; // along an axis

// Positions of a window along one axis: the first inside, how many, and what a mean counts.
struct span {
    distance from;
    int n, counted;
};
// How many steps there are in so much.
DEVICE distance steps_in(distance much, distance step) { return step == 1 ? much : (much + step - 1) / step; }
DEVICE span span_of(const arguments &a, int d, distance o)
{
    const distance begin = o * (distance)a.stride[d], at = begin - (distance)a.pad[d];
    const distance step = (distance)a.dilation[d], size = (distance)a.size[d];
    distance first = at < 0 ? steps_in(-at, step) : 0;
    distance end = at < size ? steps_in(size - at, step) : 0;
    end = end < a.kernel[d] ? end : (distance)a.kernel[d];
    span s;
    s.from = at + first * step;
    s.n = end > first ? (int)(end - first) : 0;
    s.counted = s.n;
    if (COUNT_PADS) {
        distance room = steps_in(size + (distance)(a.pad[d] + a.pad_end[d]) - begin, step);
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
#pragma unroll 8
    for (int w = lane; w < all; w += LANES) {
        int iz = w / plane, rest = w - iz * plane, iy = rest / x.n, ix = rest - iy * x.n;
        const i64 at = WHOLE ? w * a.in.stride[X_]
                             : (z.from + iz * a.dilation[0]) * a.in.stride[Z_] +
                                   (y.from + iy * a.dilation[1]) * a.in.stride[Y_] +
                                   (x.from + ix * a.dilation[2]) * a.in.stride[X_];
        INPUT v[N];
        load_run<true, INPUT, N>(from + at, v);
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
            f[i].best = larger(best, f[i].best);
            f[i].sum += sum;
        }
}

// A window of NEAR_Y by NEAR_X: all of it is asked for at once. (y, x): its first place, inside the input or not.
template <int N> DEVICE void fold_near(const arguments &a, const INPUT *from, int y, int x, folded *f)
{
    enum { ROWS = NEAR_Y > 0 ? NEAR_Y : 1, COLUMNS = NEAR_X > 0 ? NEAR_X : 1 };
    const int down = (int)a.dilation[1], right = (int)a.dilation[2];
    const INPUT *first = from + y * a.in.stride[Y_] + x * a.in.stride[X_];
    INPUT v[ROWS][COLUMNS][N];
#pragma unroll
    for (int iy = 0; iy < ROWS; iy++)
#pragma unroll
        for (int ix = 0; ix < COLUMNS; ix++) {
            bool inside = (u32)(y + iy * down) < (u32)a.size[1] && (u32)(x + ix * right) < (u32)a.size[2];
            const INPUT *at = first + iy * down * a.in.stride[Y_] + ix * right * a.in.stride[X_];
            if (inside)
                load_run<true, INPUT, N>(at, v[iy][ix]);
        }
#pragma unroll
    for (int iy = 0; iy < ROWS; iy++)
#pragma unroll
        for (int ix = 0; ix < COLUMNS; ix++) {
            bool inside = (u32)(y + iy * down) < (u32)a.size[1] && (u32)(x + ix * right) < (u32)a.size[2];
#pragma unroll
            for (int i = 0; i < N; i++)
                if (inside)
                    fold(f[i], get<NUMBER, INPUT>(v[iy][ix][i]));
        }
}

// Where an output is.
struct place {
    i64 at[AXES];
    span z, y, x;
};
// Output `u`, channels innermost where they are in memory; of runs of N.
template <int N> DEVICE place place_of(const arguments &a, index u)
{
    place p;
    const axis channels = N > 1 ? a.runs : a.channels;
    index rest = u;
    if (LAST) {
        index q = quotient(rest, channels);
        p.at[C_] = (i64)(rest - q * size_of(channels)) * N;
        rest = q;
    }
#pragma unroll
    for (int d = 2; d >= 0; d--) {
        index q = quotient(rest, a.dims[d]);
        p.at[Z_ + d] = rest - q * size_of(a.dims[d]);
        rest = q;
    }
    if (!LAST) {
        index q = quotient(rest, channels);
        p.at[C_] = (i64)(rest - q * size_of(channels)) * N;
        rest = q;
    }
    p.at[N_] = rest;
    p.z = span_of(a, 0, (distance)p.at[Z_]);
    p.y = span_of(a, 1, (distance)p.at[Y_]);
    p.x = span_of(a, 2, (distance)p.at[X_]);
    return p;
}

DEVICE const INPUT *image_of(const arguments &a, const place &p)
{
    return (const INPUT *)a.in.data + p.at[N_] * a.in.stride[N_] + p.at[C_] * a.in.stride[C_];
}

// N channels of an output from what was folded.
template <int N> DEVICE void put(const arguments &a, const place &p, const folded *f)
{
    OUTPUT result[N];
    i64 to = 0;
#pragma unroll
    for (int d = 0; d < AXES; d++)
        to += p.at[d] * a.out.stride[d];
#pragma unroll
    for (int i = 0; i < N; i++) {
        NUMBER o[AFTER_OPERANDS + 1], r[1];
#define GET_AFTER(slot, k, E)                                                                      \
    {                                                                                              \
        const operand &w = a.after[slot];                                                          \
        i64 from = (p.at[C_] + i) * w.stride[C_] + p.at[N_] * w.stride[N_] +                       \
                   p.at[Z_] * w.stride[Z_] + p.at[Y_] * w.stride[Y_] + p.at[X_] * w.stride[X_];    \
        o[k] = get<NUMBER, E>(((const E *)w.data)[from]);                                          \
    }
        AFTER(GET_AFTER)
        after(finish(f[i], p.z, p.y, p.x), o, r);
        result[i] = element<OUTPUT>::put(r[0]);
    }
    // Of an output whose runs begin where they may be stored whole.
    if (N > 1 && sizeof(OUTPUT) == sizeof(INPUT) && a.runs_stored)
        store_run<true, OUTPUT, N>((OUTPUT *)a.out.data + to, result);
    else
#pragma unroll
        for (int i = 0; i < N; i++)
            ((OUTPUT *)a.out.data)[to + i * a.out.stride[C_]] = result[i];
}

DEVICE void clear(folded *f, int n)
{
#pragma unroll
    for (int i = 0; i < n; i++) {
        f[i].best = LOWEST;
        f[i].sum = 0;
    }
}

template <int N> DEVICE void pool_one(const arguments &a, index u)
{
    const place p = place_of<N>(a, u);
    folded f[N];
    clear(f, N);
    if (NEAR_Y > 0)
        fold_near<N>(a, image_of(a, p), (int)(p.at[Y_] * a.stride[1] - a.pad[1]),
                     (int)(p.at[X_] * a.stride[2] - a.pad[2]), f);
    else
        fold_window<N>(a, image_of(a, p), p.z, p.y, p.x, f);
    if (LANES == 1 || threadIdx.x % LANES == 0)
        put<N>(a, p, f);
}

template <int N> DEVICE void pool_all(const arguments &a)
{
    const u64 n = a.outputs / N * LANES, step = (u64)gridDim.x * blockDim.x;
    for (u64 u = (u64)blockIdx.x * blockDim.x + threadIdx.x; u < n; u += step)
        pool_one<N>(a, (index)(u / LANES)); // whole warps: n is a multiple of the lanes
}

#if ACROSS
enum { SHARERS = 256 / ACROSS, WARPS = 8 }; // of a window

// Where place `u` of a window is in an image.
DEVICE i64 offset_of(const arguments &a, const place &p, int u)
{
    if (WHOLE)
        return u * a.in.stride[X_];
    const int plane = p.y.n * p.x.n, iz = u / plane, rest = u - iz * plane, iy = rest / p.x.n;
    const int ix = rest - iy * p.x.n;
    return (p.z.from + iz * a.dilation[0]) * a.in.stride[Z_] + (p.y.from + iy * a.dilation[1]) * a.in.stride[Y_] +
           (p.x.from + ix * a.dilation[2]) * a.in.stride[X_];
}

// Every SHARERS-th place of a window, several asked for at once.
DEVICE void fold_share(const arguments &a, const INPUT *from, const place &p, int first, folded *f)
{
    enum { ASKED = WHOLE ? 8 : 4 };
    const int all = p.z.n * p.y.n * p.x.n;
    for (int w = first; w < all; w += ASKED * SHARERS) {
        INPUT v[ASKED][RUN];
#pragma unroll
        for (int j = 0; j < ASKED; j++)
            if (w + j * SHARERS < all)
                load_run<true, INPUT, RUN>(from + offset_of(a, p, w + j * SHARERS), v[j]);
#pragma unroll
        for (int j = 0; j < ASKED; j++)
#pragma unroll
            for (int i = 0; i < RUN; i++)
                if (w + j * SHARERS < all)
                    fold(f[i], get<NUMBER, INPUT>(v[j][i]));
    }
}

// What two have of the same channel.
DEVICE void join(folded &f, NUMBER best, SUM sum)
{
    f.best = larger(best, f.best);
    f.sum += sum;
}

// A block has ACROSS runs of channels of an output; the order of additions is the same in every run.
DEVICE void pool_shared(const arguments &a)
{
    __shared__ folded parts[WARPS][ACROSS * RUN];
    const int own = threadIdx.x % ACROSS, warp = threadIdx.x / 32;
    const u32 runs = (u32)a.runs.size, groups = (runs + ACROSS - 1) / ACROSS;
    const u64 n = a.outputs / RUN / runs * groups;
    for (u64 u = blockIdx.x; u < n; u += gridDim.x) {
        const u64 output = u / groups;
        const u32 first = (u32)(u - output * groups) * ACROSS;
        const bool mine = first + own < runs;
        folded f[RUN];
        clear(f, RUN);
        if (mine) {
            const place p = place_of<RUN>(a, (index)(output * runs + first + own));
            fold_share(a, image_of(a, p), p, threadIdx.x / ACROSS, f);
        }
#pragma unroll
        for (int d = 16; d >= ACROSS; d /= 2)
#pragma unroll
            for (int i = 0; i < RUN; i++)
                join(f[i], KIND == MAX ? __shfl_xor_sync(~0u, f[i].best, d) : f[i].best,
                     KIND == MAX ? (SUM)0 : __shfl_xor_sync(~0u, f[i].sum, d));
        if (threadIdx.x % 32 < ACROSS)
#pragma unroll
            for (int i = 0; i < RUN; i++)
                parts[warp][own * RUN + i] = f[i];
        __syncthreads();
        for (u32 c = threadIdx.x; c < ACROSS * RUN && first * RUN + c < runs * RUN; c += 256) {
            folded all = parts[0][c];
            for (int w = 1; w < WARPS; w++)
                join(all, parts[w][c].best, parts[w][c].sum);
            put<1>(a, place_of<1>(a, (index)((output * runs + first) * RUN + c)), &all);
        }
        __syncthreads();
    }
}
#endif

extern "C" __global__ void __launch_bounds__(256) pool(const __grid_constant__ arguments a)
{
    wait_for_predecessor();
#if ACROSS
    pool_shared(a);
#else
    if (RUN > 1 && a.runs_fit)
        pool_all<RUN>(a);
    else
        pool_all<1>(a);
#endif
}
