// conv_narrow.cu -- convolutions of one kernel position with few channels: matrix products that take as long as memory needs to bring
// the pixels. The weights stay in shared memory; each warp streams pixels by itself.
// SPDX-License-Identifier: Apache-2.0
//
// Given before: ELEMENT, WARPS, TALL (16 pixels each, of a warp's tile), GROUPS (32 columns each, that are summed at once),
// STAGES (of a warp). Lines of shared memory (a pixel's channels, a column's weights) are an odd number of 16-byte
// chunks, so that the 8 lines of a fragment come from different banks; the chunk after an odd number of them is zeros.
#include "common.cuh"
#include "finish.cuh"
#include "finish_batch.cuh"
#include "ptx_matrix.cuh"

typedef ELEMENT T;
enum {
    THREADS = WARPS * 32,
    CHUNK = 16 / sizeof(T),
    PIXELS = TALL * 16,  // of a tile
    COLUMNS = GROUPS * 32,
};

struct narrow_args {
    const T *x, *w;
    i64 pitch;             // from pixel to pixel
    int m, n, chunks;      // pixels, columns, chunks of a pixel
    int w_pitch;           // of a column's weights
};

struct lines {
    u32 chunks, steps, pitch; // pitch in bytes
};

// The weights, by fragment_column, and the zeros of both. Columns that there are not are zeros.
DEVICE void place_weights(const narrow_args &p, const lines &l, u32 weights, u32 tiles)
{
    u32 columns = (p.n + COLUMNS - 1) / COLUMNS * COLUMNS, all = columns * l.steps * 2;
    for (u32 i = threadIdx.x; i < all; i += THREADS) {
        u32 column = i / (l.steps * 2), chunk = i - column * (l.steps * 2);
        bool exists = column < (u32)p.n && chunk < l.chunks;
        copy16(weights + fragment_column(column) * l.pitch + chunk * 16,
               exists ? p.w + (i64)column * p.w_pitch + chunk * CHUNK : p.w, exists);
    }
    for (u32 i = threadIdx.x; l.chunks % 2 && i < WARPS * STAGES * PIXELS; i += THREADS)
        store_shared16(tiles + i * l.pitch + l.chunks * 16, make_uint4(0, 0, 0, 0));
}

// A warp's next tile: PIXELS pixels from `first` on. What will be added to its results comes nearer.
DEVICE void load_pixels(const narrow_args &p, const lines &l, const finish_args &f, const finish_places &at, u32 to,
                        i64 first)
{
    u32 lane = threadIdx.x % 32, pixel = lane / l.chunks, chunk = lane - pixel * l.chunks;
    u32 down = 32 / l.chunks, right = 32 - down * l.chunks;
    const T *from = p.x + first * p.pitch;
    i64 left = p.m - first;
    finish_prefetch(f, at, (u32)first, 0, left < PIXELS ? (int)left : PIXELS, p.n, lane, 32);
    for (; pixel < PIXELS; pixel += down, chunk += right) {
        if (chunk >= l.chunks) {
            chunk -= l.chunks;
            if (++pixel >= PIXELS)
                break;
        }
        bool exists = pixel < left;
        copy16(to + pixel * l.pitch + chunk * 16, exists ? from + pixel * p.pitch + chunk * CHUNK : p.x, exists);
    }
}

struct sums {
    float v[TALL][GROUPS * 4][4];
};

// COLUMNS columns from `weights` on.
DEVICE void multiply(sums &s, const lines &l, u32 pixels, u32 weights)
{
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < TALL * GROUPS * 16; i++)
        s.v[i / (GROUPS * 16)][i / 4 % (GROUPS * 4)][i % 4] = 0;
    u32 a = pixels + lane % 16 * l.pitch + lane / 16 * 16;
    u32 b = weights + (lane % 8 + lane / 16 * 8) * l.pitch + lane / 8 % 2 * 16;
