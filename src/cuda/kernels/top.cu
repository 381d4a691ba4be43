// top.cu -- the first k of long rows, k being small: rows are read twice, the second time from the caches.
// SPDX-License-Identifier: Apache-2.0
//
// The k-th of the best that groups of threads have met is no better than the k-th of all: what is at least as good as it is
// gathered, a few more than k as a rule, and ranked. Where they are too many for their room, the k-th of those that found
// room is the next bound.
//
// Generated before this: ELEMENT, LARGEST, FLOATS, UNSIGNED; THREADS (of a block, which has a row or a part of one), GROUPS
// (at least k), ROOM (for keys, a power of two); PARTS: keys of the first of every part are handed on; JOIN: keys are what is
// read. HELD: a warp has a short row.
#include "common.cuh"
#include "elements.cuh"
#include "sort_keys.cuh"

struct rows {
    const ELEMENT *x;
    ELEMENT *y;   // NULL: not wanted
    i64 *indices; // NULL: not wanted
    u64 *keys;    // [rows][parts][k]
    i64 rows, n, k, parts, part; // part: elements
};

enum { RANKED = 256, WIDTH = 16 / sizeof(ELEMENT), AHEAD = 4 };

// The best has the largest key: the number's order above, below it what is larger for a lower index. -0 is 0, NaN the largest.
DEVICE u32 order_of(ELEMENT e)
{
    u32 up;
#if FLOATS
    float x = get<float, ELEMENT>(e) + 0.0f;
    u32 bits = __float_as_uint(x);
    up = x != x ? ~0u : bits ^ ((u32)((int)bits >> 31) | 0x80000000u);
#else
    up = (u32)get<i64, ELEMENT>(e) ^ (UNSIGNED ? 0u : 0x80000000u);
#endif
    return LARGEST ? up : ~up;
}
#if FLOATS
// Floats are compared as such where NaN does not matter.
typedef float number;
DEVICE number number_of(ELEMENT e) { return get<float, ELEMENT>(e); }
DEVICE bool is_better(number x, number y) { return LARGEST ? x > y : x < y; }
DEVICE number worst() { return __int_as_float(LARGEST ? 0xff800000 : 0x7f800000); }
DEVICE number number_of_order(u32 order)
{
    const u32 up = LARGEST ? order : ~order;
    return __uint_as_float(up & 0x80000000u ? up ^ 0x80000000u : ~up);
}
#else
typedef u32 number; // the order itself
DEVICE number number_of(ELEMENT e) { return order_of(e); }
DEVICE bool is_better(number x, number y) { return x > y; }
DEVICE number worst() { return 0; }
DEVICE number number_of_order(u32 order) { return order; }
#endif

#if HELD
// A warp has a row: HELD vectors of orders in each thread, 0 where there is no element. The best goes out k times.
DEVICE u32 most_of(u32 v)
{
#if __CUDA_ARCH__ >= 800
    return __reduce_max_sync(~0u, v);
#else
    for (int d = 16; d > 0; d /= 2) {
        const u32 other = __shfl_xor_sync(~0u, v, d);
        v = other > v ? other : v;
    }
    return v;
#endif
}

DEVICE void best_of(const u32 (*held)[WIDTH], u32 &best, u32 &at)
{
    best = at = 0;
#pragma unroll
    for (int j = 0; j < HELD; j++)
#pragma unroll
        for (int i = 0; i < WIDTH; i++) {
            const bool better = held[j][i] > best;
            best = better ? held[j][i] : best;
            at = better ? j * WIDTH + i : at;
        }
}

