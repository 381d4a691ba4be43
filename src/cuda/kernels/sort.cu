// sort.cu -- the first of rows, running sums.
// SPDX-License-Identifier: Apache-2.0
//
// Generated before this: ELEMENT; for sums SUM (what is added up in), WARPS (for each row), EXCLUSIVE, REVERSE; for the
// first ones LARGEST, FLOATS, THREADS (a block has one row).
#include "common.cuh"
#include "elements.cuh"

struct rows {
    const ELEMENT *x;
    ELEMENT *y;   // NULL: not wanted
    i64 *indices; // NULL: not wanted
    i64 outer, n, inner, k;
};

#ifdef SUM
enum { FEW = sizeof(ELEMENT) == 8 ? 2 : 4, AHEAD = 8 };

// Elements at, at + 1, ... of a row in the order of the sums; those beyond its end count as 0.
DEVICE void load_few(const rows &a, i64 base, i64 at, bool whole, SUM *to)
{
    ELEMENT v[FEW];
    if (whole && at < a.n) {
        load_run<true, ELEMENT, FEW>(a.x + base + (REVERSE ? a.n - FEW - at : at), v);
#pragma unroll
        for (int i = 0; i < FEW; i++)
            to[i] = get<SUM, ELEMENT>(v[REVERSE ? FEW - 1 - i : i]);
    } else {
#pragma unroll
        for (int i = 0; i < FEW; i++) {
            const i64 k = at + i;
            to[i] = k < a.n ? get<SUM, ELEMENT>(a.x[base + (REVERSE ? a.n - 1 - k : k) * a.inner]) : (SUM)0;
        }
    }
}
DEVICE void store_few(const rows &a, i64 base, i64 at, bool whole, const SUM *from)
{
    if (whole && at < a.n) {
        ELEMENT v[FEW];
#pragma unroll
        for (int i = 0; i < FEW; i++)
            v[REVERSE ? FEW - 1 - i : i] = element<ELEMENT>::put(from[i]);
        store_run<true, ELEMENT, FEW>(a.y + base + (REVERSE ? a.n - FEW - at : at), v);
    } else {
#pragma unroll
        for (int i = 0; i < FEW; i++) {
            const i64 k = at + i;
            if (k < a.n)
                a.y[base + (REVERSE ? a.n - 1 - k : k) * a.inner] = element<ELEMENT>::put(from[i]);
        }
    }
}

// Sums of the threads of a row before this one, and of all of them.
DEVICE SUM sum_before(SUM sum, int group, SUM &all)
{
    __shared__ SUM of_warp[8];
    const int warp = threadIdx.x / 32;
    SUM up = sum; // of the threads up to this one
#pragma unroll
    for (int d = 1; d < 32; d *= 2) {
        SUM v = __shfl_up_sync(~0u, up, d);
        up += threadIdx.x % 32 >= d ? v : (SUM)0;
    }
    all = __shfl_sync(~0u, up, 31);
    SUM before = __shfl_up_sync(~0u, up, 1);
    before = threadIdx.x % 32 ? before : (SUM)0;
    if (WARPS > 1) {
        __syncthreads(); // what was there has been read
        if (threadIdx.x % 32 == 31)
            of_warp[warp] = up;
        __syncthreads();
        all = 0;
#pragma unroll
        for (int w = 0; w < WARPS; w++) {
            SUM v = of_warp[group * WARPS + w];
            before += w < warp % WARPS ? v : (SUM)0;
            all += v;
        }
    }
    return before;
}

// Rows of 32 * WARPS threads, FEW elements each at a time, the next ones on their way; what came before is carried.
extern "C" __global__ void __launch_bounds__(256) running_sums(const rows a)
{
    const int lanes = 32 * WARPS, rows_here = 8 / WARPS;
    const int lane = threadIdx.x % lanes, group = threadIdx.x / lanes;
    const i64 n_rows = a.outer * a.inner;
    const bool whole = a.inner == 1 && a.n % FEW == 0 && ((u64)a.x | (u64)a.y) % (FEW * sizeof(ELEMENT)) == 0;
    for (i64 first = (i64)blockIdx.x * rows_here; first < n_rows; first += (i64)gridDim.x * rows_here) {
        const bool inside = first + group < n_rows;
        const i64 row = inside ? first + group : first, outer = row / a.inner;
        const i64 base = outer * a.n * a.inner + (row - outer * a.inner);
        SUM carry = 0, v[FEW], next[FEW], all;
        load_few(a, base, lane * FEW, whole, next);
        for (i64 from = 0; from < a.n; from += lanes * FEW) {
            SUM sum = 0;
#pragma unroll
            for (int i = 0; i < FEW; i++)
                v[i] = next[i];
            load_few(a, base, from + (lanes + lane) * FEW, whole, next);
#pragma unroll
            for (int i = 0; i < FEW; i++) {
                const SUM before = sum;
                sum += v[i];
                v[i] = EXCLUSIVE ? before : sum;
            }
            const SUM before = carry + sum_before(sum, group, all);
#pragma unroll
            for (int i = 0; i < FEW; i++)
                v[i] += before;
            if (inside)
                store_few(a, base, from + lane * FEW, whole, v);
            carry += all;
        }
    }
}

