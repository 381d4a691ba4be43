// top.cu -- the first k of long rows, k being small: rows are read once.
// SPDX-License-Identifier: Apache-2.0
//
// The k-th of the best that groups of threads have met is no better than the k-th of all: what is at least as good as it is
// gathered, a few more than k as a rule, and ranked. The bound rises while a row is read: it is found anew after so many
// elements, then after four times as many, and so on; vectors that have something are noted, and looked at again in the end.
// Where they are too many for their room, the row is read again with the last bound; where even those that are gathered then
// are, the k-th of those that found room is the next bound.
//
// Few rows are in parts: a launch finds the best of groups, the next one bounds, gathers and, in a row's last block to end,
// ranks.
//
// Generated before this: ELEMENT, LARGEST, FLOATS, UNSIGNED; THREADS (of a block, which has a row or a part of one), GROUPS
// (at least k), ROOM (for keys, a power of two); PARTS: rows are in parts, or one block holds them (ALONE), of GROUPS each,
// KEYS of which a thread of the warps has that find the bound. HELD: a warp has a short row.
#include "common.cuh"
#include "elements.cuh"
#include "ptx_matrix.cuh"
#include "sort_keys.cuh"

struct rows {
    const ELEMENT *x;
    ELEMENT *y;   // NULL: not wanted
    i64 *indices; // NULL: not wanted
    u64 *keys;    // [rows][parts][GROUPS], SHARES by turns; behind them [rows][ROOM] of what has been gathered,
    u32 *words;   // [rows][2] how many that are, and how many parts have ended
    i64 rows, n, k, parts;
};

enum { RANKED = PARTS ? 512 : 256, WIDTH = 16 / sizeof(ELEMENT), AHEAD = PARTS ? 8 : 2 };

// The best has the largest key: the number's order above, below it what is larger for a lower index. -0 is 0, NaN the largest.
#if FLOATS
// Floats are compared as such where NaN does not matter.
typedef float number;
DEVICE u32 order_of_number(number v)
{
    const float x = v + 0.0f;
    const u32 bits = __float_as_uint(x), up = x != x ? ~0u : bits ^ ((u32)((int)bits >> 31) | 0x80000000u);
    return LARGEST ? up : ~up;
}
DEVICE number number_of(ELEMENT e) { return get<float, ELEMENT>(e); }
DEVICE bool is_better(number x, number y) { return LARGEST ? x > y : x < y; }
DEVICE number worst() { return __int_as_float(LARGEST ? 0xff800000 : 0x7f800000); }
DEVICE number better_of(number x, number y) { return LARGEST ? fmaxf(x, y) : fminf(x, y); } // not NaN
// NaN where one of them is.
DEVICE number better_or_nan(number x, number y)
{
#if __CUDA_ARCH__ >= 800
    float r;
    if (LARGEST)
        asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(x), "f"(y));
    else
        asm("min.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(x), "f"(y));
    return r;
#else
    return x != x || is_better(x, y) ? x : y;
#endif
}
DEVICE number number_of_order(u32 order)
{
    const u32 up = LARGEST ? order : ~order;
    return __uint_as_float(up & 0x80000000u ? up ^ 0x80000000u : ~up);
}
#else
typedef u32 number; // the order itself
DEVICE u32 order_of_number(number v) { return v; }
DEVICE number number_of(ELEMENT e)
{
    const u32 up = (u32)get<i64, ELEMENT>(e) ^ (UNSIGNED ? 0u : 0x80000000u);
    return LARGEST ? up : ~up;
}
DEVICE bool is_better(number x, number y) { return x > y; }
DEVICE number better_or_nan(number x, number y) { return x > y ? x : y; }
DEVICE number worst() { return 0; }
DEVICE number number_of_order(u32 order) { return order; }
#endif

DEVICE u32 order_of(ELEMENT e) { return order_of_number(number_of(e)); }
DEVICE u64 key_of(u32 order, i64 i) { return (u64)order << 32 | (0xffffffffu - (u32)i); }
DEVICE i64 index_of(u64 key) { return 0xffffffffu - (u32)key; }

