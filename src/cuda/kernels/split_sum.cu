// split_sum.cu -- the second pass of a product whose k was split: partial sums in order, then the epilogue.
// SPDX-License-Identifier: Apache-2.0
#include "common.cuh"
#include "finish.cuh"
#include "ptx_matrix.cuh"

// partial: [split][z][m][n]; columns of z begin at z * z_columns
extern "C" __global__ void __launch_bounds__(128)
    split_sum(const float *partial, int m, int n, u32 matrices, int splits, int z_columns,
              const __grid_constant__ finish_args f)
{
    u32 across = (n + 7) / 8;
    i64 all = (i64)matrices * m * across, apart = (i64)matrices * m * n;
    wait_for_predecessor();
    for (i64 v = blockIdx.x * 128ll + threadIdx.x; v < all; v += gridDim.x * 128ll) {
        i64 line = v / across; // of all matrices
        int col = (int)(v - line * across) * 8, count = n - col < 8 ? n - col : 8;
        u32 z = (u32)(line / m), row = (u32)(line - (i64)z * m);
        float x[8] = {0};
        for (int s = 0; s < splits; s++) {
            const float *from = partial + s * apart + line * n + col;
#pragma unroll
            for (int i = 0; i < 8; i++)
                x[i] += i < count ? from[i] : 0;
        }
        finish_places at = finish_matrix(f, z);
        finish8(f, at, row, z * z_columns + col, count, x);
    }
}
