// qdirect.cu -- convolutions of bytes with few channels in a group: a thread for each output.
// SPDX-License-Identifier: Apache-2.0
//
// Generated before this: what qproduct.cuh asks for.
#include "common.cuh"
#include "elements.cuh"
#include "qproduct.cuh"

// Over the taps inside the image; those outside are zero points.
DEVICE int sum_of(const arguments &a, const u8 *x, const u8 *w, const int *at, int zero_a, int zero_b)
{
    int sum = 0, tap = 0;
    for (int d = 0; d < a.kernel[0]; d++)
        for (int h = 0; h < a.kernel[1]; h++)
            for (int v = 0; v < a.kernel[2]; v++, tap++) {
                const int p[3] = {at[0] + d * a.dilation[0], at[1] + h * a.dilation[1], at[2] + v * a.dilation[2]};
                if (p[0] < 0 || p[0] >= a.in[0] || p[1] < 0 || p[1] >= a.in[1] || p[2] < 0 || p[2] >= a.in[2])
                    continue;
                const u8 *from = x + ((i64)p[0] * a.x_step[0] + (i64)p[1] * a.x_step[1] + (i64)p[2] * a.x_step[2]);
                for (int c = 0; c < (int)a.channels; c++)
                    sum += (byte_of(from + c * a.x_channel, A_SIGNED) - zero_a) *
                           (byte_of(w + tap * (int)a.channels + c, B_SIGNED) - zero_b);
            }
    return sum;
}

extern "C" __global__ void __launch_bounds__(256) qdirect(const __grid_constant__ arguments a)
{
    const i64 columns = a.y_image / a.pixels, all = a.m * columns, step = (i64)gridDim.x * blockDim.x;
    const int zero_a = A_ZERO ? byte_of(a.a_zero, A_SIGNED) : 0;
    const float y_zero = zero_of_output(a);
    for (i64 e = (i64)blockIdx.x * blockDim.x + threadIdx.x; e < all; e += step) {
        // In the order of memory: channels innermost, or pixels of a plane.
        const i64 line = e / (a.y_col == 1 ? columns : a.pixels), in_line = e - line * (a.y_col == 1 ? columns : a.pixels);
        const i64 image = a.y_col == 1 ? line / a.pixels : line / columns;
        const i64 column = a.y_col == 1 ? in_line : line - image * columns;
        int rest = (int)(a.y_col == 1 ? line - image * a.pixels : in_line), at[3];
#pragma unroll
        for (int d = 2; d >= 0; d--) {
            int q = d ? rest / a.out[d] : 0;
            at[d] = (rest - q * a.out[d]) * a.stride[d] - a.pad[d];
            rest = q;
        }
        const i64 group = column / a.n;
        const struct column c = column_of(a, group, column - group * a.n, 0, 0);
        const int sum = sum_of(a, a.a + image * a.x_image + group * a.a_batch, a.b + column * a.b_col, at, zero_a, c.zero);
        a.y[e] = finished(sum + c.add, c, false, y_zero);
    }
}
