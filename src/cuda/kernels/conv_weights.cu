// conv_weights.cu -- weights that a run brings, in the form that convolutions as products read: a line for each output channel, in it
// kernel positions and, inside, input channels; zeros up to the pitch.
// SPDX-License-Identifier: Apache-2.0
#include "common.cuh"
#include "ptx_matrix.cuh"

typedef ELEMENT T;

struct weights_args {
    const T *from;
    T *to;
    u32 lines, pitch, inputs, taps, outputs; // inputs, outputs: channels of a group
    u32 kernel[3];
    i64 group, out, in, tap[3]; // strides of `from`
};

extern "C" __global__ void __launch_bounds__(256) conv_weights(const __grid_constant__ weights_args p)
{
    wait_for_predecessor();
    u64 all = (u64)p.lines * p.pitch;
    for (u64 i = (u64)blockIdx.x * 256 + threadIdx.x; i < all; i += (u64)gridDim.x * 256) {
        u32 line = (u32)(i / p.pitch), k = (u32)(i - (u64)line * p.pitch);
        u32 tap = k / p.inputs, channel = k - tap * p.inputs, group = line / p.outputs;
        T v = from_float<T>(0);
        if (tap < p.taps) {
            u32 y = tap / p.kernel[2], z = y / p.kernel[1];
            v = p.from[group * p.group + (line - group * p.outputs) * p.out + channel * p.in + z * p.tap[0] +
                       (y - z * p.kernel[1]) * p.tap[1] + (tap - y * p.kernel[2]) * p.tap[2]];
        }
        p.to[i] = v;
    }
}
