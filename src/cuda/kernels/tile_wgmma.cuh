// tile_wgmma.cuh -- tiles of products by two or three warp groups of sm_90, from shared memory that others fill.
// SPDX-License-Identifier: Apache-2.0
//
// Given before: ELEMENT, TILE_N, STAGES, GROUPS (warp groups that multiply), BLOCKS_M (blocks of 64 rows that each has), ALTERNATE (each of
// two warp groups has its own tiles, and hands one out while the other multiplies; else all share a tile), LATE (a tile is handed out while the next one is multiplied, where
// results are WHOLE), A_ACROSS, B_ACROSS (as in tile_product.cuh), TOGETHER (blocks
// of a cluster), wgmma(sums, a, b, add), and how results go out: WHOLE with SLOTS (finish_whole.cuh), SPLITS > 1 (meeting.cuh), else PART, columns
// that are handed out at once.
//
// A tile of an operand lies with 128-byte swizzling: rows of 128 bytes of k; across, blocks of 64 rows (columns), each
// one row of 128 bytes for every k.
#pragma once
#include "ptx_matrix.cuh"
#include "ptx_bulk.cuh"

typedef ELEMENT T;
enum {
    CONSUMERS = GROUPS,
    SHARING = ALTERNATE ? 1 : CONSUMERS, // warp groups of a tile
    TILE_M = 64 * BLOCKS_M * SHARING,
    LINE = 128, // bytes
    TILE_K = LINE / sizeof(T),
    A_BYTES = TILE_M * LINE,
    B_BYTES = (B_ACROSS ? (TILE_N + 63) / 64 * 64 : TILE_N) * LINE,
    STAGE_BYTES = A_BYTES + B_BYTES,
    BLOCK_BYTES = 64 * LINE, // of 64 rows or columns
};
#include "tile_place.cuh"
#if WHOLE
#include "finish_whole.cuh"
#else
#if SPLITS > 1
#include "meeting.cuh"
#else
enum {
    PITCH = PART + 8,
    WAY_OUT_BYTES = CONSUMERS * 4 * 8 * PITCH * 4,
};
static_assert(TILE_N % PART == 0, "tiles are of whole parts");
#endif
#endif

// A matrix in shared memory as products want it told. Along k: 8 rows of 128 bytes repeat every 1024 bytes. Across: 8 of k do,
// and 64 rows every BLOCK_BYTES.
// A matrix further on is told by the lower half with a sixteenth of the bytes added: shared memory ends before that carries. Of the
// address products take 14 bits, this block's: above them it has the block's rank in the cluster, where a description has the leading offset.
DEVICE u32 described(u32 at, int across)
{
    u32 leading = across ? BLOCK_BYTES : 16;
    return (at >> 4 & 0x3fff) | leading >> 4 << 16;
}
DEVICE u64 further(u32 described, u32 bytes)
{
    u32 stride = 1024;
    return (u64)(stride >> 4 | 1u << 30) << 32 | (described + (bytes >> 4));
}

// The k-th of the four products of a tile: in bytes from the tile's beginning.
DEVICE u32 k_offset(int k, int across) { return across ? k * 16 * LINE : k * 32; }

struct shared_places {
    u32 stages, way_out;
    u32 full, empty; // barriers: the stage was filled, was read
    u32 turns;       // ALTERNATE: a warp group may begin; SPLITS: the sums of all blocks are here
};

// What all lanes have alike, so that the compiler knows it.
DEVICE int uniform(int v) { return __shfl_sync(0xffffffff, v, 0); }

// Where a warp group stands in the ring of stages.
struct stage_place {
    u32 slot, parity;
};
DEVICE void next_stage(stage_place &at)
{
    at.slot++;
    if (at.slot == STAGES)
        at.slot = 0, at.parity ^= 1;
}
DEVICE void skip_stages(stage_place &at, u32 stages)
{
    u32 to = at.slot + stages;
    at.slot = to % STAGES;
    at.parity ^= to / STAGES & 1;
}

