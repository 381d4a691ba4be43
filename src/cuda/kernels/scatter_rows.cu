// scatter_rows.cu -- updates along rows: a block keeps one in shared memory, and who came last at each of its places.
// SPDX-License-Identifier: Apache-2.0
//
// Generated before this: ELEMENT (plain words), INDEX (i32 or i64), THREADS, PER (updates of a thread are PER runs of SIDE), SIDE, WORD (what rows
// are copied by), BLOCKS (on a multiprocessor).
#include "common.cuh"
#include "elements.cuh"

struct arguments {
    const char *data;
    const INDEX *indices;
    const ELEMENT *updates;
    char *to;
    u32 *fault;
    u32 fault_code, not_read;
    i64 rows, n, m; // elements of a row, updates of one
};

enum { NOWHERE = 0xffffffffu };

extern __shared__ uint4 shared[]; // numbers of updates, from 1 on; elements

template <class T> struct alignas(SIDE * sizeof(T) <= 16 ? SIDE * sizeof(T) : 16) few {
    T v[SIDE];
};

DEVICE u32 slot_of(const arguments &a, i64 at)
{
    at += at < 0 ? a.n : 0;
    return (u64)at < (u64)a.n ? (u32)at : (u32)NOWHERE;
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) scatter_rows(const __grid_constant__ arguments a)
{
    const u32 n = (u32)a.n, m = (u32)a.m, words = n * (u32)sizeof(ELEMENT) / (u32)sizeof(WORD);
    u32 *last = (u32 *)shared;
    ELEMENT *row = (ELEMENT *)(shared + (n + 3) / 4);
    for (i64 r = blockIdx.x; r < a.rows; r += gridDim.x) {
        const few<INDEX> *indices = (const few<INDEX> *)(a.indices + r * m);
        const few<ELEMENT> *updates = (const few<ELEMENT> *)(a.updates + r * m);
        few<ELEMENT> values[PER];
        u32 slots[PER][SIDE];
        bool all_there = true;
#pragma unroll
        for (int k = 0; k < PER; k++) {
            const u32 i = k * THREADS + threadIdx.x;
            if (i * SIDE < m) {
                const few<INDEX> places = indices[i];
                values[k] = updates[i];
#pragma unroll
                for (int j = 0; j < SIDE; j++) {
                    slots[k][j] = slot_of(a, (i64)places.v[j]);
                    all_there = all_there && slots[k][j] != NOWHERE;
                }
            } else {
#pragma unroll
                for (int j = 0; j < SIDE; j++)
                    slots[k][j] = NOWHERE;
            }
        }
        if (!all_there)
            atomicCAS(a.fault, 0u, a.fault_code);
        const WORD *from = (const WORD *)(a.data + r * n * sizeof(ELEMENT));
#pragma unroll 4
        for (u32 i = threadIdx.x; i < words; i += THREADS)
            ((WORD *)row)[i] = from[i];
        for (u32 i = threadIdx.x; i < (n + 3) / 4; i += THREADS)
            shared[i] = make_uint4(0, 0, 0, 0);
        __syncthreads();
#pragma unroll
        for (int k = 0; k < PER; k++)
#pragma unroll
            for (int j = 0; j < SIDE; j++)
                if (slots[k][j] != NOWHERE)
                    atomicMax(last + slots[k][j], (k * THREADS + threadIdx.x) * SIDE + j + 1);
        __syncthreads();
#pragma unroll
        for (int k = 0; k < PER; k++)
#pragma unroll
            for (int j = 0; j < SIDE; j++)
                if (slots[k][j] != NOWHERE && last[slots[k][j]] == (k * THREADS + threadIdx.x) * SIDE + j + 1)
                    row[slots[k][j]] = values[k].v[j];
        __syncthreads();
        WORD *to = (WORD *)(a.to + r * n * sizeof(ELEMENT));
#pragma unroll 4
        for (u32 i = threadIdx.x; i < words; i += THREADS)
            to[i] = ((const WORD *)row)[i];
        __syncthreads(); // the row has left
    }
}
