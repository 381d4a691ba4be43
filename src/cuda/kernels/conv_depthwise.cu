// conv_depthwise.cu -- depthwise convolutions, channels innermost. A thread makes DOWN by ACROSS adjacent pixels of CHANNELS
// channels, and reads each input once for all of them.
// SPDX-License-Identifier: Apache-2.0
//
// Given before: ELEMENT, CHANNELS, DOWN, ACROSS, THREADS, KERNEL_X, STRIDE_X, DILATION_X, and KERNEL_Y, STRIDE_Y, DILATION_Y.
// HELD: all weights are held in registers; else those of a row, and DOWN is 1.
#include "common.cuh"
#include "conv_sizes.cuh"
#include "finish.cuh"
#include "finish_batch.cuh"
#include "ptx_matrix.cuh"

typedef ELEMENT T;
enum {
    ROWS = (DOWN - 1) * STRIDE_Y + (KERNEL_Y - 1) * DILATION_Y + 1, // of inputs
    COLUMNS = (ACROSS - 1) * STRIDE_X + (KERNEL_X - 1) * DILATION_X + 1,
};

struct depthwise_args {
    const T *x, *w; // w: [kernel position][channel]
    int channels, images;
    conv_sizes s;
};

typedef columns_of<T, CHANNELS> elements;

// Which position of the kernel output `o` sees an input at, -1: none. Known when this is compiled.
DEVICE constexpr int tap_of(int input, int o, int stride, int dilation, int kernel)
{
    int at = input - o * stride;
    return at >= 0 && at % dilation == 0 && at / dilation < kernel ? at / dilation : -1;
}
DEVICE constexpr bool is_seen(int input, int outputs, int stride, int dilation, int kernel)
{
    bool seen = false;
    for (int o = 0; o < outputs; o++)
        seen = seen || tap_of(input, o, stride, dilation, kernel) >= 0;
    return seen;
}

// The inputs of a row, from column x on; zeros where there is none.
DEVICE void load_row(elements (&v)[COLUMNS], const depthwise_args &p, const T *row, int x, bool exists)
{
#pragma unroll
    for (int j = 0; j < COLUMNS; j++) {
        if (!is_seen(j, ACROSS, STRIDE_X, DILATION_X, KERNEL_X))
            continue;
#pragma unroll
        for (int c = 0; c < CHANNELS; c++)
            v[j].v[c] = from_float<T>(0);
        if (exists && (u32)(x + j) < (u32)p.s.in[2])
            v[j] = *(const elements *)(row + j * p.s.step[2]);
    }
}

// What a row of inputs adds with a row of the kernel.
DEVICE void add_row(float (&sum)[ACROSS][CHANNELS], const float (&v)[COLUMNS][CHANNELS],
                    const float (&w)[KERNEL_X][CHANNELS])
{
#pragma unroll
    for (int j = 0; j < COLUMNS; j++)
#pragma unroll
        for (int i = 0; i < ACROSS; i++) {
            const int tap = tap_of(j, i, STRIDE_X, DILATION_X, KERNEL_X);
            if (tap >= 0)
#pragma unroll
                for (int c = 0; c < CHANNELS; c++)
                    sum[i][c] += v[j][c] * w[tap < 0 ? 0 : tap][c];
        }
}

DEVICE void widen(float (&to)[COLUMNS][CHANNELS], const elements (&v)[COLUMNS])
{
#pragma unroll
    for (int j = 0; j < COLUMNS; j++)
#pragma unroll
        for (int c = 0; c < CHANNELS; c++)
            to[j][c] = is_seen(j, ACROSS, STRIDE_X, DILATION_X, KERNEL_X) ? to_float(v[j].v[c]) : 0;
}

DEVICE void load_weights(float (&to)[KERNEL_X][CHANNELS], const depthwise_args &p, int row, int channel)
{
#pragma unroll
    for (int k = 0; k < KERNEL_X; k++) {
        elements e = *(const elements *)(p.w + (i64)(row * KERNEL_X + k) * p.channels + channel);
#pragma unroll
        for (int c = 0; c < CHANNELS; c++)
            to[k][c] = to_float(e.v[c]);
    }
}

// y, x: the window's first place, inside the input or not; first: what lies there.
DEVICE void add_windows(float (&sum)[DOWN][ACROSS][CHANNELS], const depthwise_args &p, const T *first, int y,
                        int x, int channel)
{
#if HELD
    float w[KERNEL_Y][KERNEL_X][CHANNELS];
#pragma unroll
    for (int k = 0; k < KERNEL_Y; k++)
        load_weights(w[k], p, k, channel);
    wait_for_predecessor();
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        if (!is_seen(r, DOWN, STRIDE_Y, DILATION_Y, KERNEL_Y))
            continue;
        elements v[COLUMNS];
        float wide[COLUMNS][CHANNELS];
        load_row(v, p, first + r * p.s.step[1], x, (u32)(y + r) < (u32)p.s.in[1]);
        widen(wide, v);
#pragma unroll
        for (int d = 0; d < DOWN; d++) {
            const int tap = tap_of(r, d, STRIDE_Y, DILATION_Y, KERNEL_Y);
            if (tap >= 0)
                add_row(sum[d], wide, w[tap < 0 ? 0 : tap]);
        }
    }
#else
    wait_for_predecessor();
#pragma unroll 1
    for (int k = 0; k < KERNEL_Y; k++) {
        elements v[COLUMNS];
        float wide[COLUMNS][CHANNELS], w[KERNEL_X][CHANNELS];
        int r = k * DILATION_Y;
        load_weights(w, p, k, channel);
        load_row(v, p, first + r * p.s.step[1], x, (u32)(y + r) < (u32)p.s.in[1]);
        widen(wide, v);
        add_row(sum[0], wide, w);
    }
#endif
}

extern "C" __global__ void __launch_bounds__(THREADS)
    conv_depthwise(const __grid_constant__ depthwise_args p, const __grid_constant__ finish_args f)
{
    u32 parts = p.channels / CHANNELS, wide = (p.s.out[2] + ACROSS - 1) / ACROSS;
    u32 high = (p.s.out[1] + DOWN - 1) / DOWN, index = blockIdx.x * THREADS + threadIdx.x;
    if (index >= p.images * high * wide * parts)
        return;
    u32 rest = index / parts, channel = (index - rest * parts) * CHANNELS;
    u32 line = rest / wide, across = (rest - line * wide) * ACROSS;
    u32 image = line / high, down = (line - image * high) * DOWN;
    float sum[DOWN][ACROSS][CHANNELS] = {};
    int y = (int)down * STRIDE_Y - p.s.pad[1], x = (int)across * STRIDE_X - p.s.pad[2];
    const T *first = p.x + (i64)image * p.s.image + channel + y * p.s.step[1] + x * p.s.step[2];
    add_windows(sum, p, first, y, x, channel);
    finish_places at = finish_matrix(f, 0);
#pragma unroll
    for (int d = 0; d < DOWN; d++) {
        batch_places<ACROSS> places;
#pragma unroll
        for (int i = 0; i < ACROSS; i++) {
            places.row[i] = (image * p.s.out[1] + down + d) * p.s.out[2] + across + i;
            places.exists[i] = down + d < p.s.out[1] && across + i < p.s.out[2];
        }
        finish_batch<ACROSS, CHANNELS>(f, at, places, channel, CHANNELS, sum[d]);
    }
}