// Elements [i, i + WIDTH) of a row, as far as there are any; `whole`: vectors of rows are aligned.
typedef run_of<ELEMENT, WIDTH> vector;
DEVICE void load_vector(const ELEMENT *x, int i, int end, bool whole, vector &v)
{
    if (whole)
        v.all = *(const uint4 *)(x + i);
    else
        v.all = load_shifted(x + i, 0, end - i < WIDTH ? (end - i) * (int)sizeof(ELEMENT) : 16);
}
DEVICE bool is_whole(const rows &a) { return a.n % WIDTH == 0 && (u64)a.x % 16 == 0; }

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

// Bits of the elements that are no worse than the bound, NaN among them; of the row's own alone.
DEVICE u32 taken_of(const vector *v, number bound, u32 have)
{
    u32 taken = 0;
#pragma unroll
    for (int j = 0; j < HELD; j++)
#pragma unroll
        for (int i = 0; i < WIDTH; i++)
            if (!is_better(bound, number_of(v[j].v[i])) && (j < HELD - 1 || i < have))
                taken |= 1u << (j * WIDTH + i);
    return taken;
}

// The k-th best of the best of all threads.
DEVICE number bound_of(const vector *v, u32 have, u32 k)
{
    number most = worst();
#pragma unroll
    for (int j = 0; j < HELD; j++)
#pragma unroll
        for (int i = 0; i < WIDTH; i++)
            if (j < HELD - 1 || i < have)
                most = better_of(most, number_of(v[j].v[i]));
    u32 order = order_of_number(most), bound = 0;
    for (u32 i = 0; i < k; i++) {
        bound = most_of(order);
        const u32 first = __ffs(__ballot_sync(~0u, order == bound)) - 1;
        order = threadIdx.x % 32 == first ? 0 : order;
    }
    return number_of_order(bound);
}

DEVICE void put(const rows &a, i64 row, u32 rank, u32 index)
{
    if (a.y)
        a.y[row * a.k + rank] = a.x[row * a.n + index];
    if (a.indices)
        a.indices[row * a.k + rank] = index;
}

// The best goes out k times: where many are no worse than the bound. 0: no element.
DEVICE void put_one_by_one(const rows &a, i64 row, const vector *v, u32 have)
{
    const u32 lane = threadIdx.x % 32;
    u32 gone = 0;
    for (u32 k = 0; k < a.k; k++) {
        u32 best = 0, at = 0;
#pragma unroll
        for (int j = 0; j < HELD * WIDTH; j++) {
            const bool here = (j / WIDTH < HELD - 1 || j % WIDTH < have) && !(gone >> j & 1);
            const u32 order = here ? order_of(v[j / WIDTH].v[j % WIDTH]) : 0;
            at = order > best ? j : at;
            best = order > best ? order : best;
        }
        const u32 index = (at / WIDTH * 32 + lane) * WIDTH + at % WIDTH; // of equals the lowest
        const u32 most = most_of(best), first = ~most_of(best == most ? ~index : 0);
        if (index == first && best == most) {
            gone |= 1u << at;
            put(a, row, k, index);
        }
    }
}

