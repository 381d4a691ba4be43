// pick.cu -- as many as data tell: the places of what is not 0, or the slices that truths name, in order.
// SPDX-License-Identifier: Apache-2.0
//
// Each block has a run of elements. They are counted; then each block adds up the counts of those before it and writes. A
// warp takes 32 elements at once: the order of results is that of elements, whatever the order of threads.
// Generated before this: WORD (an element that is asked), PICKS(v), RANK and dims of places, or SLICES with ELEMENT (what
// slices are made of) and WIDE (more than 32 bits number them).
#include "common.cuh"

struct pair {
    u64 a, b;
};

struct arguments {
    const WORD *asked;
    i64 *places;
    const void *x; // SLICES
    void *y;
    i64 *count; // for the host, NULL: it does not ask
    u32 *fault;
    u32 *total, *found; // found: per block
    u32 *list;          // SLICES: those that are named
    i64 outer, inner;
    u32 fault_code;
    u32 n, length; // length: elements from there on may not pick
    u32 each;      // elements of a block
    u32 dims[RANK + 1];
};

enum { THREADS = 256, ROWS = 8, WARP_RUN = 32 * ROWS, TILE = THREADS * ROWS };

DEVICE bool picks(const arguments &a, u32 i)
{
    const WORD v = a.asked[i];
    if (!PICKS(v))
        return false;
    if (i < a.length)
        return true;
    atomicCAS(a.fault, 0u, a.fault_code);
    return false;
}

// The sum over the block, for all of its threads.
DEVICE u32 sum_of_block(u32 v)
{
    __shared__ u32 of_warp[THREADS / 32];
#pragma unroll
    for (int d = 16; d; d /= 2)
        v += __shfl_xor_sync(~0u, v, d);
    __syncthreads(); // what was there has been read
    if (threadIdx.x % 32 == 0)
        of_warp[threadIdx.x / 32] = v;
    __syncthreads();
    u32 sum = 0;
#pragma unroll
    for (int w = 0; w < THREADS / 32; w++)
        sum += of_warp[w];
    return sum;
}

DEVICE u32 count_run(const arguments &a, u32 first, u32 end)
{
    u32 n = 0;
    for (u32 i = first + threadIdx.x; i < end; i += THREADS)
        n += picks(a, i);
    return sum_of_block(n);
}

DEVICE u32 end_of(const arguments &a, u32 first)
{
    return a.n - first < a.each ? a.n : first + a.each;
}

extern "C" __global__ void __launch_bounds__(THREADS) pick_count(const __grid_constant__ arguments a)
{
    const u32 first = blockIdx.x * a.each, n = count_run(a, first, end_of(a, first));
    if (threadIdx.x == 0)
        a.found[blockIdx.x] = n;
}

DEVICE void put(const arguments &a, u32 at, u32 i, u32 total)
{
#ifdef SLICES
    a.list[at] = i;
#else
    u32 rest = i;
#pragma unroll
    for (int d = RANK - 1; d >= 0; d--) {
        const u32 q = d ? rest / a.dims[d] : 0;
        a.places[(u64)d * total + at] = rest - q * a.dims[d];
        rest = q;
    }
#endif
}

// How many come before this block's, and how many there are. One block alone counts here.
DEVICE u32 before_block(const arguments &a, u32 &total)
{
    u32 before = 0, all = 0;
    if (gridDim.x == 1) {
        total = count_run(a, 0, a.n);
        return 0;
    }
    for (u32 b = threadIdx.x; b < gridDim.x; b += THREADS) {
        const u32 n = a.found[b];
        before += b < blockIdx.x ? n : 0;
        all += n;
    }
    total = sum_of_block(all);
    return sum_of_block(before);
}

extern "C" __global__ void __launch_bounds__(THREADS) pick_write(const __grid_constant__ arguments a)
{
    __shared__ u32 of_warp[THREADS / 32];
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const u32 first = blockIdx.x * a.each, end = end_of(a, first);
    u32 total, before = before_block(a, total);
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        *a.total = total;
        if (a.count)
            *a.count = total;
    }
    for (u32 tile = first; tile < end; tile += TILE) {
        const u32 from = tile + warp * WARP_RUN + lane;
        u32 masks[ROWS], mine = 0;
#pragma unroll
        for (int k = 0; k < ROWS; k++) {
            const u32 i = from + 32 * k;
            masks[k] = __ballot_sync(~0u, i < end && picks(a, i));
            mine += __popc(masks[k]);
        }
        __syncthreads(); // the counts of the tile before have been read
        if (lane == 0)
            of_warp[warp] = mine;
        __syncthreads();
        u32 at = before;
#pragma unroll
        for (int w = 0; w < THREADS / 32; w++) {
            at += w < warp ? of_warp[w] : 0;
            before += of_warp[w];
        }
#pragma unroll
        for (int k = 0; k < ROWS; k++) {
            if (masks[k] >> lane & 1)
                put(a, at + __popc(masks[k] & ((1u << lane) - 1)), from + 32 * k, total);
            at += __popc(masks[k]);
        }
    }
}

#ifdef SLICES
#if WIDE
typedef u64 place;
#else
typedef u32 place;
#endif

extern "C" __global__ void __launch_bounds__(THREADS) pick_slices(const __grid_constant__ arguments a)
{
    const place inner = (place)a.inner, total = *a.total, n = (place)a.outer * total * inner;
    const u64 step = (u64)gridDim.x * THREADS;
    for (u64 at = (u64)blockIdx.x * THREADS + threadIdx.x; at < n; at += step) {
        const place i = (place)at, row = i / inner, outer = row / total;
        const u64 from = (u64)outer * a.length + a.list[row - outer * total];
        ((ELEMENT *)a.y)[i] = ((const ELEMENT *)a.x)[from * inner + (i - row * inner)];
    }
}
#endif
