// qpack.cu -- weights of a convolution that are not constant as qproduct.cu reads them: a line for each output, channels of a tap
// side by side, zeros behind.
// SPDX-License-Identifier: Apache-2.0
#include "common.cuh"
#define WIDE 1
#include "nest.cuh"

struct arguments {
    const u8 *from;
    u8 *to;
    u64 lines, line, channels, taps; // `line`: bytes of one
};

extern "C" __global__ void __launch_bounds__(256) qpack(const arguments a)
{
    for (u64 i = first_index(); i < a.lines * a.line; i += all_threads()) {
        const u64 at = i % a.line, channel = at % a.channels, tap = at / a.channels;
        const u64 from = i / a.line * (a.channels * a.taps) + channel * a.taps + tap;
        a.to[i] = tap < a.taps ? a.from[from] : 0;
    }
}
