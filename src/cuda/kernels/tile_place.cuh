// tile_place.cuh -- which tile of which matrix a block works on. TILE_M, TILE_N, TILE_K are given before; STACK: of how many
// tiles, one below the other, a place is (1).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#ifndef STACK
#define STACK 1
#endif

// Where a block's tile stands among all, and what it is of.
struct tile_place {
    int row, col;            // its first
    int rows, cols;          // how many of them exist
    int split, first, tiles; // its part of k, in tiles
    u32 z;
};

// The tiles of a matrix are walked in bands of 8 rows, so that those in flight share their operands in the L2 cache.
DEVICE tile_place place_of(u32 block, int m, int n, int k, int splits)
{
    enum { BAND = 8, HIGH = TILE_M * STACK };
    tile_place t;
    u32 down = (m + HIGH - 1) / HIGH, right = (n + TILE_N - 1) / TILE_N;
    t.split = block % splits;
    block /= splits;
    t.z = block / (down * right);
    block -= t.z * (down * right);
    u32 band = block / (BAND * right), in_band = down - band * BAND < BAND ? down - band * BAND : BAND;
    block -= band * BAND * right;
    t.row = (band * BAND + block % in_band) * HIGH;
    t.col = block / in_band * TILE_N;
    t.rows = m - t.row < HIGH ? m - t.row : HIGH;
    t.cols = n - t.col < TILE_N ? n - t.col : TILE_N;
    int tiles = (k + TILE_K - 1) / TILE_K;
    t.first = (int)((i64)tiles * t.split / splits);
    t.tiles = (int)((i64)tiles * (t.split + 1) / splits) - t.first;
    return t;
}

DEVICE void load_sums8(float (&x)[8], const float *from)
{
    float4 low = *(const float4 *)from, high = *(const float4 *)(from + 4);
    x[0] = low.x, x[1] = low.y, x[2] = low.z, x[3] = low.w;
    x[4] = high.x, x[5] = high.y, x[6] = high.z, x[7] = high.w;
}