extern "C" __global__ void __launch_bounds__(THREADS) top_of_warps(const rows a)
{
    const u32 lane = threadIdx.x % 32;
    const bool whole = a.n % WIDTH == 0 && (u64)a.x % 16 == 0;
    const i64 step = (i64)gridDim.x * (THREADS / 32);
    for (i64 row = (i64)blockIdx.x * (THREADS / 32) + threadIdx.x / 32; row < a.rows; row += step) {
        const ELEMENT *x = a.x + row * a.n;
        u32 held[HELD][WIDTH], best, at, found = 0;
#pragma unroll
        for (int j = 0; j < HELD; j++) {
            const u32 first = (j * 32 + lane) * WIDTH;
            ELEMENT v[WIDTH];
            if (whole && first < a.n)
                load_run<true, ELEMENT, WIDTH>(x + first, v);
            for (int i = 0; !whole && i < WIDTH; i++)
                if (first + i < a.n)
                    v[i] = x[first + i];
#pragma unroll
            for (int i = 0; i < WIDTH; i++)
                held[j][i] = first + i < a.n ? order_of(v[i]) : 0;
        }
        best_of(held, best, at);
        for (u32 k = 0; k < a.k; k++) {
            const u32 index = (at / WIDTH * 32 + lane) * WIDTH + at % WIDTH; // of equals the lowest
            const u32 most = most_of(best), first = ~most_of(best == most ? ~index : 0);
            found = lane == k ? first : found;
            if (index != first || best != most)
                continue;
#pragma unroll
            for (int j = 0; j < HELD * WIDTH; j++)
                held[j / WIDTH][j % WIDTH] = j == at ? 0 : held[j / WIDTH][j % WIDTH];
            best_of(held, best, at);
        }
        if (lane < a.k) {
            if (a.y)
                a.y[row * a.k + lane] = x[found];
            if (a.indices)
                a.indices[row * a.k + lane] = found;
        }
    }
}
#else
DEVICE u64 key_of(u32 order, i64 i) { return (u64)order << 32 | (0xffffffffu - (u32)i); }
DEVICE i64 index_of(u64 key) { return 0xffffffffu - (u32)key; }

struct span {
    i64 row, begin, end;
};

// take(element, index) for each element of this thread.
template <class F> DEVICE void walk(const rows &a, const span &s, F take)
{
    const ELEMENT *x = a.x + s.row * a.n;
    i64 i = s.begin + threadIdx.x;
    if (a.n % WIDTH == 0 && (u64)a.x % 16 == 0) {
        const i64 step = THREADS * WIDTH;
        i = s.begin + threadIdx.x * WIDTH;
        for (; i < s.end; i += AHEAD * step) {
            ELEMENT v[AHEAD][WIDTH];
#pragma unroll
            for (int u = 0; u < AHEAD; u++)
                if (i + u * step < s.end)
                    load_run<true, ELEMENT, WIDTH>(x + i + u * step, v[u]);
#pragma unroll
            for (int u = 0; u < AHEAD; u++)
#pragma unroll
                for (int j = 0; j < WIDTH && i + u * step < s.end; j++)
                    take(v[u][j], i + u * step + j);
        }
        return;
    }
    for (; i < s.end; i += THREADS)
        take(x[i], i);
}

// The key of the best element of this thread, one that is better than the worst there can be; 0: it has none. NaN is passed
// over: any elements' keys are bounds.
DEVICE u64 best_key(const rows &a, const span &s)
{
    u64 best = 0;
#if JOIN
    for (i64 i = s.begin + threadIdx.x; i < s.end; i += THREADS) {
        const u64 key = a.keys[s.row * a.n + i];
        best = key > best ? key : best;
    }
#else
    number most = worst();
    u32 at = ~0u;
    walk(a, s, [&](ELEMENT e, i64 i) {
        const number x = number_of(e);
        const bool better = is_better(x, most);
        most = better ? x : most;
        at = better ? (u32)i : at;
    });
    best = at == ~0u ? 0 : key_of(order_of(a.x[s.row * a.n + at]), at);
#endif
    return best;
}

// How many of n keys, an even number, are better.
DEVICE u32 rank_of(u64 key, const u64 *keys, u32 n)
{
    u32 better = 0;
    for (u32 i = 0; i < n; i += 2) {
        const ulonglong2 two = *(const ulonglong2 *)(keys + i);
        better += (two.x > key) + (two.y > key);
    }
    return better;
}

