// conv_tile.cu -- convolutions as matrix products whose A is gathered while it is loaded: rows are output pixels,
// k runs over kernel positions and, inside, channels of a group; B is the weights, packed as [group][column][k].
// SPDX-License-Identifier: Apache-2.0
//
// Beside what tile_product.cuh wants: TRANSPOSED, VOLUME (as in pixel_source.cuh).
#include "common.cuh"
#include "finish.cuh"
#include "tile_product.cuh"
#include "pixel_source.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
    conv_tile(const __grid_constant__ conv_args p, const __grid_constant__ finish_args f)
{
    extern __shared__ __align__(128) char shared[];
    int warp = threadIdx.x / 32;
    tile_place t = place_of(blockIdx.x, p.m, p.n, p.k, p.splits);
    int k = t.first * TILE_K;
    pixel_source<THREADS> a(p, threadIdx.x);
    matrix_b b;
    a.begin(p.x + (i64)t.z * p.channels * p.s.channel, t.row, t.rows, k);
    b.begin(p.w + ((i64)t.z * p.n + t.col) * p.k_pitch + k, p.k_pitch, 1, t.cols, p.k_pitch - k);
    sums s;
    multiply_tiles(s, a, b, t.tiles, shared, warp / WARPS_N, warp % WARPS_N);
    finish_places at = finish_matrix(f, 0);
    int column = t.z * p.n + t.col;
#if CLUSTER
    hand_out_cluster(s, shared, t, p.splits, [&](int i, int j, int n, float(&x)[8]) {
        finish8(f, at, t.row + i, column + j, n, x);
    });
#else
    if (p.splits > 1) {
        float *to = p.partial + ((i64)t.split * p.groups + t.z) * p.m * p.n;
        hand_out(s, shared, t, [&](int i, int j, int n, float(&x)[8]) {
            for (int c = 0; c < n; c++)
                to[(i64)(t.row + i) * p.n + t.col + j + c] = x[c];
        });
        return;
    }
    hand_out(s, shared, t, [&](int i, int j, int n, float(&x)[8]) {
        finish8(f, at, t.row + i, column + j, n, x);
    });
#endif
}
