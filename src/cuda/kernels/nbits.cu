// nbits.cu -- a product with weights of a few bits: a warp for each column, which reads its weights once for a few rows.
// SPDX-License-Identifier: Apache-2.0
//
// Generated before this: X (elements of rows, scales and results), ZERO (those of zero points), PACKED_ZEROS (they are codes),
// BITS, ROWS (of a block), EIGHT (codes of 4 bits in blocks of eight or more, rows of eight or more columns: eight at a time), GROUPED.
#include "common.cuh"
#include "elements.cuh"
#define WIDE 1
#include "nest.cuh"

struct arguments {
    const X *x;
    const u8 *codes;
    const X *scales;
    const void *zeros; // NULL: the middle
    const i32 *groups; // GROUPED
    const X *bias;     // NULL: none
    X *y;
    u64 m, n, k, block, blocks;
    u32 *fault;
    u64 fault_code;
};

DEVICE u32 code_at(const u8 *p, u64 i)
{
    const u64 bit = i * BITS;
    u32 v = p[bit / 8];
    if (8 % BITS && bit % 8 + BITS > 8)
        v |= (u32)p[bit / 8 + 1] << 8;
    return v >> bit % 8 & ((1u << BITS) - 1);
}

DEVICE float zero_of(const arguments &a, u64 n, u64 block)
{
    if (!a.zeros)
        return (float)(1 << (BITS - 1));
#if PACKED_ZEROS
    return (float)code_at((const u8 *)a.zeros + n * ((a.blocks * BITS + 7) / 8), block);
#else
    return get<float, ZERO>(((const ZERO *)a.zeros)[n * a.blocks + block]);
#endif
}

DEVICE float scale_of(const arguments &a, u64 n, u64 block) { return get<float, X>(a.scales[n * a.blocks + block]); }

// Weights of column n from its codes on, rows from `row` on, `rows` of them: what this lane has of the sums.
DEVICE void add_up(const arguments &a, u64 n, const u8 *codes, u64 row, int rows, float *sum)
{
    const u32 lane = threadIdx.x & 31;
#if EIGHT
    for (u64 k = lane * 8; k < a.k; k += 256) {
        const u64 block = k / a.block;
        const u32 eight = *(const u32 *)(codes + k / 2);
        const float scale = scale_of(a, n, block), zero = zero_of(a, n, block);
        float w[8];
#pragma unroll
        for (int j = 0; j < 8; j++)
            w[j] = ((float)(eight >> 4 * j & 15) - zero) * scale;
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            if (r < rows) {
                const X *from = a.x + (row + r) * a.k + k;
                X x[8];
#pragma unroll
                for (int j = 0; j < 8; j += 16 / sizeof(X))
                    load_run<true, X, 16 / sizeof(X)>(from + j, x + j);
#pragma unroll
                for (int j = 0; j < 8; j++)
                    sum[r] = fmaf(w[j], get<float, X>(x[j]), sum[r]);
            }
    }
#else
    for (u64 k = lane; k < a.k; k += 32) {
        u64 block = k / a.block;
#if GROUPED
        block = (u64)(i64)a.groups[k];
        if (block >= a.blocks) {
            *a.fault = (u32)a.fault_code;
            return;
        }
#endif
        const float w = ((float)code_at(codes, k) - zero_of(a, n, block)) * scale_of(a, n, block);
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            if (r < rows)
                sum[r] = fmaf(w, get<float, X>(a.x[(row + r) * a.k + k]), sum[r]);
    }
#endif
}

extern "C" __global__ void __launch_bounds__(256) nbits(const arguments a)
{
    const u64 n = (u64)blockIdx.x * 8 + threadIdx.x / 32;
    if (n >= a.n)
        return;
    const u8 *codes = a.codes + n * (a.blocks * (a.block * BITS / 8));
    for (u64 row = (u64)blockIdx.y * ROWS; row < a.m; row += (u64)gridDim.y * ROWS) {
        const int rows = a.m - row < ROWS ? (int)(a.m - row) : ROWS;
        float sum[ROWS];
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            sum[r] = 0;
        add_up(a, n, codes, row, rows, sum);
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
#pragma unroll
            for (int d = 16; d > 0; d /= 2)
                sum[r] += __shfl_xor_sync(~0u, sum[r], d);
            if (r < rows && (threadIdx.x & 31) == r)
                a.y[(row + r) * a.n + n] =
                    element<X>::put(sum[r] + (a.bias ? get<float, X>(a.bias[n]) : 0.0f));
        }
    }
}
