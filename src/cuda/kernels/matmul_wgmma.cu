// matmul_wgmma.cu -- matrix products on sm_90: one thread fills shared memory by bulk copies, two warp groups multiply
// from there, 64 rows of the tile each; blocks stay and take one tile after the other.
// SPDX-License-Identifier: Apache-2.0
//
// Given before: ELEMENT (16 bits), TILE_N, STAGES, PER_MULTIPROCESSOR, A_ACROSS, B_ACROSS (as in tile_product.cuh),
// and wgmma(sums, a, b, add).
//
// A tile of an operand lies as the copies put it, with 128-byte swizzling: rows of 64 of k; across, blocks of 64 rows (columns),
// each one row of 128 bytes for every k.
#include "common.cuh"
#include "finish.cuh"
#include "ptx_matrix.cuh"
#include "ptx_bulk.cuh"

enum { CONSUMERS = 2, TILE_M = 64 * CONSUMERS, TILE_K = 64 };
#include "tile_place.cuh"

typedef ELEMENT T;
enum {
    ALONE = PER_MULTIPROCESSOR == 1,
    THREADS = CONSUMERS * 128 + (ALONE ? 128 : 32), // one of the last fills
    A_BYTES = TILE_M * TILE_K * 2,
    B_BYTES = TILE_N * TILE_K * 2,
    STAGE_BYTES = A_BYTES + B_BYTES,
    BLOCK_BYTES = 64 * TILE_K * 2, // across: of 64 rows or columns
    PART = ALONE ? 64 : 32,        // columns that are handed out at once
    PITCH = PART + 8,
    WAY_OUT_BYTES = CONSUMERS * 4 * 8 * PITCH * 4,
};

struct wgmma_args {
    int m, n, k;
    u32 tiles;
    int a_moves, b_moves; // along the batch, or the same for all
};

// A matrix in shared memory as products want it told. Along k: 8 rows of 128 bytes repeat every 1024 bytes. Across: 8 of k do,
// and 64 rows every BLOCK_BYTES.
DEVICE u64 described(u32 at, int across)
{
    u64 leading = across ? BLOCK_BYTES : 16, stride = 1024;
    return (u64)(at >> 4 & 0x3fff) | (leading >> 4) << 16 | (stride >> 4) << 32 | 1ull << 62;
}

// The k-th 16 of a tile's 64, in bytes from its beginning.
DEVICE u32 k_offset(int k, int across) { return across ? k * 16 * 128 : k * 32; }

struct shared_places {
    u32 stages, full, empty; // barriers: the stage was filled, was read
};

DEVICE void fill(const tensor_map &a, const tensor_map &b, const wgmma_args &p, const shared_places &s)
{
    u32 at = 0;
    for (u32 tile = blockIdx.x; tile < p.tiles; tile += gridDim.x) {
        tile_place t = place_of(tile, p.m, p.n, p.k, 1);
        int za = p.a_moves ? t.z : 0, zb = p.b_moves ? t.z : 0;
        for (int i = 0; i < t.tiles; i++, at++) {
            u32 slot = at % STAGES, to = s.stages + slot * STAGE_BYTES, full = s.full + slot * 8;
            barrier_wait(s.empty + slot * 8, (at / STAGES & 1) ^ 1);
            barrier_expect(full, STAGE_BYTES);
            if (!A_ACROSS)
                copy_box(to, a, full, i * TILE_K, t.row, za);
            for (int q = 0; A_ACROSS && q < TILE_M / 64; q++)
                copy_box(to + q * BLOCK_BYTES, a, full, t.row + q * 64, i * TILE_K, za);
            to += A_BYTES;
            if (!B_ACROSS)
                copy_box(to, b, full, i * TILE_K, t.col, zb);
            for (int q = 0; B_ACROSS && q < TILE_N / 64; q++)
                copy_box(to + q * BLOCK_BYTES, b, full, t.col + q * 64, i * TILE_K, zb);
        }
    }
}

// One tile's sums of this warp group; `at` counts stages.
DEVICE void multiply(float (&sum)[TILE_N / 2], int tiles, int group, const shared_places &s, u32 &at)
{
    u32 own = A_ACROSS ? group * BLOCK_BYTES : group * 64 * 128;
    for (int i = 0; i < tiles; i++, at++) {
        u32 slot = at % STAGES, a = s.stages + slot * STAGE_BYTES, b = a + A_BYTES;
        barrier_wait(s.full + slot * 8, at / STAGES & 1);
        products_begin();
#pragma unroll
        for (int k = 0; k < TILE_K / 16; k++)
            wgmma(sum, described(a + own + k_offset(k, A_ACROSS), A_ACROSS),
                  described(b + k_offset(k, B_ACROSS), B_ACROSS), i > 0 || k > 0);
        products_end_group();
        products_wait<1>();
        if (i > 0 && threadIdx.x % 128 == 0) // the products of the stage before this one are done
            barrier_arrive(s.empty + (at - 1) % STAGES * 8);
    }
    products_wait<0>();
    if (threadIdx.x % 128 == 0)
        barrier_arrive(s.empty + (at - 1) % STAGES * 8);
}

// Through shared memory, 8 rows by PART columns at a time, each warp by itself.
DEVICE void hand_out(const float (&sum)[TILE_N / 2], const tile_place &t, const finish_args &f, float *own)
{
    enum { VECTORS = PART / 8 };
    int lane = threadIdx.x % 32, first = threadIdx.x / 32 * 16;
    finish_places at = finish_matrix(f, t.z);
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

extern "C" __global__ void __launch_bounds__(THREADS, PER_MULTIPROCESSOR)
    matmul_wgmma(const __grid_constant__ tensor_map a, const __grid_constant__ tensor_map b,
                 const __grid_constant__ wgmma_args p, const __grid_constant__ finish_args f)
{
    extern __shared__ __align__(1024) char shared[];
    u32 base = shared_address(shared), skip = (1024 - base % 1024) % 1024;
    char *way_out = shared + skip + STAGES * STAGE_BYTES;
    shared_places s = {base + skip, 0, 0};
    s.full = s.stages + STAGES * STAGE_BYTES + WAY_OUT_BYTES;
    s.empty = s.full + STAGES * 8;
    int group = threadIdx.x / 128;
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; i++) {
            barrier_init(s.full + i * 8, 1);
            barrier_init(s.empty + i * 8, CONSUMERS);
        }
        barriers_made();
    }
    __syncthreads();
    if (group == CONSUMERS) {
        if (ALONE)
            fewer_registers<40>();
        if (threadIdx.x % 128 == 0) {
            wait_for_predecessor();
            fill(a, b, p, s);
        }
    } else {
        if (ALONE) // what the others gave away
            more_registers<232>();
        wait_for_predecessor();
        u32 at = 0;
        for (u32 tile = blockIdx.x; tile < p.tiles; tile += gridDim.x) {
            tile_place t = place_of(tile, p.m, p.n, p.k, 1);
            float sum[TILE_N / 2];
            multiply(sum, t.tiles, group, s, at);
            hand_out(sum, t, f, (float *)way_out + threadIdx.x / 32 * 8 * PITCH);
        }
    }
}
