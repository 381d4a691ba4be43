// running.cu -- running sums or products along the middle one of three axes, each element read once and written once.
// SPDX-License-Identifier: Apache-2.0
//
// Blocks hold a chunk of a row, or of rows side by side, in registers. Where rows have several (PARTS), a block tells its
// chunk's sum, waits for those before it, which are at work already since blocks take chunks in order, and adds these
// up, always in the same order. A warp goes along its short row and carries the sum on.
//
// Sums stand for products too. Generated before this: ELEMENT; SUM (what is added up in), PRODUCT, WARPS (for each row, 1, 8
// or 16), EXCLUSIVE, REVERSE, PARTS, SIDE_BYTES (of columns, that a thread has); EARLY: the chunk that a block takes next comes towards the
// cache while it waits for others.
#include "common.cuh"
#include "elements.cuh"
#include "ptx_matrix.cuh"

struct rows {
    const ELEMENT *x;
    ELEMENT *y;
    i64 outer, n, inner;
    i64 parts;        // chunks of a row
    u64 *taken;       // how many chunks have begun
    ulonglong2 *sums; // of chunks, and whether they have been told
};

// Two sums as one, and the sum of nothing.
DEVICE SUM join(SUM a, SUM b) { return PRODUCT ? a * b : a + b; }
#define NOTHING ((SUM)PRODUCT)

enum { BLOCK_WARPS = WARPS == 16 ? 16 : 8, THREADS = 32 * BLOCK_WARPS };

// Numbers are made of what is held twice, not kept: `none`, which is 0, hides from the compiler that it is the same.
DEVICE void forget(u16 &v, u32 none) { v ^= (u16)none; }
DEVICE void forget(u32 &v, u32 none) { v ^= none; }
DEVICE void forget(uint2 &v, u32 none)
{
    v.x ^= none;
    v.y ^= none;
}
DEVICE void forget(uint4 &v, u32 none)
{
    v.x ^= none;
    v.y ^= none;
    v.z ^= none;
    v.w ^= none;
}
DEVICE u32 none_of(const rows &a) { return (u32)(a.parts >> 32); } // fewer than 2^31

// The next chunk of all. The one behind it is asked for at once: none waits for chunks but those before its own, so that the
// first that is not done is always being worked on.
struct queue {
    u64 pending; // of the first thread
};
// What all threads see of it after the next barrier.
DEVICE u64 &behind()
{
    __shared__ u64 chunk;
    return chunk;
}
DEVICE i64 take(const rows &a, queue &q, i64 before)
{
    if (!PARTS)
        return before < 0 ? (i64)blockIdx.x : before + gridDim.x;
    __shared__ u64 next;
    __syncthreads(); // the one before has been read
    if (threadIdx.x == 0)
        next = before < 0 ? atomicAdd(a.taken, 1ull) : q.pending;
    __syncthreads();
    if (threadIdx.x == 0)
        behind() = q.pending = atomicAdd(a.taken, 1ull);
    return (i64)next;
}

// `lines` runs of `bytes`, `apart` from each other, from `from` on, set out towards the cache.
DEVICE void fetch_lines(const ELEMENT *from, int lines, i64 apart, int bytes)
{
    const int of_line = (bytes + 127) / 128;
    for (int i = threadIdx.x; i < lines * of_line; i += THREADS)
        prefetch((const char *)(from + i / of_line * apart) + i % of_line * 128);
}

DEVICE u64 bits_of(double v) { return (u64)__double_as_longlong(v); }
DEVICE u64 bits_of(float v) { return __float_as_uint(v); }
DEVICE u64 bits_of(u64 v) { return v; }
DEVICE void set_bits(double &to, u64 bits) { to = __longlong_as_double((i64)bits); }
DEVICE void set_bits(float &to, u64 bits) { to = __uint_as_float((u32)bits); }
DEVICE void set_bits(u64 &to, u64 bits) { to = bits; }

// A sum and the word that says so are one write, and one read.
DEVICE void tell(ulonglong2 *to, SUM sum)
{
    asm volatile("st.volatile.global.v2.u64 [%0], {%1, %2};" ::"l"(to), "l"(bits_of(sum)), "l"(1ull)
                 : "memory");
}
DEVICE ulonglong2 ask(const ulonglong2 *from)
{
    ulonglong2 v;
    asm volatile("ld.volatile.global.v2.u64 {%0, %1}, [%2];"
                 : "=l"(v.x), "=l"(v.y)
                 : "l"(from)
                 : "memory");
    return v;
}