// A warp has a row: HELD vectors in each thread.
extern "C" __global__ void __launch_bounds__(THREADS) top_of_warps(const rows a)
{
    __shared__ u64 keys_of[THREADS / 32][32];
    const u32 lane = threadIdx.x % 32;
    u64 *keys = keys_of[threadIdx.x / 32];
    const bool whole = is_whole(a);
    const i64 step = (i64)gridDim.x * (THREADS / 32);
    for (i64 row = (i64)blockIdx.x * (THREADS / 32) + threadIdx.x / 32; row < a.rows; row += step) {
        const ELEMENT *x = a.x + row * a.n;
        const i64 left = a.n - (i64)((HELD - 1) * 32 + lane) * WIDTH;
        const u32 have = left < 0 ? 0 : left < WIDTH ? (u32)left : WIDTH; // of the last vector
        vector v[HELD];
#pragma unroll
        for (int j = 0; j < HELD; j++)
            if (j < HELD - 1 || have)
                load_vector(x, (j * 32 + (int)lane) * WIDTH, (int)a.n, whole, v[j]);
        u32 taken = taken_of(v, bound_of(v, have, (u32)a.k), have), upto = __popc(taken);
#pragma unroll
        for (int d = 1; d < 32; d *= 2) {
            const u32 low = __shfl_up_sync(~0u, upto, d);
            upto += lane >= d ? low : 0;
        }
        const u32 all = __shfl_sync(~0u, upto, 31);
        if (all > 32) {
            put_one_by_one(a, row, v, have);
            continue;
        }
        for (u32 to = upto - __popc(taken); taken; taken &= taken - 1, to++) {
            const u32 j = __ffs(taken) - 1, index = (j / WIDTH * 32 + lane) * WIDTH + j % WIDTH;
            keys[to] = key_of(order_of(x[index]), index);
        }
        __syncwarp();
        const u64 key = lane < all ? keys[lane] : 0;
        u32 rank = 0;
        for (u32 i = 0; i < all; i++)
            rank += keys[i] > key;
        if (lane < all && rank < a.k)
            put(a, row, rank, (u32)index_of(key));
        __syncwarp();
    }
}
#else
// The vectors of a row that a thread has: from `first` on, `step` apart.
struct span {
    i64 row;
    int first, step, end;
};
DEVICE span whole_row(const rows &a, i64 row) { return {row, (int)threadIdx.x * WIDTH, THREADS * WIDTH, (int)a.n}; }

// How many of n keys, an even number, are better.
DEVICE u32 rank_of(u64 key, const u64 *keys, u32 n)
{
    u32 better = 0;
#pragma unroll 8
    for (u32 i = 0; i < n; i += 2) {
        const ulonglong2 two = *(const ulonglong2 *)(keys + i);
        better += (two.x > key) + (two.y > key);
    }
    return better;
}

#if !PARTS
// The k-th of the best keys of groups of threads, 0: there are not so many. 0 is that of a thread that has met none.
DEVICE u64 bound_of(const rows &a, u64 key)
{
    __shared__ __align__(16) u64 best[GROUPS];
    __shared__ u64 least;
    const int each = THREADS / GROUPS;
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
    return least;
}
#endif

DEVICE void add_key(u64 key, u64 least, u64 *keys, u32 *count)
{
    if (key < least)
        return;
    const u32 to = atomicAdd(count, 1u);
    if (to < ROOM)
        keys[to] = key;
}

// AHEAD vectors of a thread, from i on.
struct batch {
    vector v[AHEAD];
};
DEVICE void load_batch(const ELEMENT *x, const span &s, int i, bool whole, batch &b)
{
#pragma unroll
    for (int u = 0; u < AHEAD; u++)
        if (i + u * s.step < s.end)
            load_vector(x, i + u * s.step, s.end, whole, b.v[u]);
}

// The best of a vector's elements, NaN where one of them is.
DEVICE number best_of(const vector &v)
{
    number best = number_of(v.v[0]);
#pragma unroll
    for (int j = 1; j < WIDTH; j++)
        best = better_or_nan(best, number_of(v.v[j]));
    return best;
}

// The elements of a vector that are no worse than the bound.
static __device__ __noinline__ void gather_vector(const vector v, int at, int end, u64 least, u64 *keys, u32 *count)
{
#pragma unroll
    for (int j = 0; j < WIDTH; j++)
        if (at + j < end)
            add_key(key_of(order_of(v.v[j]), at + j), least, keys, count);
}
DEVICE number bound_number(u64 least) { return least ? number_of_order((u32)(least >> 32)) : worst(); }

// The best that a thread has met, and the last index of the vector in which it is: a key of these is no better than its own.
// Vectors with NaN are passed over, and those at a row's end: any elements' keys are bounds.
struct champion {
    number most;
    int at;
};
DEVICE void meet(champion &c, const span &s, const batch &b, int i)
{
#pragma unroll
    for (int u = 0; u < AHEAD; u++) {
        const int last = i + u * s.step + WIDTH - 1;
        const number best = best_of(b.v[u]);
        const bool better = (is_better(best, c.most) || (c.at < 0 && best == best)) && last < s.end;
        c.most = better ? best : c.most;
        c.at = better ? last : c.at;
    }
}
DEVICE u64 key_of(const champion &c) { return c.at < 0 ? 0 : key_of(order_of_number(c.most), c.at); }

