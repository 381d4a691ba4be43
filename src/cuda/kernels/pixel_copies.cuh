// pixel_copies.cuh -- the left operand of a convolution as a product, brought by bulk copies that walk over images: rows are output
// pixels, k runs over kernel positions and, inside, channels in tiles of TILE_K.
// SPDX-License-Identifier: Apache-2.0
//
// Follows tile_wgmma.cuh. The copies know the input's sizes, the steps from pixel to pixel and how far windows may begin; what lies outside
// comes as zeros.
#pragma once

struct image_args {
    int channels, kernel_x;                    // of all; positions of a row of the kernel
    int out[2], stride[2], dilation[2], pad[2]; // height, width
};

// ROWS of TILE_K channels of the pixels that windows see at (down, right) from their beginning; the first begins at (y, x).
DEVICE void copy_pixels(u32 to, const tensor_map &map, u32 barrier, int channel, int x, int y, int image, int right,
                        int down)
{
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%3, %4, %5, %6}], [%2], {%7, %8};" ::"r"(to),
                 "l"(&map), "r"(barrier), "r"(channel), "r"(x), "r"(y), "r"(image), "h"((u16)right), "h"((u16)down)
                 : "memory");
}

// The tiles of k of one tile, in order.
struct pixel_walk {
    int image, y, x;              // of the first window
    int channel, right, down, at; // `at`: of the kernel's row

    INLINE void begin(const image_args &p, u32 row, int first)
    {
        u32 line = row / p.out[1];
        image = line / p.out[0];
        y = (line - image * p.out[0]) * p.stride[0] - p.pad[0];
        x = (row - line * p.out[1]) * p.stride[1] - p.pad[1];
        int tiles = (p.channels + TILE_K - 1) / TILE_K, tap = first / tiles;
        channel = (first - tap * tiles) * TILE_K;
        at = tap % p.kernel_x;
        right = at * p.dilation[1];
        down = tap / p.kernel_x * p.dilation[0];
    }
    INLINE void copy(const image_args &p, const tensor_map &map, u32 to, u32 barrier)
    {
        copy_pixels(to, map, barrier, channel, x, y, image, right, down);
        channel += TILE_K;
        if (channel < p.channels)
            return;
        channel = 0;
        right += p.dilation[1];
        if (++at == p.kernel_x) {
            at = right = 0;
            down += p.dilation[0];
        }
    }
};
