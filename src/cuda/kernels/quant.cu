// quant.cu -- between real numbers and bytes, and sums and products of bytes: rounded as the evaluators do.
// SPDX-License-Identifier: Apache-2.0
//
// Generated before this: BYTE (u8 or i8), and for sums and products RANK, RUN, MULTIPLY. No product and sum may become one
// instruction unless it says so, hence the intrinsics.
#include "common.cuh"
#include "elements.cuh"
#define WIDE 1
#include "nest.cuh"
#include "quant_byte.cuh"

struct conversion {
    const void *x;
    void *y;
    const float *scale;
    const BYTE *zero; // NULL: none
    u64 n, extent, inner;
};

// Runs u, u + step, ... of N elements, U of them.
template <int N, int U, bool TO> DEVICE void convert(const conversion &a, u64 u, u64 step)
{
    float real[U][N];
    BYTE byte[U][N];
#pragma unroll
    for (int j = 0; j < U; j++) {
        if (TO)
            load_run<true, float, N>((const float *)a.x + (u + j * step) * N, real[j]);
        else
            load_run<true, BYTE, N>((const BYTE *)a.x + (u + j * step) * N, byte[j]);
    }
#pragma unroll
    for (int j = 0; j < U; j++) {
        const u64 i = (u + j * step) * N;
#pragma unroll
        for (int k = 0; k < N; k++) {
            u64 p = a.extent == 1 ? 0 : (i + k) / a.inner % a.extent;
            float scale = a.scale[p], zero = a.zero ? (float)a.zero[p] : 0.0f;
            if (TO)
                byte[j][k] = to_byte(real[j][k] / scale, zero);
            else
                real[j][k] = __fmul_rn(__fsub_rn((float)byte[j][k], zero), scale);
        }
        if (TO)
            store_run<true, BYTE, N>((BYTE *)a.y + i, byte[j]);
        else
            store_run<true, float, N>((float *)a.y + i, real[j]);
    }
}

template <bool TO> DEVICE void convert_all(const conversion &a)
{
    const int run = 4, many = 4;
    const u64 step = all_threads();
    const bool aligned = ((u64)(TO ? a.x : a.y) % 16 | (u64)(TO ? a.y : a.x) % run) == 0;
    const u64 whole = aligned ? a.n / run : 0;
    u64 u = first_index();
    for (; u + (many - 1) * step < whole; u += many * step)
        convert<run, many, TO>(a, u, step);
    for (; u < whole; u += step)
        convert<run, 1, TO>(a, u, step);
    for (u64 i = whole * run + first_index(); i < a.n; i += step)
        convert<1, 1, TO>(a, i, step);
}

extern "C" __global__ void __launch_bounds__(256) quantise(const conversion a) { convert_all<true>(a); }
extern "C" __global__ void __launch_bounds__(256) dequantise(const conversion a) { convert_all<false>(a); }

struct table {
    const u8 *x;
    u8 *y;
    u64 n;
    u8 of[256];
};
extern "C" __global__ void __launch_bounds__(256) look_up(const __grid_constant__ table a)
{
    __shared__ u8 of[256];
    of[threadIdx.x] = a.of[threadIdx.x];
    __syncthreads();
    for (u64 i = first_index(); i < a.n; i += all_threads())
        a.y[i] = of[a.x[i]];
}

struct range {
    float lo, hi;
};
DEVICE void widen(range &r, range by)
{
    r.lo = by.lo < r.lo ? by.lo : r.lo;
    r.hi = by.hi > r.hi ? by.hi : r.hi;
}
// The whole block's, in every thread.
DEVICE range range_of_block(range r)
{
    __shared__ range room[256];
    room[threadIdx.x] = r;
    __syncthreads();
    for (int d = 128; d > 0; d /= 2) {
        if (threadIdx.x < d)
            widen(room[threadIdx.x], room[threadIdx.x + d]);
        __syncthreads();
    }
    return room[0];
}

struct dynamic {
    const float *x;
    u8 *y; // NULL: not wanted
    float *scale;
    u8 *zero;
    range *parts; // one for each block of the first launch
    u64 n, n_parts;
};
extern "C" __global__ void __launch_bounds__(256) quantise_range(const dynamic a)
{
    range r = {0, 0};
    for (u64 i = first_index(); i < a.n; i += all_threads())
        widen(r, range{a.x[i], a.x[i]});
    r = range_of_block(r);
    if (threadIdx.x == 0)
        a.parts[blockIdx.x] = r;
}
extern "C" __global__ void __launch_bounds__(256) quantise_dynamic(const dynamic a)
{
    range r = {0, 0};
    for (u64 i = threadIdx.x; i < a.n_parts; i += blockDim.x)
        widen(r, a.parts[i]);
    r = range_of_block(r);
    const float scale = r.hi == r.lo ? 1.0f : __fsub_rn(r.hi, r.lo) / 255.0f;
    const BYTE zero = to_byte(0.0f - r.lo / scale, 0.0f);
    if (a.y)
        for (u64 i = first_index(); i < a.n; i += all_threads())
            a.y[i] = (u8)to_byte(a.x[i] / scale, (float)zero);
    if (first_index() == 0) {
        if (a.scale)
            *a.scale = scale;
        if (a.zero)
            *a.zero = (u8)zero;
    }
}

#ifdef RANK
struct binary {
    const BYTE *a, *b;
    BYTE *y;
    const float *a_scale, *b_scale, *y_scale;
    const BYTE *a_zero, *b_zero, *y_zero; // NULL: 0
    u64 n;
    axis dims[RANK];
    i64 a_step[RANK], b_step[RANK], y_step[RANK];
};

extern "C" __global__ void __launch_bounds__(256) quantise_binary(const __grid_constant__ binary q)
{
    const float sa = *q.a_scale, sb = *q.b_scale, sy = *q.y_scale;
    const float za = q.a_zero ? (float)*q.a_zero : 0, zb = q.b_zero ? (float)*q.b_zero : 0;
    const float zy = q.y_zero ? (float)*q.y_zero : 0;
    const float ra = sa / sy, rb = sb / sy;
    const float c = __fsub_rn(zy, __fadd_rn(__fmul_rn(ra, za), __fmul_rn(rb, zb)));
    for (u64 u = first_index(); u < q.n; u += all_threads()) {
        u64 rest = u;
        i64 at_a = 0, at_b = 0, at_y = 0;
#pragma unroll
        for (int d = RANK - 1; d >= 0; d--) {
            u64 next = d ? rest / q.dims[d].size : 0;
            i64 i = rest - next * q.dims[d].size;
            rest = next;
            at_a += i * q.a_step[d];
            at_b += i * q.b_step[d];
            at_y += i * q.y_step[d];
        }
        const float a = (float)q.a[at_a], b = (float)q.b[at_b];
        if (MULTIPLY) {
            float x = __fmul_rn(sa, __fsub_rn(a, za)), y = __fmul_rn(sb, __fsub_rn(b, zb));
            q.y[at_y] = to_byte(__fmul_rn(x, y) / sy, zy);
        } else {
            q.y[at_y] = to_byte(__fmaf_rn(a, ra, __fmaf_rn(b, rb, c)), 0.0f);
        }
    }
}
#endif
