// conv_few.cu -- an image of few channels made ready for products: 4 channels a pixel, borders of zeros, any layout before.
// SPDX-License-Identifier: Apache-2.0
#include "common.cuh"
#include "ptx_matrix.cuh"

typedef ELEMENT T;

struct few_args {
    const T *x;
    vec16<T> *to; // [image][row][chunk of pixels]
    int images, channels;
    int in[2], pad[2];        // height, width
    int rows, chunks;         // of the result
    i64 image, channel, step[2]; // strides of x
};

extern "C" __global__ void __launch_bounds__(256) conv_few(const __grid_constant__ few_args p)
{
    enum { PIXELS = 16 / (4 * sizeof(T)) }; // of a chunk
    u64 index = (u64)blockIdx.x * 256 + threadIdx.x;
    if (index >= (u64)p.images * p.rows * p.chunks)
        return;
    u32 line = (u32)(index / p.chunks), chunk = (u32)(index - (u64)line * p.chunks);
    u32 image = line / p.rows;
    int y = (int)(line - image * p.rows) - p.pad[0];
    wait_for_predecessor();
    vec16<T> v;
#pragma unroll
    for (int i = 0; i < PIXELS; i++) {
        int x = (int)chunk * PIXELS + i - p.pad[1];
        bool inside = (u32)y < (u32)p.in[0] && (u32)x < (u32)p.in[1];
        const T *from = p.x + image * p.image + y * p.step[0] + x * p.step[1];
#pragma unroll
        for (int c = 0; c < 4; c++)
            v.v[i * 4 + c] = inside && c < p.channels ? from[c * p.channel] : from_float<T>(0);
    }
    p.to[index] = v;
}
