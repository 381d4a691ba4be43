// meeting.cuh -- the blocks of a cluster that share a tile's k bring their sums together: each sends every other the columns that
// this one finishes.
// SPDX-License-Identifier: Apache-2.0
//
// Part of tile_wgmma.cuh. Given before: SPLITS. A block lays its sums where its stages were, the columns of each block by themselves, and bulk
// copies take them to where they land there and tell a barrier. A block ends when all have what they wait for.
#pragma once

enum {
    SHARE = (TILE_N / 8 + SPLITS - 1) / SPLITS * 8, // columns that a block finishes
    LANDING_PITCH = SHARE + (SHARE % 16 ? 0 : 8), // neighbouring rows are in other banks
    LANDING_BYTES = TILE_M * LANDING_PITCH * 4,   // of one block's sums
    WAY_OUT_BYTES = SPLITS * LANDING_BYTES,
    SHARE_VECTORS = SHARE / 8,
    OWN_VECTORS = (TILE_M * SHARE_VECTORS + CONSUMERS * 128 - 1) / (CONSUMERS * 128), // of a thread
    LOADS_EARLY = OWN_VECTORS * (FINISH_N + 1) <= 8, // what is added has registers before
};

static_assert((int)WAY_OUT_BYTES <= STAGES * STAGE_BYTES, "sums are laid where the stages were");

// The n-th 8 columns of a row that this thread finishes.
struct share_place {
    int row, col; // col: of the share
    bool exists;
};
DEVICE share_place own_vector(int n, const tile_place &t)
{
    int v = n * CONSUMERS * 128 + threadIdx.x;
    share_place p = {v / SHARE_VECTORS, v % SHARE_VECTORS * 8, false};
    p.exists = p.row < TILE_M && p.row < t.rows && t.split * SHARE + p.col < t.cols;
    return p;
}
DEVICE int own_columns(const share_place &p, const tile_place &t)
{
    int left = t.cols - t.split * SHARE - p.col;
    return left < 8 ? left : 8;
}

struct meeting {
    finish_added added[LOADS_EARLY ? OWN_VECTORS : 1];
};

// Before the products: what will be added sets out.
DEVICE void expect_sums(meeting &m, const finish_args &f, const finish_places &at, const tile_place &t)
{
#pragma unroll
    for (int i = 0; LOADS_EARLY && i < OWN_VECTORS; i++) {
        share_place p = own_vector(i, t);
        if (p.exists)
            finish_load8(f, at, t.row + p.row, t.col + t.split * SHARE + p.col, own_columns(p, t), m.added[i]);
    }
}

// One thread, when barriers are made: all that `met` will be told of.
DEVICE void expect_shares(u32 met)
{
    barrier_init(met, 1);
    barrier_expect(met, (SPLITS - 1) * LANDING_BYTES);
}

// From `laid`, which is free, to where sums land; split: which of the blocks this is. A warp has 16 rows of each 64.
DEVICE void send_sums(const float (&sum)[BLOCKS_M][TILE_N / 2], u32 laid, u32 landing, u32 met, int split)
{
    enum { ROW = LANDING_PITCH * 4 };
    int lane = threadIdx.x % 32, first = threadIdx.x / 128 * BLOCKS_M * 64 + threadIdx.x / 32 % 4 * 16;
    u32 own = laid + (first + lane / 4) * ROW + lane % 4 * 8;
#pragma unroll
    for (int j = 0; j < TILE_N / 8; j++)
#pragma unroll
        for (int i = 0; i < BLOCKS_M * 2; i++)
            store_shared_floats(own + j / SHARE_VECTORS * LANDING_BYTES + (i / 2 * 64 + i % 2 * 8) * ROW +
                                    j % SHARE_VECTORS * 32,
                                sum[i / 2][j * 4 + i % 2 * 2], sum[i / 2][j * 4 + i % 2 * 2 + 1]);
    fence_for_bulk();
    __syncwarp();
    for (int i = 0; i < BLOCKS_M && lane < SPLITS && lane != split; i++)
        send_bytes(address_in(landing + split * LANDING_BYTES + (first + i * 64) * ROW, lane),
                   laid + lane * LANDING_BYTES + (first + i * 64) * ROW, 16 * ROW, address_in(met, lane));
}

// Always added up in the same order, those of this block from where they were laid.
DEVICE void finish_sums(meeting &m, const finish_args &f, const finish_places &at, const tile_place &t, u32 laid,
                        u32 landing)
{
#pragma unroll
    for (int i = 0; i < OWN_VECTORS; i++) {
        share_place p = own_vector(i, t);
        if (!p.exists)
            continue;
        float x[8] = {0, 0, 0, 0, 0, 0, 0, 0};
#pragma unroll
        for (int q = 0; q < SPLITS; q++) {
            u32 from = (q == t.split ? laid : landing) + q * LANDING_BYTES + (p.row * LANDING_PITCH + p.col) * 4;
            float4 low = load_shared_floats(from), high = load_shared_floats(from + 16);
            x[0] += low.x, x[1] += low.y, x[2] += low.z, x[3] += low.w;
            x[4] += high.x, x[5] += high.y, x[6] += high.z, x[7] += high.w;
        }
        u32 row = t.row + p.row, col = t.col + t.split * SHARE + p.col;
        if (!LOADS_EARLY)
            finish_load8(f, at, row, col, own_columns(p, t), m.added[0]);
        finish_loaded8(f, at, row, col, own_columns(p, t), m.added[LOADS_EARLY ? i : 0], x);
    }
}