DEVICE void gather_batch(const span &s, const batch &b, int i, u64 least, u64 *keys, u32 *count)
{
    const number bound = bound_number(least);
#pragma unroll
    for (int u = 0; u < AHEAD; u++)
        if (i + u * s.step < s.end && !is_better(bound, best_of(b.v[u])))
            gather_vector(b.v[u], i + u * s.step, s.end, least, keys, count);
}

DEVICE void gather(const rows &a, const span &s, u64 least, u64 *keys, u32 *count)
{
    const ELEMENT *x = a.x + s.row * a.n;
    const bool whole = is_whole(a);
    for (int i = s.first; i < s.end; i += AHEAD * s.step) {
        batch b;
        load_batch(x, s, i, whole, b);
        gather_batch(s, b, i, least, keys, count);
    }
}

DEVICE u32 gather_again(const rows &a, const span &s, u64 least, u64 *keys, u32 *count)
{
    __syncthreads(); // `least` has been read
    if (threadIdx.x == 0)
        *count = 0;
    __syncthreads();
    gather(a, s, least, keys, count);
    __syncthreads();
    return *count;
}

DEVICE void put(const rows &a, i64 row, u32 rank, u64 key)
{
    const i64 to = row * a.k + rank, at = index_of(key);
    if (a.y)
        a.y[to] = a.x[row * a.n + at];
    if (a.indices)
        a.indices[to] = at;
}

