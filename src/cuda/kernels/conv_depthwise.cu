// conv_depthwise.cu -- depthwise convolutions, channels innermost. A thread makes ACROSS adjacent pixels of 8 channels, and
// reads each input of a row once for all of them.
// SPDX-License-Identifier: Apache-2.0
#include "common.cuh"
#include "conv_sizes.cuh"
#include "finish.cuh"
#include "ptx_matrix.cuh"

typedef ELEMENT T;

struct depthwise_args {
    const T *x, *w; // w: [kernel position][channel]
    int channels, images;
    conv_sizes s;
};

DEVICE void load8(float (&to)[8], const T *from)
{
    enum { EACH = 16 / sizeof(T) };
#pragma unroll
    for (int q = 0; q < 8 / EACH; q++) {
        vec16<T> part = ((const vec16<T> *)from)[q];
#pragma unroll
        for (int i = 0; i < EACH; i++)
            to[q * EACH + i] = to_float(part.v[i]);
    }
}

// One row of inputs, from column `x` on, with one row of the kernel.
DEVICE void add_row(float (&sum)[ACROSS][8], const depthwise_args &p, const T *row, int x, const T *w)
{
    float weight[KERNEL_X][8];
#pragma unroll
    for (int k = 0; k < KERNEL_X; k++)
        load8(weight[k], w + k * p.channels);
#pragma unroll
    for (int j = 0; j <= (ACROSS - 1) * STRIDE_X + (KERNEL_X - 1) * DILATION_X; j++) {
        bool used = false; // by a window: known when this is compiled
#pragma unroll
        for (int i = 0; i < ACROSS; i++) {
            int at = j - i * STRIDE_X;
            used = used || (at >= 0 && at % DILATION_X == 0 && at / DILATION_X < KERNEL_X);
        }
        if (!used || (u32)(x + j) >= (u32)p.s.in[2])
            continue;
        float v[8];
        load8(v, row + (i64)(x + j) * p.s.step[2]);
#pragma unroll
        for (int i = 0; i < ACROSS; i++) {
            int at = j - i * STRIDE_X;
            if (at >= 0 && at % DILATION_X == 0 && at / DILATION_X < KERNEL_X)
#pragma unroll
                for (int c = 0; c < 8; c++)
                    sum[i][c] += v[c] * weight[at / DILATION_X][c];
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    conv_depthwise(const __grid_constant__ depthwise_args p, const __grid_constant__ finish_args f)
{
    u32 parts = p.channels / 8, wide = (p.s.out[2] + ACROSS - 1) / ACROSS;
    u64 all = (u64)p.images * p.s.out[1] * wide * parts;
    u64 index = (u64)blockIdx.x * THREADS + threadIdx.x;
    if (index >= all)
        return;
    int channel = (int)(index % parts) * 8;
    u32 rest = (u32)(index / parts), across = rest % wide * ACROSS;
    rest /= wide;
    u32 y = rest % p.s.out[1], image = rest / p.s.out[1];
    wait_for_predecessor();
    float sum[ACROSS][8] = {};
    const T *x = p.x + (i64)image * p.s.image + channel;
    int first_y = (int)y * p.s.stride[1] - p.s.pad[1], first_x = (int)across * STRIDE_X - p.s.pad[2];
    for (int k = 0; k < p.s.kernel[1]; k++) {
        int at = first_y + k * p.s.dilation[1];
        if ((u32)at < (u32)p.s.in[1])
            add_row(sum, p, x + (i64)at * p.s.step[1], first_x,
                    p.w + (i64)k * KERNEL_X * p.channels + channel);
    }
    finish_places at = finish_matrix(f, 0);
    u32 row = (image * p.s.out[1] + y) * p.s.out[2] + across;
#pragma unroll
    for (int i = 0; i < ACROSS; i++)
        if (across + i < p.s.out[2])
            finish8(f, at, row + i, channel, 8, sum[i]);
}
