// meeting.cuh -- the blocks of a cluster that share a tile's k bring their sums together: each sends every other the columns that
// this one finishes.
// SPDX-License-Identifier: Apache-2.0
//
// Part of tile_wgmma.cuh. Given before: SPLITS. Sums go from the registers of a thread to where the same thread of the other block finds
// them, four at a time; the stores tell that block's barrier. A block may end when it has all that it waits for: so have the others,
// or they still hold what they wait for in their own memory.
#pragma once

enum {
    SHARE_VECTORS = (TILE_N / 8 + SPLITS - 1) / SPLITS, // of 8 columns, that a block finishes
    SHARE = SHARE_VECTORS * 8,
    VECTOR_SUMS = CONSUMERS * 128 * 16, // bytes that land of 8 columns of each 64 rows
    LANDING_BYTES = BLOCKS_M * SHARE_VECTORS * VECTOR_SUMS, // of one block's sums
    WAY_OUT_BYTES = (SPLITS - 1) * LANDING_BYTES,
    UNITS = BLOCKS_M * 2 * SHARE_VECTORS, // rows of 8 columns that four neighbouring threads finish
    OWN_VECTORS = (UNITS + 3) / 4,        // of a thread
    LOADS_EARLY = OWN_VECTORS * (FINISH_N + 1) <= 12, // what is added has registers before
};

// The n-th 8 columns of a row that this thread finishes.
struct share_place {
    int row, col; // col: of the share
    bool exists;
};
DEVICE share_place own_vector(int n, const tile_place &t)
{
    int unit = n * 4 + threadIdx.x % 4, line = unit / SHARE_VECTORS;
    share_place p = {(int)threadIdx.x / 128 * BLOCKS_M * 64 + line / 2 * 64 + (int)threadIdx.x / 32 % 4 * 16 +
                         line % 2 * 8 + (int)threadIdx.x % 32 / 4,
                     unit % SHARE_VECTORS * 8, false};
    p.exists = unit < UNITS && p.row < t.rows && t.split * SHARE + p.col < t.cols;
    return p;
}
DEVICE int own_columns(const share_place &p, const tile_place &t)
{
    int left = t.cols - t.split * SHARE - p.col;
    return left < 8 ? left : 8;
}

struct meeting {
    finish_early added[LOADS_EARLY ? OWN_VECTORS : 1];
};

// Before the products: what will be added sets out.
DEVICE void expect_sums(meeting &m, const finish_args &f, const finish_places &at, const tile_place &t)
{
#pragma unroll
    for (int i = 0; LOADS_EARLY && i < OWN_VECTORS; i++) {
        share_place p = own_vector(i, t);
        m.added[i].has = 0;
        if (p.exists)
            finish_load_early(f, at, t.row + p.row, t.col + t.split * SHARE + p.col, own_columns(p, t), m.added[i]);
    }
}

// Vectors of the share of block `q`.
DEVICE int vectors_of(int q)
{
    int left = TILE_N / 8 - q * SHARE_VECTORS;
    return left < 0 ? 0 : left < SHARE_VECTORS ? left : SHARE_VECTORS;
}

// One thread, when barriers are made: all that `met` will be told of.
DEVICE void expect_shares(u32 met)
{
    barrier_init(met, 1);
    barrier_expect(met, (SPLITS - 1) * BLOCKS_M * vectors_of(rank_in_cluster()) * VECTOR_SUMS);
}

// Where the sums of block `from` land in block `to`: those of this thread.
DEVICE u32 landing_of(u32 landing, int from, int to)
{
    return landing + (from < to ? from : from - 1) * LANDING_BYTES + threadIdx.x * 16;
}

