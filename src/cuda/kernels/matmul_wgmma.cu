// matmul_wgmma.cu -- matrix products on sm_90: one thread fills shared memory by bulk copies, two warp groups multiply;
// blocks stay and take one tile after the other.
// SPDX-License-Identifier: Apache-2.0
//
// Beside what tile_wgmma.cuh wants: PER_MULTIPROCESSOR, B_EARLY. TOGETHER 2: two blocks have tiles below one
// another, and each copies half of B for both. PIXELS: A is the input of a convolution (pixel_copies.cuh).
#include "common.cuh"
#include "finish.cuh"

enum {
    ALONE = PER_MULTIPROCESSOR == 1,
    PART = ALONE ? 64 : 32,
};
#define STACK TOGETHER
#include "tile_wgmma.cuh"
#if PIXELS
#include "pixel_copies.cuh"
#endif

enum { THREADS = CONSUMERS * 128 + (ALONE ? 128 : 32) }; // one of the last fills

struct wgmma_args {
    int m, n, k;
    u32 places; // of tiles, or of two of them
    int a_moves, b_moves; // along the batch, or the same for all
#if PIXELS
    image_args image;
#endif
};

// This block's tile of the cluster's n-th place, and how many clusters there are.
DEVICE u32 first_place() { return blockIdx.x / TOGETHER; }
DEVICE u32 places_apart() { return gridDim.x / TOGETHER; }
DEVICE tile_place own_tile(u32 place, const wgmma_args &p, int rank)
{
    tile_place t = place_of(place, p.m, p.n, p.k, 1);
    t.row += rank * TILE_M;
    t.rows = t.rows - rank * TILE_M < TILE_M ? t.rows - rank * TILE_M : TILE_M;
    return t;
}

DEVICE void copy_b(u32 to, const tensor_map &b, u32 full, int x, int y, int z)
{
#if TOGETHER > 1
    copy_box_to_both(to, b, full, x, y, z);
#else
    copy_box(to, b, full, x, y, z);
#endif
}

// Tile `i` of k of A, or of B, into stage `slot`.
DEVICE void fill_a(const tensor_map &a, const shared_places &s, u32 slot, const tile_place &t, int i, int z)
{
    u32 to = s.stages + slot * STAGE_BYTES, full = s.full + slot * 8;
    if (!A_ACROSS)
        copy_box(to, a, full, i * TILE_K, t.row, z);
    for (int q = 0; A_ACROSS && q < TILE_M / 64; q++)
        copy_box(to + q * BLOCK_BYTES, a, full, t.row + q * 64, i * TILE_K, z);
}
DEVICE void fill_b(const tensor_map &b, const shared_places &s, u32 slot, const tile_place &t, int i, int z,
                   int rank)
{
    enum { SHARE = TILE_N / TOGETHER }; // of the columns
    u32 to = s.stages + slot * STAGE_BYTES + A_BYTES + rank * SHARE * LINE, full = s.full + slot * 8;
    int col = t.col + rank * SHARE;
    if (!B_ACROSS)
        copy_b(to, b, full, i * TILE_K, col, z);
    for (int q = 0; B_ACROSS && q < SHARE / 64; q++)
        copy_b(to + q * BLOCK_BYTES, b, full, col + q * 64, i * TILE_K, z);
}

// B_EARLY: B is constant; its first tiles are fetched before the grid's predecessor has ended.
DEVICE void fill(const tensor_map &a, const tensor_map &b, const wgmma_args &p, const shared_places &s,
                 int rank)
{
    u32 at = 0, early = 0;
    if (B_EARLY && first_place() < p.places) {
        tile_place t = own_tile(first_place(), p, rank);
        for (; early < STAGES && early < (u32)t.tiles; early++) {
            barrier_expect(s.full + early * 8, STAGE_BYTES);
            fill_b(b, s, early, t, early, p.b_moves ? t.z : 0, rank);
        }
    }
    wait_for_predecessor();
    for (u32 place = first_place(); place < p.places; place += places_apart()) {
        tile_place t = own_tile(place, p, rank);
        int za = p.a_moves ? t.z : 0, zb = p.b_moves ? t.z : 0;
#if PIXELS
        pixel_walk walk;
        walk.begin(p.image, t.row, t.first);
#endif
        for (int i = 0; i < t.tiles; i++, at++) {
            u32 slot = at % STAGES;
            if (at >= early) {
                barrier_wait(s.empty + slot * 8, (at / STAGES & 1) ^ 1);
                barrier_expect(s.full + slot * 8, STAGE_BYTES);
                fill_b(b, s, slot, t, i, zb, rank);
            }
#if PIXELS
            walk.copy(p.image, a, s.stages + slot * STAGE_BYTES, s.full + slot * 8);
#else
            fill_a(a, s, slot, t, i, za);
#endif
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
    int group = threadIdx.x / 128, rank = blockIdx.x % TOGETHER;
    if (group == CONSUMERS) {
        if (ALONE)
            fewer_registers<56>();
        if (threadIdx.x % 128 == 0)
            fill(a, b, p, s, rank);
        __syncwarp();
    } else {
        if (ALONE) // what the others gave away
            more_registers<224>();
        wait_for_predecessor();
        u32 at = 0;
        for (u32 place = first_place(); place < p.places; place += places_apart()) {
            tile_place t = own_tile(place, p, rank);
            float sum[TILE_N / 2];
            if (ALONE) // two together hide each other's waiting, and have no registers for it
                finish_prefetch(f, finish_matrix(f, t.z), t.row, t.col, t.rows, t.cols, threadIdx.x,
                                CONSUMERS * 128);
            multiply(sum, t.tiles, group, s, at);
            hand_out(sum, t, f, finish_matrix(f, t.z), (float *)way_out + threadIdx.x / 32 * 8 * PITCH);
        }
    }
#if TOGETHER > 1
    cluster_barrier(); // until nobody writes or arrives here any more
#endif
}
