// sort.cu -- the first of rows.
// SPDX-License-Identifier: Apache-2.0
//
// Generated before this: ELEMENT, LARGEST, FLOATS, UNSIGNED, THREADS (a block has one row).
#include "common.cuh"
#include "elements.cuh"

struct rows {
    const ELEMENT *x;
    ELEMENT *y;   // NULL: not wanted
    i64 *indices; // NULL: not wanted
    i64 outer, n, inner, k;
};

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