// To the blocks behind this one, then to those before it: all begin with another one. split: which this is.
DEVICE void send_sums(const float (&sum)[BLOCKS_M][TILE_N / 2], u32 landing, u32 met, int split)
{
#pragma unroll
    for (int turn = 0; turn < 2 * SPLITS; turn++) {
        const int q = turn % SPLITS;
        if (turn < SPLITS ? q <= split : q >= split)
            continue;
        u32 to = address_in(landing_of(landing, split, q), q), told = address_in(met, q);
#pragma unroll
        for (int i = 0; i < BLOCKS_M * SHARE_VECTORS; i++) {
            int h = i / SHARE_VECTORS, j = q * SHARE_VECTORS + i % SHARE_VECTORS;
            if (j < TILE_N / 8)
                send_floats(to + i * VECTOR_SUMS, sum[h][j * 4], sum[h][j * 4 + 1], sum[h][j * 4 + 2],
                            sum[h][j * 4 + 3], told);
        }
    }
}

// All of this block's share: always added up in the same order.
DEVICE void add_sums(float (&x)[BLOCKS_M * SHARE_VECTORS][4], const float (&sum)[BLOCKS_M][TILE_N / 2], u32 landing,
                     int split)
{
#pragma unroll
    for (int i = 0; i < BLOCKS_M * SHARE_VECTORS; i++)
        x[i][0] = x[i][1] = x[i][2] = x[i][3] = 0;
#pragma unroll
    for (int q = 0; q < SPLITS; q++) {
        if (q == split) {
#pragma unroll
            for (int i = 0; i < BLOCKS_M * SHARE_VECTORS; i++) {
                int h = i / SHARE_VECTORS, j = q * SHARE_VECTORS + i % SHARE_VECTORS;
#pragma unroll
                for (int k = 0; j < TILE_N / 8 && k < 4; k++)
                    x[i][k] += sum[h][j * 4 + k];
            }
        } else {
#pragma unroll
            for (int i = 0; i < BLOCKS_M * SHARE_VECTORS; i++) {
                float4 v = load_shared_floats(landing_of(landing, q, split) + i * VECTOR_SUMS);
                x[i][0] += v.x, x[i][1] += v.y, x[i][2] += v.z, x[i][3] += v.w;
            }
        }
    }
}

// Of four neighbouring threads each has two of the 8 numbers of four units: then each has those of one.
DEVICE void exchange_units(float (&v)[4][2])
{
#pragma unroll
    for (int step = 1; step < 4; step *= 2) {
        bool upper = threadIdx.x & step;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            if (i & step)
                continue;
#pragma unroll
            for (int k = 0; k < 2; k++) {
                float got = __shfl_xor_sync(~0u, upper ? v[i][k] : v[i + step][k], step);
                if (upper)
                    v[i][k] = got;
                else
                    v[i + step][k] = got;
            }
        }
    }
}

DEVICE void finish_sums(meeting &m, const finish_args &f, const finish_places &at, const tile_place &t,
                        const float (&sum)[BLOCKS_M][TILE_N / 2], u32 landing)
{
    float all[BLOCKS_M * SHARE_VECTORS][4];
    add_sums(all, sum, landing, t.split);
#pragma unroll
    for (int i = 0; i < OWN_VECTORS; i++) {
        float v[4][2];
#pragma unroll
        for (int u = i * 4; u < i * 4 + 4; u++)
#pragma unroll
            for (int k = 0; k < 2; k++) {
                int line = u / SHARE_VECTORS, from = line / 2 * SHARE_VECTORS + u % SHARE_VECTORS;
                v[u - i * 4][k] = u < UNITS ? all[u < UNITS ? from : 0][line % 2 * 2 + k] : 0;
            }
        exchange_units(v);
        share_place p = own_vector(i, t);
        if (!p.exists)
            continue;
        float x[8];
#pragma unroll
        for (int k = 0; k < 8; k++)
            x[k] = v[k / 2][k % 2];
        u32 row = t.row + p.row, col = t.col + t.split * SHARE + p.col;
        finish_added added;
        if (LOADS_EARLY)
            finish_load_rest(f, at, row, col, own_columns(p, t), m.added[LOADS_EARLY ? i : 0], added);
        else
            finish_load8(f, at, row, col, own_columns(p, t), added);
        finish_loaded8(f, at, row, col, own_columns(p, t), added, x);
    }
}