// The sum of those at `from`, `step` apart, `n` of them, in this order, two asked for at once.
DEVICE SUM sum_of_told(const ulonglong2 *from, i64 step, int n)
{
    const int many = 2;
    SUM sum = NOTHING;
    for (int i = 0; i < n; i += many) {
        ulonglong2 v[many];
#pragma unroll
        for (int j = 0; j < many; j++)
            if (i + j < n)
                v[j] = ask(from + (i + j) * step);
#pragma unroll
        for (int j = 0; j < many; j++)
            if (i + j < n) {
                while (v[j].y == 0)
                    v[j] = ask(from + (i + j) * step);
                SUM told;
                set_bits(told, v[j].x);
                sum = join(sum, told);
            }
    }
    return sum;
}

// ---- Rows whose elements are adjacent ----------------------------------------------------------

enum { WIDTH = 16 / sizeof(ELEMENT), HELD = 4, CHUNK = WARPS * 32 * WIDTH * HELD };

// WIDTH elements as they lie in memory, from `at` on in the order of the sums; those beyond the row's end count as nothing.
typedef run_of<ELEMENT, WIDTH> few;
DEVICE void load_few(const rows &a, i64 base, i64 at, bool whole, few &to)
{
    if (whole && at < a.n) {
        to.all = *(const decltype(to.all) *)(a.x + base + (REVERSE ? a.n - WIDTH - at : at));
        return;
    }
#pragma unroll
    for (int i = 0; i < WIDTH; i++)
        to.v[REVERSE ? WIDTH - 1 - i : i] = at + i < a.n ? a.x[base + (REVERSE ? a.n - 1 - at - i : at + i)]
                             : element<ELEMENT>::put(NOTHING);
}
DEVICE void store_few(const rows &a, i64 base, i64 at, bool whole, const few &from)
{
    if (whole && at < a.n) {
        *(decltype(from.all) *)(a.y + base + (REVERSE ? a.n - WIDTH - at : at)) = from.all;
        return;
    }
#pragma unroll
    for (int i = 0; i < WIDTH; i++)
        if (at + i < a.n)
            a.y[base + (REVERSE ? a.n - 1 - at - i : at + i)] = from.v[REVERSE ? WIDTH - 1 - i : i];
}

// Sums of the warps of a row before this one, and of all of them.
DEVICE SUM over_warps(SUM sum, SUM &all)
{
    __shared__ SUM of_warp[BLOCK_WARPS];
    SUM before = NOTHING;
    if (WARPS == 1) {
        all = sum;
        return NOTHING;
    }
    __syncthreads(); // what was there has been read
    if (threadIdx.x % 32 == 0)
        of_warp[threadIdx.x / 32] = sum;
    __syncthreads();
    all = NOTHING;
#pragma unroll
    for (int w = 0; w < BLOCK_WARPS; w++) {
        before = join(before, w < threadIdx.x / 32 ? of_warp[w] : NOTHING);
        all = join(all, of_warp[w]);
    }
    return before;
}

// The sum of the parts before one, which all threads ask for.
DEVICE SUM sum_of_parts(const rows &a, i64 row, int part)
{
    __shared__ SUM of_warp[BLOCK_WARPS];
    const int n = part > threadIdx.x ? (part - threadIdx.x + THREADS - 1) / THREADS : 0;
    if (part == 0)
        return NOTHING;
    SUM sum = sum_of_told(a.sums + row * a.parts + threadIdx.x, THREADS, n);
#pragma unroll
    for (int d = 16; d > 0; d /= 2)
        sum = join(sum, __shfl_xor_sync(~0u, sum, d));
    if (threadIdx.x % 32 == 0)
        of_warp[threadIdx.x / 32] = sum; // read by all before the next chunk is taken
    __syncthreads();
    sum = NOTHING;
#pragma unroll
    for (int w = 0; w < BLOCK_WARPS; w++)
        sum = join(sum, of_warp[w]);
    return sum;
}

// The chunk behind this one.
DEVICE void fetch_behind(const rows &a)
{
    const u64 next = behind();
    if (!PARTS || !EARLY || next >= (u64)(a.outer * a.parts))
        return;
    const i64 row = (i64)next % a.outer, first = (i64)next / a.outer * CHUNK;
    const i64 n = a.n - first < CHUNK ? a.n - first : CHUNK;
    fetch_lines(a.x + row * a.n + (REVERSE ? a.n - first - n : first), 1, 0, (int)(n * sizeof(ELEMENT)));
}