// Those of at least `least` into keys, as far as there is room; returns how many there are.
DEVICE u32 gather(const rows &a, const span &s, u64 least, u64 *keys, u32 *count)
{
    __syncthreads(); // `least` has been read
    if (threadIdx.x == 0)
        *count = 0;
    __syncthreads();
#if JOIN
    for (i64 i = s.begin + threadIdx.x; i < s.end; i += THREADS) {
        const u64 key = a.keys[s.row * a.n + i];
        if (key >= least) {
            const u32 to = atomicAdd(count, 1u);
            if (to < ROOM)
                keys[to] = key;
        }
    }
#else
    const number bound = least ? number_of_order((u32)(least >> 32)) : worst();
    walk(a, s, [&](ELEMENT e, i64 i) {
        if (is_better(bound, number_of(e)))
            return;
        const u64 key = key_of(order_of(e), i);
        if (key >= least) {
            const u32 to = atomicAdd(count, 1u);
            if (to < ROOM)
                keys[to] = key;
        }
    });
#endif
    __syncthreads();
    return *count;
}

DEVICE void put(const rows &a, const span &s, u32 rank, u64 key)
{
#if PARTS
    a.keys[(s.row * a.parts + s.begin / a.part) * a.k + rank] = key;
#else
    const i64 to = s.row * a.k + rank, at = index_of(key);
    if (a.y)
        a.y[to] = a.x[JOIN ? s.row * a.part + at : s.row * a.n + at];
    if (a.indices)
        a.indices[to] = at;
#endif
}

// The first k of n keys; a part may have fewer.
DEVICE void put_first(const rows &a, const span &s, u64 *keys, u32 n)
{
    for (u32 i = n + threadIdx.x; PARTS && i < a.k; i += THREADS)
        put(a, s, i, 0);
    if (n <= RANKED) {
        if (threadIdx.x == 0)
            keys[n] = 0; // an even number
        __syncthreads();
        for (u32 i = threadIdx.x; i < n; i += THREADS) {
            const u32 rank = rank_of(keys[i], keys, (n + 1) & ~1u);
            if (rank < a.k)
                put(a, s, rank, keys[i]);
        }
        return;
    }
    u32 all = 2 * RANKED;
    while (all < n)
        all *= 2;
    for (u32 i = n + threadIdx.x; i < all; i += THREADS)
        keys[i] = 0;
    sort_keys(keys, all);
    for (u32 i = threadIdx.x; i < a.k; i += THREADS)
        put(a, s, i, keys[all - 1 - i]);
}

extern "C" __global__ void __launch_bounds__(THREADS) top(const rows a)
{
    __shared__ __align__(16) u64 keys[ROOM + 2], best[GROUPS];
    __shared__ u64 least;
    __shared__ u32 count;
    const int each = THREADS / GROUPS;
    for (i64 u = blockIdx.x; u < a.rows * a.parts; u += gridDim.x) {
        span s;
        s.row = u / a.parts;
        s.begin = JOIN ? 0 : (u - s.row * a.parts) * a.part;
        s.end = JOIN || a.n - s.begin < a.part ? a.n : s.begin + a.part;
        u64 key = best_key(a, s);
#pragma unroll
        for (int d = (each < 32 ? each : 32) / 2; d > 0; d /= 2) {
            const u64 other = __shfl_xor_sync(~0u, key, d);
            key = other > key ? other : key;
        }
        __syncthreads(); // what was there has been read
        if (threadIdx.x % each == 0)
            best[threadIdx.x / each] = key;
        if (threadIdx.x == 0)
            least = 0;
        __syncthreads();
        if (threadIdx.x < GROUPS && best[threadIdx.x] &&
            rank_of(best[threadIdx.x], best, GROUPS) == a.k - 1)
            least = best[threadIdx.x];
        __syncthreads();
        u32 n = gather(a, s, least, keys, &count);
        while (n > ROOM) { // of those that are there, the k-th is no better than the k-th of all
            sort_keys(keys, ROOM);
            n = gather(a, s, keys[ROOM - (u32)a.k], keys, &count);
        }
        put_first(a, s, keys, n);
    }
}
#endif
