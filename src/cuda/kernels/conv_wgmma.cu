// conv_wgmma.cu -- convolutions on sm_90 as matrix products: a warp group gathers the input's channels under output pixels,
// one of its threads has the weights copied, two warp groups multiply; blocks stay and take one tile after the other.
// SPDX-License-Identifier: Apache-2.0
//
// Beside what tile_wgmma.cuh wants: TRANSPOSED, VOLUME (as in pixel_source.cuh).
#include "common.cuh"
#include "finish.cuh"

#define PART      (TILE_N % 64 == 0 ? 64 : 32)
#define A_ACROSS  0
#define B_ACROSS  0
#define A_WHOLE   1
#define TOGETHER  1
#define GROUPS    2
#include "tile_wgmma.cuh"

enum {
    CHUNK = 16 / sizeof(T),
    A_CHUNKS = LINE / 16,
    GATHERERS = 128,
    THREADS = CONSUMERS * 128 + GATHERERS,
    BEHIND = STAGES - 2, // stages that a thread's copies may be on their way
};
// Chunks as the bulk copies swizzle them.
template <int CHUNKS, int ACROSS> DEVICE u32 chunk_at(int line, int chunk)
{
    return line * LINE + (chunk ^ line % 8) * 16;
}
#include "pixel_source.cuh"

DEVICE void hand_over(const shared_places &s, u32 at)
{
    fence_for_bulk();
    barrier_arrive(s.full + at % STAGES * 8);
}

// Tile `i` of k of the weights of the columns from `col` on.
DEVICE void fill_weights(const tensor_map &w, const shared_places &s, u32 slot, int i, int col)
{
    barrier_expect(s.full + slot * 8, B_BYTES);
    copy_box(s.stages + slot * STAGE_BYTES + A_BYTES, w, s.full + slot * 8, i * TILE_K, col, 0);
}

// The first weights are fetched before the grid's predecessor has ended.
DEVICE void fill(const tensor_map &w, const conv_args &p, u32 tiles, const shared_places &s)
{
    int thread = threadIdx.x % 128;
    u32 at = 0, early = 0;
    if (blockIdx.x < tiles) {
        tile_place t = place_of(blockIdx.x, p.m, p.n, p.k, 1);
        early = t.tiles < STAGES ? t.tiles : STAGES;
        for (u32 i = 0; thread == 0 && i < early; i++)
            fill_weights(w, s, i, i, t.z * p.n + t.col);
    }
    wait_for_predecessor();
    for (u32 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        tile_place t = place_of(tile, p.m, p.n, p.k, 1);
        pixel_source<GATHERERS> a(p, thread);
        a.begin(p.x + (i64)t.z * p.channels * p.s.channel, t.row, t.rows, 0);
        for (int i = 0; i < t.tiles; i++, at++) {
            u32 slot = at % STAGES;
            barrier_wait(s.empty + slot * 8, (at / STAGES & 1) ^ 1);
            if (thread == 0 && at >= early)
                fill_weights(w, s, slot, i, t.z * p.n + t.col);
            a.load(s.stages + slot * STAGE_BYTES);
            copies_end_group();
            if (at >= BEHIND) {
                copies_wait<BEHIND>();
                hand_over(s, at - BEHIND);
            }
        }
    }
    copies_wait<0>();
    for (u32 i = at < BEHIND ? 0 : at - BEHIND; i < at; i++)
        hand_over(s, i);
}

// What the warp groups do that multiply.
DEVICE void consume(const tensor_map &added, const conv_args &p, u32 tiles,
                    const finish_args &f, const shared_places &s, char *shared)
{
    int group = uniform(threadIdx.x / 128);
#if WHOLE
    way_out w = way_out_at(s.way_out);
#endif
    stage_place at = {0, 0};
    for (u32 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        tile_place t = place_of(tile, p.m, p.n, p.k, 1);
        float sum[BLOCKS_M][TILE_N / 2];
#if WHOLE // there is one group of channels
        finish_places matrix = finish_matrix(f, t.z);
        expect(w, added, f, matrix, t, p.n, 0);
        multiply(sum, t.tiles, group, 0, s, at);
        hand_out(sum, w, added, f, out_lines_at(w, f, matrix.out, t), t, 0);
#else
        t.col += t.z * p.n;
        finish_prefetch(f, finish_matrix(f, t.z), t.row, t.col, t.rows, t.cols, threadIdx.x,
                        CONSUMERS * 128);
        multiply(sum, t.tiles, group, 0, s, at);
        hand_out(sum, t, f, finish_matrix(f, t.z), s, shared);
#endif
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    conv_wgmma(const __grid_constant__ tensor_map w, const __grid_constant__ tensor_map added,
               const __grid_constant__ conv_args p, u32 tiles, const __grid_constant__ finish_args f)
{
    extern __shared__ __align__(1024) char shared[];
    shared_places s = lay_out(shared);
    int group = threadIdx.x / 128;
#if WHOLE
    if (group < CONSUMERS)
        make_way_out(s.way_out);
#endif
    make_barriers(s, GATHERERS + 1);
    if (group == CONSUMERS) {
        fewer_registers<104>();
        fill(w, p, tiles, s);
    } else {
        more_registers<200>();
        wait_for_predecessor();
        consume(added, p, tiles, f, s, shared);
    }
}