// A chunk from `first` on: the sum of what came before goes in, that of all comes back.
DEVICE SUM run_chunk(const rows &a, i64 row, i64 first, bool inside, bool whole, SUM carry)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % WARPS;
    const i64 base = row * a.n, at = first + (warp * HELD * 32 + lane) * WIDTH;
    few v[HELD];
    SUM before[HELD], sum = NOTHING, all;
#pragma unroll
    for (int k = 0; k < HELD; k++)
        load_few(a, base, at + k * 32 * WIDTH, whole, v[k]);
#pragma unroll
    for (int k = 0; k < HELD; k++) {
        SUM up = NOTHING; // of the threads up to this one
#pragma unroll
        for (int i = 0; i < WIDTH; i++)
            up = join(up, get<SUM, ELEMENT>(v[k].v[REVERSE ? WIDTH - 1 - i : i]));
        forget(v[k].all, none_of(a));
#pragma unroll
        for (int d = 1; d < 32; d *= 2) {
            SUM low = __shfl_up_sync(~0u, up, d);
            up = join(up, lane >= d ? low : NOTHING);
        }
        before[k] = __shfl_up_sync(~0u, up, 1);
        before[k] = join(lane ? before[k] : NOTHING, sum);
        sum = join(sum, __shfl_sync(~0u, up, 31));
    }
    const SUM here = over_warps(sum, all);
    if (PARTS) {
        if (threadIdx.x == 0)
            tell(a.sums + row * a.parts + first / CHUNK, all);
        fetch_behind(a);
        carry = sum_of_parts(a, row, (int)(first / CHUNK));
    }
#pragma unroll
    for (int k = 0; k < HELD && inside; k++) {
        SUM run = join(join(carry, here), before[k]);
#pragma unroll
        for (int i = 0; i < WIDTH; i++) {
            ELEMENT &e = v[k].v[REVERSE ? WIDTH - 1 - i : i];
            const SUM next = join(run, get<SUM, ELEMENT>(e));
            e = element<ELEMENT>::put(EXCLUSIVE ? run : next);
            run = next;
        }
        store_few(a, base, at + k * 32 * WIDTH, whole, v[k]);
    }
    return join(carry, all);
}

extern "C" __global__ void __launch_bounds__(THREADS, 1024 / THREADS) running_rows(const rows a)
{
    const bool whole = a.n % WIDTH == 0 && ((u64)a.x | (u64)a.y) % 16 == 0;
    const i64 rows_here = BLOCK_WARPS / WARPS, units = (a.outer + rows_here - 1) / rows_here;
    queue q;
    for (i64 u = take(a, q, -1); u < units * a.parts; u = take(a, q, u)) {
        const i64 part = u / units, row = u % units * rows_here + threadIdx.x / (32 * WARPS);
        const bool inside = row < a.outer;
        SUM carry = NOTHING;
        if (WARPS > 1)
            run_chunk(a, row, part * CHUNK, inside, whole, carry);
        for (i64 first = 0; WARPS == 1 && first < a.n; first += CHUNK)
            carry = run_chunk(a, inside ? row : 0, first, inside, whole, carry);
    }
}

// ---- Rows side by side: a column of elements each ----------------------------------------------

enum { SIDE = SIDE_BYTES / sizeof(ELEMENT), DEEP = 128 / SIDE_BYTES };
enum { DEPTH = BLOCK_WARPS * DEEP };

// N columns of a thread; `to` and `from` are apart by a row of them.
template <int N>
DEVICE void load_columns(const rows &a, i64 base, i64 first, bool inside, run_of<ELEMENT, N> *to)
{
#pragma unroll
    for (int r = 0; r < DEEP; r++) {
        const i64 at = first + r;
#pragma unroll
        for (int j = 0; j < N; j++)
            to[r].v[j] = element<ELEMENT>::put(NOTHING);
        if (inside && at < a.n)
            to[r].all = *(const decltype(to[r].all) *)(a.x + base + (REVERSE ? a.n - 1 - at : at) * a.inner);
    }
}

// The chunk behind this one.
template <int N> DEVICE void fetch_columns_behind(const rows &a, i64 units)
{
    const u64 next = behind();
    if (!EARLY || next >= (u64)(units * a.parts))
        return;
    const i64 part = (i64)next / units, column = ((i64)next - part * units) * 32 * N, outer = column / a.inner;
    const i64 first = part * DEPTH, n = a.n - first < DEPTH ? a.n - first : DEPTH;
    fetch_lines(a.x + (outer * a.n + (REVERSE ? a.n - first - n : first)) * a.inner + (column - outer * a.inner), (int)n, a.inner,
                32 * N * (int)sizeof(ELEMENT));
}