#pragma unroll 2
    for (u32 step = 0; step < l.steps; step++, a += 32, b += 32) {
        u32 left[TALL][4];
#pragma unroll
        for (int i = 0; i < TALL; i++) {
            load_fragments(left[i], a + i * 16 * l.pitch);
#pragma unroll
            for (int q = 0; q < 4; q++)
                left[i][q] = shortened<T>(left[i][q]);
        }
#pragma unroll
        for (int j = 0; j < GROUPS * 2; j++) {
            u32 right[4];
            load_fragments(right, b + j * 16 * l.pitch);
#pragma unroll
            for (int q = 0; q < 4; q++)
                right[q] = shortened<T>(right[q]);
#pragma unroll
            for (int i = 0; i < TALL; i++) {
                multiply_fragments<T>(s.v[i][j * 2], left[i], right[0], right[1]);
                multiply_fragments<T>(s.v[i][j * 2 + 1], left[i], right[2], right[3]);
            }
        }
    }
}

DEVICE void hand_out(const sums &s, const narrow_args &p, const finish_args &f, const finish_places &at, i64 first,
                     int col)
{
    int lane = threadIdx.x % 32;
    batch_places<TALL * 2> rows;
#pragma unroll
    for (int i = 0; i < TALL * 2; i++) {
        i64 row = first + i * 8 + lane / 4;
        rows.row[i] = (u32)row;
        rows.exists[i] = row < p.m;
    }
#pragma unroll
    for (int g = 0; g < GROUPS; g++) {
        int own = col + g * 32 + lane % 4 * 8, n = p.n - own < 8 ? p.n - own : 8;
        if (n <= 0)
            continue;
        float x[TALL * 2][8];
#pragma unroll
        for (int i = 0; i < TALL * 2; i++)
#pragma unroll
            for (int c = 0; c < 8; c++)
                x[i][c] = s.v[i / 2][g * 4 + c / 2][i % 2 * 2 + c % 2];
        finish_batch<TALL * 2, 8>(f, at, rows, own, n, x);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 16 / WARPS)
    conv_narrow(const __grid_constant__ narrow_args p, const __grid_constant__ finish_args f)
{
    extern __shared__ __align__(128) char shared[];
    lines l;
    l.chunks = p.chunks;
    l.steps = (p.chunks + 1) / 2;
    l.pitch = (l.steps * 2 + 1) * 16;
    u32 tiles = shared_address(shared), weights = tiles + WARPS * STAGES * PIXELS * l.pitch;
    u32 warp = threadIdx.x / 32, own = tiles + warp * STAGES * PIXELS * l.pitch;
    i64 step = (i64)gridDim.x * WARPS * PIXELS, first = (i64)(blockIdx.x * WARPS + warp) * PIXELS;
    finish_places at = finish_matrix(f, 0);
    place_weights(p, l, weights, tiles);
    copies_end_group();
    wait_for_predecessor();
#pragma unroll
    for (int i = 0; i < STAGES - 1; i++) {
        if (first + i * step < p.m)
            load_pixels(p, l, f, at, own + i * PIXELS * l.pitch, first + i * step);
        copies_end_group();
    }
    copies_wait<STAGES - 1>();
    __syncthreads();
    u32 slot = 0, ahead = STAGES - 1;
    for (; first < p.m; first += step) {
        if (first + (STAGES - 1) * step < p.m)
            load_pixels(p, l, f, at, own + ahead * PIXELS * l.pitch, first + (STAGES - 1) * step);
        copies_end_group();
        copies_wait<STAGES - 1>();
        __syncwarp();
        for (int col = 0; col < p.n; col += COLUMNS) {
            sums s;
            multiply(s, l, own + slot * PIXELS * l.pitch, weights + col * l.pitch);
            hand_out(s, p, f, at, first, col);
        }
        __syncwarp();
        slot = slot + 1 == STAGES ? 0 : slot + 1;
        ahead = ahead + 1 == STAGES ? 0 : ahead + 1;
    }
}
