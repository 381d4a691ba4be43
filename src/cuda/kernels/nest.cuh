// nest.cuh -- places in a nest of loops from a running index.
// SPDX-License-Identifier: Apache-2.0
//
// Follows common.cuh. WIDE: indices may exceed 2^31; else quotients are products (cuda/nest.h makes them).
#pragma once

struct axis {
    u64 size;
    u32 magic, shift;
};

#if WIDE
typedef u64 index;
DEVICE index quotient(index n, axis by) { return n / by.size; }
DEVICE index size_of(axis by) { return by.size; }
#else
typedef u32 index;
DEVICE index quotient(index n, axis by) { return (__umulhi(n, by.magic) + n) >> by.shift; }
DEVICE index size_of(axis by) { return (u32)by.size; }
#endif

DEVICE index first_index() { return (index)blockIdx.x * blockDim.x + threadIdx.x; }
DEVICE index all_threads() { return (index)gridDim.x * blockDim.x; }
