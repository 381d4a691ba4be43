// conv_sizes.cuh -- what a convolution's kernels are told of sizes, as cuda/conv.h has it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

struct conv_sizes { // axes are depth, height, width
    int in[3], out[3], kernel[3], stride[3], dilation[3], pad[3];
    i64 image, channel, step[3]; // strides of the input
};
