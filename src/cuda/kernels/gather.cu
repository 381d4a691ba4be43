// gather.cu -- elements from places that indices tell.
// SPDX-License-Identifier: Apache-2.0
//
// The nest is the output's; each place of it has DEPTH indices, which walk that many axes of the data. Generated before
// this: RANK, DEPTH, INDEX (i32 or i64), WIDE (nest.cuh); for rows that are held in shared memory ELEMENT; SHIFTED
// (an element's word): rows begin anywhere, and are written by words of 16 bytes but at their ends.
#include "common.cuh"
#include "elements.cuh"
#include "nest.cuh"

struct arguments {
    const char *data;
    const INDEX *indices;
    char *to;
    u32 *fault;
    u32 fault_code, row_bytes; // row_bytes: SHIFTED
    u32 word, element;    // bytes that are moved at once where both sides are aligned to them; else elements are
    u64 units;            // words
    i64 pick_size[DEPTH], pick_step[DEPTH], pick_at[DEPTH]; // of the data's axis; its stride; of the tuple's number
    axis dims[RANK];
    i64 data_step[RANK], index_step[RANK], to_step[RANK]; // bytes, but indices
};

// Where the element is; -1: the index is out of range.
DEVICE i64 pick(const arguments &a, i64 index_at, i64 from)
{
#pragma unroll
    for (int k = 0; k < DEPTH; k++) {
        i64 i = (i64)a.indices[index_at + a.pick_at[k]], n = a.pick_size[k];
        if (i < -n || i >= n) {
            atomicCAS(a.fault, 0u, a.fault_code);
            return -1;
        }
        from += (i < 0 ? i + n : i) * a.pick_step[k];
    }
    return from;
}

#ifdef ELEMENT
// A row of the data is brought into shared memory whole; its elements are picked there, N at a time.
template <int N>
DEVICE void pick_row(const arguments &a, const ELEMENT *held, const INDEX *indices, ELEMENT *to)
{
    const i64 n = a.pick_size[0];
    for (i64 j = (i64)threadIdx.x * N; j < (i64)a.dims[RANK - 1].size; j += (i64)blockDim.x * N) {
        ELEMENT v[N];
        INDEX at[N];
        if (N > 1) {
#pragma unroll
            for (int k = 0; k < N; k += 16 / sizeof(INDEX))
                load_run<true, INDEX, 16 / sizeof(INDEX)>(indices + j + k, at + k);
        } else {
            at[0] = indices[j];
        }
#pragma unroll
        for (int k = 0; k < N; k++) {
            i64 i = (i64)at[k];
            i += i < 0 ? n : 0;
            if ((u64)i >= (u64)n) {
                atomicCAS(a.fault, 0u, a.fault_code);
                i = 0;
            }
            v[k] = held[i];
        }
        store_run<true, ELEMENT, N>(to + j, v);
    }
}

extern "C" __global__ void __launch_bounds__(256) gather_rows(const __grid_constant__ arguments a)
{
    extern __shared__ uint4 shared[];
    const int few = sizeof(ELEMENT) < 8 ? 4 : 2;
    const u32 bytes = (u32)a.pick_size[0] * sizeof(ELEMENT), picked = (u32)a.dims[RANK - 1].size;
    const u32 rows = (u32)(a.units / picked);
    for (u32 row = blockIdx.x; row < rows; row += gridDim.x) {
        index rest = row;
        i64 from = 0, index_at = 0, to = 0;
#pragma unroll
        for (int d = RANK - 2; d >= 0; d--) {
            index q = d ? quotient(rest, a.dims[d]) : 0;
            i64 i = rest - q * size_of(a.dims[d]);
            rest = q;
            from += i * a.data_step[d];
            index_at += i * a.index_step[d];
            to += i * a.to_step[d];
        }
        const char *data = a.data + from;
        __syncthreads(); // the row before has been picked from
        if (((u64)data | bytes) % 16 == 0)
            for (u32 i = threadIdx.x; i < bytes / 16; i += blockDim.x)
                shared[i] = ((const uint4 *)data)[i];
        else
            for (u32 i = threadIdx.x; i < a.pick_size[0]; i += blockDim.x)
                ((ELEMENT *)shared)[i] = ((const ELEMENT *)data)[i];
        __syncthreads();
        const ELEMENT *held = (const ELEMENT *)shared;
        const INDEX *indices = a.indices + index_at;
        ELEMENT *out = (ELEMENT *)(a.to + to);
        if (picked % few == 0 && (u64)indices % 16 == 0 && (u64)out % (few * sizeof(ELEMENT)) == 0)
            pick_row<few>(a, held, indices, out);
        else
            pick_row<1>(a, held, indices, out);
    }
}
#endif

