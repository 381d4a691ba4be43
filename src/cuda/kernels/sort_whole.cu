// sort_whole.cu -- the first of rows of any element type and any number of them: a block sorts a whole row, in device memory.
// SPDX-License-Identifier: Apache-2.0
//
// Generated before this: ELEMENT, LARGEST, FLOATS, UNSIGNED, THREADS (a block has one row at a time).
#include "common.cuh"
#include "elements.cuh"

struct rows {
    const ELEMENT *x;
    ELEMENT *y;   // NULL: not wanted
    i64 *indices; // NULL: not wanted
    i64 outer, n, inner, k;
    u64 *keys;    // `size` for each block
    u32 *places;  // the same
    u64 size;     // a power of two, n or more
};

// Small keys come first. -0 is 0, NaN the largest.
DEVICE u64 key_of(ELEMENT e)
{
    u64 up;
#if FLOATS
    double x = get<double, ELEMENT>(e) + 0.0;
    u64 bits = (u64)__double_as_longlong(x);
    up = x != x ? ~0ull : bits ^ ((u64)((i64)bits >> 63) | 1ull << 63);
#elif UNSIGNED
    up = get<u64, ELEMENT>(e);
#else
    up = (u64)get<i64, ELEMENT>(e) ^ 1ull << 63;
#endif
    return LARGEST ? ~up : up;
}

// By exchanges at powers of two; of equal keys the earlier place comes first.
DEVICE void sort_row(u64 *keys, u32 *places, u64 n)
{
    for (u64 size = 2; size <= n; size *= 2)
        for (u64 apart = size / 2; apart > 0; apart /= 2) {
            __syncthreads();
            for (u64 i = threadIdx.x; i < n / 2; i += THREADS) {
                const u64 lo = i / apart * 2 * apart + i % apart, hi = lo + apart;
                const u64 p = keys[lo], q = keys[hi];
                const u32 at = places[lo], other = places[hi];
                const bool after = p > q || (p == q && at > other);
                if (after == ((lo & size) == 0)) {
                    keys[lo] = q;
                    keys[hi] = p;
                    places[lo] = other;
                    places[hi] = at;
                }
            }
        }
    __syncthreads();
}

extern "C" __global__ void __launch_bounds__(THREADS) top_k_whole(const rows a)
{
    u64 *keys = a.keys + blockIdx.x * a.size;
    u32 *places = a.places + blockIdx.x * a.size;
    for (i64 row = blockIdx.x; row < a.outer * a.inner; row += gridDim.x) {
        const i64 outer = row / a.inner, column = row - outer * a.inner;
        const i64 base = outer * a.n * a.inner + column;
        __syncthreads(); // the row before has been written
        for (u64 i = threadIdx.x; i < a.size; i += THREADS) {
            keys[i] = i < (u64)a.n ? key_of(a.x[base + (i64)i * a.inner]) : ~0ull;
            places[i] = (u32)i;
        }
        sort_row(keys, places, a.size);
        for (i64 i = threadIdx.x; i < a.k; i += THREADS) {
            i64 at = places[i], to = (outer * a.k + i) * a.inner + column;
            if (a.y)
                a.y[to] = a.x[base + at * a.inner];
            if (a.indices)
                a.indices[to] = at;
        }
    }
}