// The first k of n keys.
DEVICE void put_first(const rows &a, i64 row, u64 *keys, u32 n)
{
    if (n <= RANKED) {
        if (threadIdx.x == 0)
            keys[n] = 0; // an even number
        __syncthreads();
        for (u32 i = threadIdx.x; i < n; i += THREADS) {
            const u32 rank = rank_of(keys[i], keys, (n + 1) & ~1u);
            if (rank < a.k)
                put(a, row, rank, keys[i]);
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
        put(a, row, i, keys[all - 1 - i]);
}

// n keys were found; of those that there was no room for, the k-th of the others is no better than the k-th of all.
DEVICE void finish(const rows &a, i64 row, u64 *keys, u32 n, u32 *count)
{
    while (n > ROOM) {
        sort_keys(keys, ROOM);
        n = gather_again(a, whole_row(a, row), keys[ROOM - (u32)a.k], keys, count);
    }
    put_first(a, row, keys, n);
}

#if PARTS
// ---- Rows in parts ---------------------------------------------------------------------------------

enum { SHARES = 8 }; // of the keys of a row: warps that look for the bound

// Vectors are dealt out to the warps of all parts, 32 at a time, so that neighbours are of different groups.
DEVICE span part_of_row(const rows &a, i64 row, int part)
{
    const int turn = (int)(threadIdx.x / 32) * (int)a.parts + part, lane = threadIdx.x % 32;
    return {row, (turn * 32 + lane) * WIDTH, (int)a.parts * THREADS * WIDTH, (int)a.n};
}
DEVICE int batches_of(const span &s) { return (s.end + AHEAD * s.step - 1) / (AHEAD * s.step); }
DEVICE int batch_at(const span &s, int i) { return s.first + i * AHEAD * s.step; }

// All vectors; the last batch stays.
DEVICE u64 champion_of(const rows &a, const span &s, batch &b)
{
    champion c;
    c.most = worst();
    c.at = -1;
    for (int i = 0; i < batches_of(s); i++) {
        load_batch(a.x + s.row * a.n, s, batch_at(s, i), is_whole(a), b);
        meet(c, s, b, batch_at(s, i));
    }
    return key_of(c);
}

// Keys of a row: shares of them lie side by side. `told` is of the row.
DEVICE void tell_groups(const rows &a, u64 key, int part, u64 *told)
{
    __shared__ u64 best[THREADS];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, share = (int)a.parts * GROUPS / SHARES;
#pragma unroll
    for (int d = 16; d >= (GROUPS < 32 ? GROUPS : 32); d /= 2) {
        const u64 other = __shfl_xor_sync(~0u, key, d);
        key = other > key ? other : key;
    }
    best[threadIdx.x] = key;
    __syncthreads();
    if (threadIdx.x >= GROUPS)
        return;
    const int apart = GROUPS < 32 ? 1 : GROUPS / 32; // warps of the same groups
#pragma unroll 4
    for (int w = warp + apart; w < THREADS / 32; w += apart)
        key = best[w * 32 + lane] > key ? best[w * 32 + lane] : key;
    const int at = threadIdx.x * (int)a.parts + part;
    told[at % SHARES * share + at / SHARES] = key;
}

// The k-th of a warp's keys, or less: as many as k, and a few more at most, are no less. 0: there are not so many.
DEVICE u64 bound_of_share(const u64 (&key)[KEYS], u32 k)
{
    u64 bound = 0;
#pragma unroll 1
    for (int bit = 63; bit >= 0; bit--) {
        const u64 higher = bound | 1ull << bit;
        u32 n = 0;
#pragma unroll
        for (int i = 0; i < KEYS; i++)
            n += __popc(__ballot_sync(~0u, key[i] >= higher));
        bound = n >= k ? higher : bound;
        if (n >= k && n - k <= (k + 7) / 8)
            break;
    }
    return bound;
}

// What is no better than the k-th of all keys: the least of bounds of shares.
DEVICE u64 bound_of(const rows &a, const u64 *told)
{
    __shared__ u64 bounds[SHARES];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, share = (int)a.parts * GROUPS / SHARES;
    if (warp < SHARES) {
        u64 key[KEYS];
#pragma unroll
        for (int i = 0; i < KEYS; i++)
            key[i] = i * 32 + lane < share ? told[warp * share + i * 32 + lane] : 0;
        const u64 bound = bound_of_share(key, ((u32)a.k + SHARES - 1) / SHARES);
        if (lane == 0)
            bounds[warp] = bound;
    }
    __syncthreads();
    u64 least = bounds[0];
#pragma unroll
    for (int i = 1; i < SHARES; i++)
        least = bounds[i] < least ? bounds[i] : least;
    return least;
}

// Groups' best of a part; what the next launch counts with is 0 before.
extern "C" __global__ void __launch_bounds__(THREADS, 1) top_champions(const rows a)
{
    const i64 row = blockIdx.x / a.parts;
    const int part = (int)(blockIdx.x - row * a.parts);
    batch b;
    const u64 key = champion_of(a, part_of_row(a, row, part), b);
    if (part == 0 && threadIdx.x < 2)
        a.words[row * 2 + threadIdx.x] = 0;
    tell_groups(a, key, part, a.keys + row * a.parts * GROUPS);
}

// A part's n keys join those of the row: is it the last that does so?
DEVICE bool hand_over(const rows &a, i64 row, const u64 *keys, u32 n, u64 *all)
{
    __shared__ u32 at, ended;
    if (threadIdx.x == 0)
        at = atomicAdd(a.words + row * 2, n);
    __syncthreads();
    for (u32 i = threadIdx.x; i < n && i < ROOM && at + i < ROOM; i += THREADS)
        all[at + i] = keys[i];
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0)
        ended = atomicAdd(a.words + row * 2 + 1, 1u);
    __syncthreads();
    __threadfence();
    return ended + 1 == (u32)a.parts;
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) top_parts(const rows a)
{
    __shared__ __align__(16) u64 keys[ROOM + 2];
    __shared__ u32 count;
    const i64 row = blockIdx.x / a.parts;
    const int part = (int)(blockIdx.x - row * a.parts);
    const span s = part_of_row(a, row, part);
    const ELEMENT *x = a.x + row * a.n;
    int i = batches_of(s) - 1;
    batch b;
    if (threadIdx.x == 0)
        count = 0;
#if ALONE
    u64 *told = keys; // of groups
    tell_groups(a, champion_of(a, s, b), part, told);
    __syncthreads();
#else
    const u64 *told = a.keys + row * a.parts * GROUPS;
    load_batch(x, s, batch_at(s, i), is_whole(a), b);
    wait_for_predecessor();
#endif
    const u64 least = bound_of(a, told);
    gather_batch(s, b, batch_at(s, i), least, keys, &count);
    while (--i >= 0) {
        load_batch(x, s, batch_at(s, i), is_whole(a), b);
        gather_batch(s, b, batch_at(s, i), least, keys, &count);
    }
    __syncthreads();
    u32 n = count;
#if !ALONE
    u64 *all = a.keys + a.rows * a.parts * GROUPS + row * ROOM;
    if (!hand_over(a, row, keys, n, all))
        return;
    n = *(volatile u32 *)(a.words + row * 2);
    for (u32 j = threadIdx.x; j < n && j < ROOM; j += THREADS)
        keys[j] = *(volatile u64 *)(all + j);
    __syncthreads();
#endif
    finish(a, row, keys, n, &count);
}
#else
// ---- A block has a row ------------------------------------------------------------------------------

// Vectors in which one is no worse than the bound: where they are.
DEVICE void note_batch(const span &s, int i, const batch &b, u64 least, int *noted, u32 *count)
{
    const number bound = bound_number(least);
#pragma unroll
    for (int u = 0; u < AHEAD; u++) {
        const int at = i + u * s.step;
        if (is_better(bound, best_of(b.v[u])) || at >= s.end)
            continue;
        const u32 to = atomicAdd(count, 1u);
        if (to < ROOM)
            noted[to] = at;
    }
}

// The bound is found first when one in PREFIX of the row has been met, which is then read again, from the caches.
enum { PREFIX = 8 };
DEVICE u64 first_bound(const rows &a, const span &s, int *noted, u32 *count)
{
    const ELEMENT *x = a.x + s.row * a.n;
    const bool whole = is_whole(a);
    const int span_of_batch = AHEAD * s.step;
    champion c;
    c.most = worst();
    c.at = -1;
    batch b;
    int first = 0, prefix = 0;
    do {
        load_batch(x, s, s.first + prefix, whole, b);
        meet(c, s, b, s.first + prefix);
        prefix += span_of_batch;
    } while (prefix < s.end / PREFIX);
    u64 least = bound_of(a, key_of(c));
    bool last = true; // no more was met after the bound was found
    int next = prefix > s.end / 4 ? s.end : 4 * prefix; // where it is found anew
    if (prefix > span_of_batch)
        load_batch(x, s, s.first, whole, b);
    for (int i = s.first; first < s.end; first += span_of_batch, i += span_of_batch) {
        batch behind;
        load_batch(x, s, i + span_of_batch, whole, behind);
        if (first >= prefix) {
            meet(c, s, b, i);
            last = first >= next;
        }
        if (first >= next) {
            least = bound_of(a, key_of(c));
            next = first > s.end / 4 ? s.end : 4 * first;
        }
        note_batch(s, i, b, least, noted, count);
        b = behind;
    }
    if (!last)
        return bound_of(a, key_of(c));
    __syncthreads(); // all have noted theirs
    return least;
}

// Those of the vectors that were noted.
DEVICE void gather_noted(const rows &a, const span &s, u64 least, const int *noted, u32 n, u64 *keys, u32 *count)
{
    const ELEMENT *x = a.x + s.row * a.n;
    for (u32 i = threadIdx.x; i < n; i += THREADS) {
        vector v;
        load_vector(x, noted[i], s.end, is_whole(a), v);
        gather_vector(v, noted[i], s.end, least, keys, count);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, THREADS > 512 ? 1 : 1024 / THREADS) top(const rows a)
{
    __shared__ __align__(16) u64 keys[ROOM + 2];
    __shared__ int noted[ROOM];
    __shared__ u32 count, n_noted;
    for (i64 row = blockIdx.x; row < a.rows; row += gridDim.x) {
        const span s = whole_row(a, row);
        __syncthreads(); // what was there has been read
        if (threadIdx.x == 0)
            count = n_noted = 0; // seen by all when they find the bound
        const u64 least = first_bound(a, s, noted, &n_noted);
        u32 n;
        if (n_noted <= ROOM) {
            gather_noted(a, s, least, noted, n_noted, keys, &count);
            __syncthreads();
            n = count;
        } else {
            n = gather_again(a, s, least, keys, &count);
        }
        finish(a, row, keys, n, &count);
    }
}
#endif
#endif