#ifdef SHIFTED
extern "C" __global__ void __launch_bounds__(256) gather_shifted(const __grid_constant__ arguments a)
{
    for (index u = first_index(); u < a.units; u += all_threads()) {
        index rest = quotient(u, a.dims[RANK - 1]);
        const i64 at = (i64)(u - rest * size_of(a.dims[RANK - 1])) * 16;
        i64 from = 0, index_at = 0;
        char *to = a.to;
#pragma unroll
        for (int d = RANK - 2; d >= 0; d--) {
            const index q = d ? quotient(rest, a.dims[d]) : 0;
            const i64 i = rest - q * size_of(a.dims[d]);
            rest = q;
            from += i * a.data_step[d];
            index_at += i * a.index_step[d];
            to += i * a.to_step[d];
        }
        from = pick(a, index_at, from);
        const int head = (int)((u64)to & 15), low = at ? 0 : head;
        const i64 left = (i64)a.row_bytes + head - at;
        const int high = left < 16 ? (int)left : 16;
        if (from < 0 || high <= low)
            continue;
        to += at - head;
        const uint4 v = load_shifted(a.data + from + at - head, low, high);
        if (low == 0 && high == 16)
            *(uint4 *)to = v;
        else
            store_part<SHIFTED>(to, v, low, high);
    }
}
#endif

template <class W, int U> DEVICE void gather_some(const arguments &a, index u, index step, int split)
{
    i64 from[U], to[U];
    W v[U];
#pragma unroll
    for (int j = 0; j < U; j++) {
        index e = u + j * step, rest = e >> split;
        i64 index_at = 0;
        from[j] = to[j] = (e & ((1u << split) - 1)) * sizeof(W);
#pragma unroll
        for (int d = RANK - 1; d >= 0; d--) {
            index q = d ? quotient(rest, a.dims[d]) : 0;
            i64 i = rest - q * size_of(a.dims[d]);
            rest = q;
            from[j] += i * a.data_step[d];
            index_at += i * a.index_step[d];
            to[j] += i * a.to_step[d];
        }
        from[j] = pick(a, index_at, from[j]);
    }
#pragma unroll
    for (int j = 0; j < U; j++)
        if (from[j] >= 0)
            v[j] = *(const W *)(a.data + from[j]);
#pragma unroll
    for (int j = 0; j < U; j++)
        if (from[j] >= 0)
            *(W *)(a.to + to[j]) = v[j];
}

template <class W> DEVICE void gather_all(const arguments &a, int split)
{
    const int many = 4;
    const index n = (index)a.units << split, step = all_threads();
    index u = first_index();
    for (; (u64)u + (many - 1) * (u64)step < n; u += many * step)
        gather_some<W, many>(a, u, step, split);
    for (; u < n; u += step)
        gather_some<W, 1>(a, u, step, split);
}

extern "C" __global__ void __launch_bounds__(256) gather(const __grid_constant__ arguments a)
{
    bool aligned = ((u64)a.data | (u64)a.to) % a.word == 0;
    u32 bytes = aligned ? a.word : a.element;
    int split = __ffs(a.word / bytes) - 1;
    if (bytes == 16)
        gather_all<uint4>(a, split);
    else if (bytes == 8)
        gather_all<uint2>(a, split);
    else if (bytes == 4)
        gather_all<u32>(a, split);
    else if (bytes == 2)
        gather_all<u16>(a, split);
    else
        gather_all<u8>(a, split);
}