// Each warp, whose products may end before those of the others, tells those who fill the stage before `at`: in every block of the cluster.
DEVICE void was_read(const shared_places &s, const stage_place &at)
{
    u32 empty = s.empty + (at.slot ? at.slot - 1 : STAGES - 1) * 8;
#if TOGETHER > 1
    if (threadIdx.x % 32 < TOGETHER)
        barrier_arrive_in(empty, threadIdx.x % 32);
#else
    if (threadIdx.x % 32 == 0)
        barrier_arrive(empty);
#endif
}

// Tiles are multiplied in their order: a warp group that waited for a stage too early would take the fill before for its own.
DEVICE void take_turn(const shared_places &s, int group, u32 tile)
{
    if (tile > 0)
        barrier_wait(s.turns + group * 8, (tile - 1) / 2 & 1);
}
DEVICE void pass_turn(const shared_places &s, int group)
{
    if (threadIdx.x % 32 == 0)
        barrier_arrive(s.turns + (group ^ 1) * 8);
}

// The products of one stage. FIRST: the tile's first, which are not added to anything: that is known here, so that nothing keeps registers
// for sums from one tile to the next.
template <bool FIRST>
DEVICE void multiply_stage(float (&sum)[BLOCKS_M][TILE_N / 2], u32 own, const shared_places &s, const stage_place &at)
{
    u32 begin = s.stages + at.slot * STAGE_BYTES;
    u32 a = described(begin + own, A_ACROSS), b = described(begin + A_BYTES, B_ACROSS);
    barrier_wait(s.full + at.slot * 8, at.parity);
    products_begin();
#pragma unroll
    for (int k = 0; k < LINE / 32; k++)
#pragma unroll
        for (int h = 0; h < BLOCKS_M; h++)
            wgmma(sum[h], further(a, h * BLOCK_BYTES + k_offset(k, A_ACROSS)), further(b, k_offset(k, B_ACROSS)),
                  !FIRST || k > 0);
    products_end_group();
}

// Where a warp group's rows of a stage's A begin.
DEVICE u32 own_rows(int group) { return ALTERNATE ? 0 : group * BLOCKS_M * BLOCK_BYTES; }

// One tile's sums of this warp group, in three: its first stage; as many more; their end. `tile` counts the block's tiles.
DEVICE void multiply_begin(float (&sum)[BLOCKS_M][TILE_N / 2], int group, u32 tile, const shared_places &s,
                           stage_place &at)
{
    if (ALTERNATE)
        take_turn(s, group, tile);
    multiply_stage<true>(sum, own_rows(group), s, at);
    next_stage(at);
}
DEVICE void multiply_rest(float (&sum)[BLOCKS_M][TILE_N / 2], int stages, int group, const shared_places &s,
                          stage_place &at)
{
    u32 own = own_rows(group);
#pragma unroll 1 // what more than one needs are registers
    for (int i = 0; i < stages; i++) {
        multiply_stage<false>(sum, own, s, at);
        products_wait<1>();
        was_read(s, at); // the products of the stage before this one are done
        next_stage(at);
    }
}
// But for the last PENDING stages: nothing that uses the sums goes before this.
template <int PENDING> DEVICE void await_sums(float (&sum)[BLOCKS_M][TILE_N / 2])
{
    products_wait<PENDING>();
#pragma unroll
    for (int i = 0; i < BLOCKS_M * (TILE_N / 2); i++)
        asm volatile("" : "+f"(sum[i / (TILE_N / 2)][i % (TILE_N / 2)])::"memory");
}
DEVICE void multiply_end(float (&sum)[BLOCKS_M][TILE_N / 2], const shared_places &s, const stage_place &at)
{
    await_sums<0>(sum);
    was_read(s, at);
}

DEVICE void multiply(float (&sum)[BLOCKS_M][TILE_N / 2], int stages, int group, u32 tile, const shared_places &s,
                           stage_place &at)
{
    multiply_begin(sum, group, tile, s, at);
    multiply_rest(sum, stages - 1, group, s, at);
    if (ALTERNATE)
        pass_turn(s, group);
    multiply_end(sum, s, at);
}

