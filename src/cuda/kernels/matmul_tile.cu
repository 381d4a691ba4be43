// matmul_tile.cu -- matrix products in tiles: any sizes, any strides, a batch of them.
// SPDX-License-Identifier: Apache-2.0
#include "common.cuh"
#include "finish.cuh"
#include "tile_product.cuh"

// As cuda/matmul.h has it.
struct product_args {
    const T *a, *b;
    float *partial; // sums of each split: [split][z][m][n]
    int m, n, k, splits;
    i64 a_row, a_k, b_col, b_k; // strides
    axes a_z, b_z;
    u32 matrices;
};

extern "C" __global__ void __launch_bounds__(THREADS) matmul_tile(const __grid_constant__ product_args p,
                                                              const __grid_constant__ finish_args f)
{
    extern __shared__ __align__(128) char shared[];
    int warp = threadIdx.x / 32;
    tile_place t = place_of(blockIdx.x, p.m, p.n, p.k, p.splits);
    i64 k = (i64)t.first * TILE_K;
    matrix_a a;
    matrix_b b;
    a.begin(p.a + along<2>(p.a_z, t.z) + t.row * p.a_row + k * p.a_k, p.a_row, p.a_k, t.rows,
            p.k - (int)k);
    b.begin(p.b + along<2>(p.b_z, t.z) + t.col * p.b_col + k * p.b_k, p.b_col, p.b_k, t.cols,
            p.k - (int)k);
    sums s;
    multiply_tiles(s, a, b, t.tiles, shared, warp / WARPS_N, warp % WARPS_N);
    finish_places at = finish_matrix(f, t.z);
#if CLUSTER
    hand_out_cluster(s, shared, t, p.splits, [&](int i, int j, int n, float(&x)[8]) {
        finish8(f, at, t.row + i, t.col + j, n, x);
    });
#else
    if (p.splits > 1) {
        float *to = p.partial + ((i64)t.split * p.matrices + t.z) * p.m * p.n;
        hand_out(s, shared, t, [&](int i, int j, int n, float(&x)[8]) {
            for (int c = 0; c < n; c++)
                to[(i64)(t.row + i) * p.n + t.col + j + c] = x[c];
        });
        return;
    }
    hand_out(s, shared, t, [&](int i, int j, int n, float(&x)[8]) {
        finish8(f, at, t.row + i, t.col + j, n, x);
    });
#endif
}
