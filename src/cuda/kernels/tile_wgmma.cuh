// tile_wgmma.cuh -- tiles of products by two warp groups of sm_90, 64 rows of the tile each, from shared memory that others
// fill.
// SPDX-License-Identifier: Apache-2.0
//
// Given before: ELEMENT, TILE_N, STAGES, PART (columns that are handed out at once), A_ACROSS, B_ACROSS (as in
// tile_product.cuh), TOGETHER (blocks of a cluster), and wgmma(sums, a, b, add).
//
// A tile of an operand lies with 128-byte swizzling: rows of 128 bytes of k; across, blocks of 64 rows (columns), each
// one row of 128 bytes for every k.
#pragma once
#include "ptx_matrix.cuh"
#include "ptx_bulk.cuh"

typedef ELEMENT T;
enum {
    CONSUMERS = 2,
    TILE_M = 64 * CONSUMERS,
    LINE = 128, // bytes
    TILE_K = LINE / sizeof(T),
    A_BYTES = TILE_M * LINE,
    B_BYTES = TILE_N * LINE,
    STAGE_BYTES = A_BYTES + B_BYTES,
    BLOCK_BYTES = 64 * LINE, // across: of 64 rows or columns
    PITCH = PART + 8,
    WAY_OUT_BYTES = CONSUMERS * 4 * 8 * PITCH * 4,
};
#include "tile_place.cuh"

// A matrix in shared memory as products want it told. Along k: 8 rows of 128 bytes repeat every 1024 bytes. Across: 8 of k do,
// and 64 rows every BLOCK_BYTES.
DEVICE u64 described(u32 at, int across)
{
    u64 leading = across ? BLOCK_BYTES : 16, stride = 1024;
    return (u64)(at >> 4 & 0x3fff) | (leading >> 4) << 16 | (stride >> 4) << 32 | 1ull << 62;
}

// The k-th of the four products of a tile: in bytes from the tile's beginning.
DEVICE u32 k_offset(int k, int across) { return across ? k * 16 * LINE : k * 32; }

struct shared_places {
    u32 stages, full, empty; // barriers: the stage was filled, was read
};

// Tells those who fill the stage: in every block of the cluster.
DEVICE void was_read(const shared_places &s, u32 at)
{
    u32 empty = s.empty + at % STAGES * 8;
#if TOGETHER > 1
    if (threadIdx.x % 128 < TOGETHER)
        barrier_arrive_in(empty, threadIdx.x % 128);
#else
    if (threadIdx.x % 128 == 0)
        barrier_arrive(empty);
#endif
}

// One tile's sums of this warp group; `at` counts stages.
DEVICE void multiply(float (&sum)[TILE_N / 2], int tiles, int group, const shared_places &s, u32 &at)
{
    u32 own = A_ACROSS ? group * BLOCK_BYTES : group * 64 * LINE;
    for (int i = 0; i < tiles; i++, at++) {
        u32 slot = at % STAGES, a = s.stages + slot * STAGE_BYTES, b = a + A_BYTES;
        barrier_wait(s.full + slot * 8, at / STAGES & 1);
        products_begin();
#pragma unroll
        for (int k = 0; k < LINE / 32; k++)
            wgmma(sum, described(a + own + k_offset(k, A_ACROSS), A_ACROSS),
                  described(b + k_offset(k, B_ACROSS), B_ACROSS), i > 0 || k > 0);
        products_end_group();
        products_wait<1>();
        if (i > 0) // the products of the stage before this one are done
            was_read(s, at - 1);
    }
    products_wait<0>();
    was_read(s, at - 1);
}

// Through shared memory, 8 rows by PART columns at a time, each warp by itself.
DEVICE void hand_out(const float (&sum)[TILE_N / 2], const tile_place &t, const finish_args &f,
                     const finish_places &at, float *own)
{
    enum { VECTORS = PART / 8 };
    int lane = threadIdx.x % 32, first = threadIdx.x / 32 * 16;
#pragma unroll
    for (int q = 0; q < TILE_N / PART; q++) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
#pragma unroll
            for (int j = 0; j < PART / 8; j++)
                *(float2 *)(own + lane / 4 * PITCH + j * 8 + lane % 4 * 2) =
                    make_float2(sum[(q * VECTORS + j) * 4 + half * 2],
                                sum[(q * VECTORS + j) * 4 + half * 2 + 1]);
            __syncwarp();
#pragma unroll
            for (int v = 0; v < 8 * VECTORS; v += 32) {
                int line = (v + lane) / VECTORS, c = (v + lane) % VECTORS * 8;
                int i = first + half * 8 + line, j = q * PART + c;
                if (i < t.rows && j < t.cols) {
                    float x[8];
                    load_sums8(x, own + line * PITCH + c);
                    finish8(f, at, t.row + i, t.col + j, t.cols - j < 8 ? t.cols - j : 8, x);
                }
            }
            __syncwarp();
        }
    }
}

// Barriers and places, from the beginning of dynamic shared memory; all threads of the block.
DEVICE shared_places lay_out(char *shared, int filled_by, char *&way_out)
{
    u32 base = shared_address(shared), skip = (1024 - base % 1024) % 1024;
    shared_places s = {base + skip, 0, 0};
    way_out = shared + skip + STAGES * STAGE_BYTES;
    s.full = s.stages + STAGES * STAGE_BYTES + WAY_OUT_BYTES;
    s.empty = s.full + STAGES * 8;
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; i++) {
            barrier_init(s.full + i * 8, filled_by);
            barrier_init(s.empty + i * 8, CONSUMERS * TOGETHER);
        }
        barriers_made();
    }
#if TOGETHER > 1
    cluster_barrier();
#else
    __syncthreads();
#endif
    return s;
}
