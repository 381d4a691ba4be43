// matmul_wgmma.cu -- matrix products on sm_90: one thread fills shared memory by bulk copies, two warp groups multiply;
// blocks stay and take one tile after the other.
// SPDX-License-Identifier: Apache-2.0
//
// Beside what tile_wgmma.cuh wants: PER_MULTIPROCESSOR. Elements have 16 bits.
#include "common.cuh"
#include "finish.cuh"

enum {
    ALONE = PER_MULTIPROCESSOR == 1,
    PART = ALONE ? 64 : 32,
};
#include "tile_wgmma.cuh"

enum { THREADS = CONSUMERS * 128 + (ALONE ? 128 : 32) }; // one of the last fills

struct wgmma_args {
    int m, n, k;
    u32 tiles;
    int a_moves, b_moves; // along the batch, or the same for all
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

extern "C" __global__ void __launch_bounds__(THREADS, PER_MULTIPROCESSOR)
    matmul_wgmma(const __grid_constant__ tensor_map a, const __grid_constant__ tensor_map b,
                 const __grid_constant__ wgmma_args p, const __grid_constant__ finish_args f)
{
    extern __shared__ __align__(1024) char shared[];
    char *way_out;
    shared_places s = lay_out(shared, 1, way_out);
    int group = threadIdx.x / 128;
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