// A thread for each row: rows are side by side. AHEAD elements are read at once.
extern "C" __global__ void __launch_bounds__(256) running_columns(const rows a)
{
    const i64 n_rows = a.outer * a.inner, step = (i64)gridDim.x * blockDim.x;
    for (i64 row = (i64)blockIdx.x * blockDim.x + threadIdx.x; row < n_rows; row += step) {
        const i64 outer = row / a.inner;
        const i64 base = outer * a.n * a.inner + (row - outer * a.inner);
        SUM sum = 0;
        for (i64 at = 0; at < a.n; at += AHEAD) {
            ELEMENT v[AHEAD];
#pragma unroll
            for (int i = 0; i < AHEAD; i++)
                if (at + i < a.n)
                    v[i] = a.x[base + (REVERSE ? a.n - 1 - at - i : at + i) * a.inner];
#pragma unroll
            for (int i = 0; i < AHEAD; i++) {
                const SUM before = sum;
                if (at + i >= a.n)
                    break;
                sum += get<SUM, ELEMENT>(v[i]);
                a.y[base + (REVERSE ? a.n - 1 - at - i : at + i) * a.inner] =
                    element<ELEMENT>::put(EXCLUSIVE ? before : sum);
            }
        }
    }
}
#endif

#ifdef LARGEST
#include "sort_keys.cuh"

enum { MOST = 4096 }; // that are sorted

// Small keys come first: the number's order above, its index below. -0 is 0, NaN the largest.
DEVICE u64 key_of(ELEMENT e, i64 i)
{
    u32 up;
#if FLOATS
    float x = get<float, ELEMENT>(e) + 0.0f;
    u32 bits = __float_as_uint(x);
    up = x != x ? ~0u : bits ^ ((u32)((int)bits >> 31) | 0x80000000u);
#else
    up = (u32)(get<i64, ELEMENT>(e) + 0x80000000ll);
#if UNSIGNED
    up = (u32)get<i64, ELEMENT>(e);
#endif
#endif
    return (u64)(LARGEST ? ~up : up) << 32 | (u64)i;
}

// The k-th key of a row: digit by digit, from the highest.
DEVICE u64 last_key(const rows &a, i64 base)
{
    __shared__ u32 count[256];
    __shared__ u64 found;
    __shared__ u32 left;
    u64 prefix = 0, mask = 0;
    u32 k = (u32)a.k;
    for (int shift = 56; shift >= 0; shift -= 8) {
        for (int i = threadIdx.x; i < 256; i += THREADS)
            count[i] = 0;
        __syncthreads();
        for (i64 i = threadIdx.x; i < a.n; i += THREADS) {
            u64 key = key_of(a.x[base + i * a.inner], i);
            if ((key & mask) == prefix)
                atomicAdd(&count[key >> shift & 255], 1u);
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            u32 sum = 0, bin = 0;
            for (; sum + count[bin] < k; bin++)
                sum += count[bin];
            found = prefix | (u64)bin << shift;
            left = k - sum == count[bin] ? 0 : k - sum; // 0: all of the bin are wanted
        }
        __syncthreads();
        prefix = found;
        mask |= 255ull << shift;
        k = left;
        if (k == 0)
            return prefix | ~mask;
    }
    return prefix;
}

extern "C" __global__ void __launch_bounds__(THREADS) top_k(const rows a)
{
    __shared__ u64 keys[MOST];
    __shared__ u32 n_keys;
    for (i64 row = blockIdx.x; row < a.outer * a.inner; row += gridDim.x) {
        const i64 outer = row / a.inner, column = row - outer * a.inner;
        const i64 base = outer * a.n * a.inner + column;
        int n = 2;
        __syncthreads(); // the row before has been written
        if (threadIdx.x == 0)
            n_keys = 0;
        const u64 last = a.n <= MOST ? ~0ull : last_key(a, base);
        while (n < (a.n <= MOST ? a.n : a.k))
            n *= 2;
        for (int i = threadIdx.x; i < n; i += THREADS)
            keys[i] = ~0ull;
        __syncthreads();
        for (i64 i = threadIdx.x; i < a.n; i += THREADS) {
            u64 key = key_of(a.x[base + i * a.inner], i);
            if (key <= last)
                keys[a.n <= MOST ? (u32)i : atomicAdd(&n_keys, 1u)] = key;
        }
        sort_keys(keys, n);
        for (i64 i = threadIdx.x; i < a.k; i += THREADS) {
            i64 at = (i64)(keys[i] & 0xffffffffu), to = (outer * a.k + i) * a.inner + column;
            if (a.y)
                a.y[to] = a.x[base + at * a.inner];
            if (a.indices)
                a.indices[to] = at;
        }
    }
}
#endif