#if LATE
// The first stages of a tile, while the one before is finished. There are more of them than LATE_STAGES.
DEVICE void multiply_late(float (&sum)[BLOCKS_M][TILE_N / 2], float (&kept)[BLOCKS_M][TILE_N / 2], int group,
                          const shared_places &s, stage_place &at, way_out &w, const finish_args &f, const out_lines &o)
{
    multiply_stage<true>(sum, own_rows(group), s, at);
    await_sums<1>(kept);
    was_read(s, at);
    next_stage(at);
    copies_wait<0>();
    __syncwarp();
#pragma unroll
    for (int i = 0; i < LATE_STAGES; i++) {
        multiply_stage<false>(sum, own_rows(group), s, at);
#pragma unroll
        for (int piece = 0; piece < PIECES_OF_STAGE; piece++)
            finish_piece(kept, w, f, o, i * PIECES_OF_STAGE + piece);
        products_wait<1>();
        was_read(s, at);
        next_stage(at);
    }
}
// The last tile of all.
DEVICE void finish_last(float (&kept)[BLOCKS_M][TILE_N / 2], way_out &w, const finish_args &f, const out_lines &o)
{
    await_sums<0>(kept);
    copies_wait<0>();
    __syncwarp();
#pragma unroll
    for (int i = 0; i < ALL_PIECES; i++)
        finish_piece(kept, w, f, o, i);
}
#endif

#if !WHOLE && SPLITS <= 1
// Through shared memory, 8 rows by PART columns at a time, each warp by itself.
DEVICE void hand_out(const float (&sum)[BLOCKS_M][TILE_N / 2], const tile_place &t, const finish_args &f,
                     const finish_places &at, const shared_places &s, char *shared)
{
    enum { VECTORS = PART / 8, ALL = BLOCKS_M * 2 * (TILE_N / PART) };
    float *own = (float *)(shared + (s.way_out - shared_address(shared))) + threadIdx.x / 32 * 8 * PITCH;
    int lane = threadIdx.x % 32;
    int first = (ALTERNATE ? 0 : threadIdx.x / 128 * BLOCKS_M * 64) + threadIdx.x / 32 % 4 * 16;
#pragma unroll
    for (int part = 0; part < ALL; part++) {
        int half = part % 2, q = part / 2 % (TILE_N / PART), h = part / 2 / (TILE_N / PART);
#pragma unroll
        for (int j = 0; j < PART / 8; j++)
            *(float2 *)(own + lane / 4 * PITCH + j * 8 + lane % 4 * 2) =
                make_float2(sum[h][(q * VECTORS + j) * 4 + half * 2],
                            sum[h][(q * VECTORS + j) * 4 + half * 2 + 1]);
        __syncwarp();
#pragma unroll
        for (int v = 0; v < 8 * VECTORS; v += 32) {
            int line = (v + lane) / VECTORS, c = (v + lane) % VECTORS * 8;
            int i = first + h * 64 + half * 8 + line, j = q * PART + c;
            if (i < t.rows && j < t.cols) {
                float x[8];
                load_sums8(x, own + line * PITCH + c);
                finish8(f, at, t.row + i, t.col + j, t.cols - j < 8 ? t.cols - j : 8, x);
            }
        }
        __syncwarp();
    }
}
#endif

// Places, from the beginning of dynamic shared memory.
DEVICE shared_places lay_out(const char *shared)
{
    u32 base = shared_address(shared), skip = (1024 - base % 1024) % 1024;
    shared_places s;
    s.stages = base + skip;
    s.way_out = s.stages + STAGES * STAGE_BYTES;
    s.full = s.way_out + WAY_OUT_BYTES;
    s.empty = s.full + STAGES * 8;
    s.turns = s.empty + STAGES * 8;
    return s;
}

// All threads of the block; of barriers that they made before, too.
DEVICE void make_barriers(const shared_places &s, int filled_by)
{
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; i++) {
            barrier_init(s.full + i * 8, filled_by);
            barrier_init(s.empty + i * 8, SHARING * 4 * TOGETHER);
        }
#if SPLITS > 1
        expect_shares(s.turns);
#else
        for (int i = 0; i < CONSUMERS; i++)
            barrier_init(s.turns + i * 8, 4);
#endif
    }
    barriers_made();
#if TOGETHER > 1
    cluster_barrier();
#else
    __syncthreads();
#endif
#if SPLITS > 1
    cluster_arrive();
#endif
}