// Sums of the columns before this warp's elements, those of the parts before included.
template <int N>
DEVICE void columns_before(const rows &a, i64 unit, i64 units, i64 part, const SUM *sum, SUM *before)
{
    SUM all[N];
    __shared__ SUM held[BLOCK_WARPS][32 * SIDE];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    __syncthreads(); // what was there has been read
#pragma unroll
    for (int j = 0; j < N; j++)
        held[warp][lane * N + j] = sum[j];
    __syncthreads();
#pragma unroll
    for (int j = 0; j < N; j++) {
        before[j] = all[j] = NOTHING;
#pragma unroll
        for (int w = 0; w < BLOCK_WARPS; w++) {
            before[j] = join(before[j], w < warp ? held[w][lane * N + j] : NOTHING);
            all[j] = join(all[j], held[w][lane * N + j]);
        }
    }
    if (!PARTS)
        return;
    const i64 places = units * 32 * N, place = (unit * 32 + lane) * N;
    SUM earlier[N];
#pragma unroll
    for (int j = 0; j < N; j++) {
        if (warp == 0)
            tell(a.sums + part * places + place + j, all[j]);
    }
    fetch_columns_behind<N>(a, units);
    const int n = part > warp ? (int)(part - warp + BLOCK_WARPS - 1) / BLOCK_WARPS : 0;
#pragma unroll
    for (int j = 0; j < N; j++)
        earlier[j] = sum_of_told(a.sums + warp * places + place + j, BLOCK_WARPS * places, n);
    __syncthreads(); // what is held has been read
#pragma unroll
    for (int j = 0; j < N; j++)
        held[warp][lane * N + j] = earlier[j];
    __syncthreads();
#pragma unroll
    for (int j = 0; j < N; j++) {
        SUM parts = NOTHING;
#pragma unroll
        for (int w = 0; w < BLOCK_WARPS; w++)
            parts = join(parts, held[w][lane * N + j]);
        before[j] = join(before[j], parts);
    }
}

// A chunk of the columns of a unit.
template <int N> DEVICE void run_columns(const rows &a, i64 unit, i64 units, i64 part)
{
    const i64 column = (unit * 32 + threadIdx.x % 32) * N, outer = column / a.inner;
    const i64 base = outer * a.n * a.inner + (column - outer * a.inner);
    const i64 first = part * DEPTH + threadIdx.x / 32 * DEEP;
    const bool inside = column < a.outer * a.inner;
    run_of<ELEMENT, N> v[DEEP];
    SUM sum[N], run[N];
    load_columns<N>(a, base, first, inside, v);
#pragma unroll
    for (int j = 0; j < N; j++) {
        sum[j] = NOTHING;
#pragma unroll
        for (int r = 0; r < DEEP; r++)
            sum[j] = join(sum[j], get<SUM, ELEMENT>(v[r].v[j]));
    }
#pragma unroll
    for (int r = 0; r < DEEP; r++)
        forget(v[r].all, none_of(a));
    columns_before<N>(a, unit, units, part, sum, run);
#pragma unroll
    for (int r = 0; r < DEEP; r++) {
        const i64 at = first + r;
        if (!inside || at >= a.n)
            break;
#pragma unroll
        for (int j = 0; j < N; j++) {
            const SUM next = join(run[j], get<SUM, ELEMENT>(v[r].v[j]));
            v[r].v[j] = element<ELEMENT>::put(EXCLUSIVE ? run[j] : next);
            run[j] = next;
        }
        *(decltype(v[r].all) *)(a.y + base + (REVERSE ? a.n - 1 - at : at) * a.inner) = v[r].all;
    }
}

template <int N> DEVICE void all_columns(const rows &a)
{
    const i64 units = (a.outer * a.inner / N + 31) / 32;
    queue q;
    for (i64 u = take(a, q, -1); u < units * a.parts; u = take(a, q, u)) {
        const i64 part = PARTS ? u / units : 0;
        run_columns<N>(a, u - part * units, units, part);
    }
}

// N of the columns of a thread are read at once where they are aligned; there is room for the others too.
extern "C" __global__ void __launch_bounds__(THREADS, 3) running_columns(const rows a)
{
    if (SIDE > 1 && a.inner % SIDE == 0 && ((u64)a.x | (u64)a.y) % (SIDE * sizeof(ELEMENT)) == 0)
        all_columns<SIDE>(a);
    else
        all_columns<1>(a);
}
