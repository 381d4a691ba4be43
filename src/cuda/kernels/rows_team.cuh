// rows_team.cuh -- what blocks that keep groups of channels together tell each other: moments of what each has of a row, and statistics
// of the row, which are joined from them.
// SPDX-License-Identifier: Apache-2.0
//
// Follows rows_group.cuh. All blocks are there at once and take units in turns; a whole is of `parts` units. JOINERS warps of each join.
#pragma once
#include "signals.cuh"

enum { TOLD = 1, EXTREME = 2 }; // EXTREME: float32 does not hold the moments, or what is done with them

// What main threads are told of a row: its mean in two parts, and a factor.
struct told_stats {
    float center, rest, factor;
    u32 how;
};
// And what warps (threads) bring: of n elements, sums of distances from one of them, and of their squares.
struct alignas(16) warp_moments {
    float first, sum, square, n;
};

// In device memory, zeros at first: statistics of rows, then moments of all that rows have.
DEVICE uint4 *rows_told(const rows_args &a) { return (uint4 *)a.partials; }
DEVICE uint4 *parts_told(const rows_args &a) { return (uint4 *)a.partials + a.rows; }

DEVICE uint4 moments_told(double mean, float square, bool extreme)
{
    const u64 bits = (u64)__double_as_longlong(mean);
    return make_uint4((u32)bits, (u32)(bits >> 32), __float_as_uint(square), extreme ? EXTREME : TOLD);
}

DEVICE u32 steps_of(const rows_args &a)
{
    return blockIdx.x < (u32)a.units ? ((u32)a.units - blockIdx.x + gridDim.x - 1) / gridDim.x : 0;
}
DEVICE u32 unit_of(u32 step) { return blockIdx.x + step * gridDim.x; }

// Which unit of which whole; steps go from one of this block's to the next.
struct cursor {
    u32 whole, part;
};
struct stride {
    u32 wholes, parts;
};
DEVICE stride stride_of(const rows_args &a) { return {gridDim.x / (u32)a.parts, gridDim.x % (u32)a.parts}; }
DEVICE cursor cursor_of(const rows_args &a, u32 unit) { return {unit / (u32)a.parts, unit % (u32)a.parts}; }
DEVICE void advance(const rows_args &a, const stride &s, cursor &c)
{
    c.whole += s.wholes;
    c.part += s.parts;
    if (c.part >= (u32)a.parts) {
        c.part -= (u32)a.parts;
        c.whole++;
    }
}

template <class T> DEVICE T over_some(T v, int n)
{
    for (int o = n / 2; o > 0; o /= 2)
        v += __shfl_xor_sync(~0u, v, o);
    return v;
}

// ---- Rows are joined ------------------------------------------------------------------------------

// Where a row begins, and element c of it from there on; how many members tell moments of it, and of how many elements each.
DEVICE const XT *row_begin(const rows_args &a, u32 row);
DEVICE i64 place_in_row(const rows_args &a, u32 c);
DEVICE u32 members_of(const rows_args &a);
DEVICE u32 count_of(const rows_args &a, u32 member);

// A warp: the moments of a row that float32 does not hold, from memory.
static __device__ __noinline__ void join_in_double(const rows_args &a, u32 row)
{
    const XT *x = row_begin(a, row);
    double mean = 0, sum = 0;
#pragma unroll 4
    for (u32 c = threadIdx.x % 32; c < (u32)a.cols; c += 32)
        mean += to_float(x[place_in_row(a, c)]);
    mean = over_some(mean, 32) / (double)a.cols;
#pragma unroll 4
    for (u32 c = threadIdx.x % 32; c < (u32)a.cols; c += 32) {
        const double d = to_float(x[place_in_row(a, c)]) - mean;
        sum += d * d;
    }
    sum = over_some(sum, 32);
    if (threadIdx.x % 32 == 0) {
        set_stats(a, row, mean, sum);
        __threadfence(); // it is there when it is told of
        const row_stats &r = stats_of_row(a, row);
        tell(rows_told(a) + row, make_uint4(__float_as_uint(r.center), __float_as_uint(r.rest), __float_as_uint(r.factor),
                                            r.extreme ? EXTREME : TOLD));
    }
}

// JOINERS warps: every gridDim.x-th row.
DEVICE void join_rows(const rows_args &a, u32 warp)
{
    const u32 n = members_of(a);
    for (u32 row = blockIdx.x + warp * gridDim.x; row < (u32)a.rows; row += JOINERS * gridDim.x) {
        const uint4 *from = parts_told(a) + (i64)row * n;
        const double about = to_float(*row_begin(a, row));
        double sum = 0, square = 0;
        bool extreme = !(about < 1e15 && about > -1e15);
        for (u32 p = threadIdx.x % 32; p < n; p += 4 * 32) {
            uint4 v[4];
#pragma unroll
            for (int j = 0; j < 4; j++)
                if (p + j * 32 < n)
                    v[j] = ask(from + p + j * 32);
#pragma unroll
            for (int j = 0; j < 4; j++)
                if (p + j * 32 < n) {
                    if (v[j].w == 0)
                        v[j] = wait_until_told(from + p + j * 32);
                    const double off = __longlong_as_double((i64)((u64)v[j].y << 32 | v[j].x)) - about;
                    const double count = (double)count_of(a, p + j * 32);
                    extreme = extreme || v[j].w == EXTREME;
                    sum += off * count;
                    square += __uint_as_float(v[j].z) + off * off * count;
                }
        }
        __syncwarp();
        sum = over_some(sum, 32);
        square = over_some(square, 32);
        const double off = sum / (double)a.cols, mean = about + off, about_mean = square - sum * off;
        const double by = deviation_of<double>(a, about_mean > 0 ? about_mean : 0);
        const float center = (float)mean;
        if (__any_sync(~0u, extreme || !(by < 1e15)))
            join_in_double(a, row);
        else if (threadIdx.x % 32 == 0)
            tell(rows_told(a) + row, make_uint4(__float_as_uint(center), __float_as_uint((float)(mean - center)),
                                                __float_as_uint((float)(1 / by)), TOLD));
    }
}
