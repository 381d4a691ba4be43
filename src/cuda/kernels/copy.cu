// copy.cu -- strided copies between tensors of the same sizes.
// SPDX-License-Identifier: Apache-2.0
#include "common.cuh"

// Dims outermost first; strides in words of the kernel. cuda/copy.c has the same struct.
struct copy_shape {
    int rank;
    int along_from, along_to; // transposed copies: the dims in which each side has stride 1
    u64 total;
    i64 dims[8], from[8], to[8];
};

template <class I, class T>
DEVICE void copy_words(const copy_shape &s, const T *from, T *to)
{
    const I total = (I)s.total, step = (I)gridDim.x * blockDim.x;
    for (I i = (I)blockIdx.x * blockDim.x + threadIdx.x; i < total; i += step) {
        I rest = i;
        i64 f = 0, t = 0;
        for (int d = s.rank - 1; d > 0; d--) {
            const I n = (I)s.dims[d], q = rest / n, at = rest - q * n;
            f += (i64)at * s.from[d];
            t += (i64)at * s.to[d];
            rest = q;
        }
        f += (i64)rest * s.from[0];
        t += (i64)rest * s.to[0];
        to[t] = from[f];
        if (total - i <= step) // i + step could wrap
            break;
    }
}

template <class T> DEVICE void copy_any(const copy_shape &s, const void *from, void *to)
{
    if (s.total <= 0xffffffffu)
        copy_words<u32>(s, (const T *)from, (T *)to);
    else
        copy_words<u64>(s, (const T *)from, (T *)to);
}

// Tiles go through shared memory, so that both sides are touched along their stride 1. A block has 32 by 8 threads and
// one tile; blocks count tiles along `along_to` fastest, then along `along_from`, then the other dims.
template <class T, int TILE>
DEVICE void transpose_any(const copy_shape &s, const void *from_bytes, void *to_bytes)
{
    __shared__ T tile[TILE][TILE + 1];
    const T *from = (const T *)from_bytes;
    T *to = (T *)to_bytes;
    const int a = s.along_from, b = s.along_to;
    const u32 tiles_a = (u32)((s.dims[a] + TILE - 1) / TILE);
    const u32 tiles_b = (u32)((s.dims[b] + TILE - 1) / TILE);
    u32 rest = blockIdx.x;
    const i64 at_b = (i64)(rest % tiles_b) * TILE;
    rest /= tiles_b;
    const i64 at_a = (i64)(rest % tiles_a) * TILE;
    rest /= tiles_a;
    for (int d = s.rank - 1; d >= 0; d--) {
        if (d == a || d == b)
            continue;
        const u32 n = (u32)s.dims[d], at = rest % n;
        rest /= n;
        from += (i64)at * s.from[d];
        to += (i64)at * s.to[d];
    }
    for (int j = threadIdx.y; j < TILE; j += 8)
        for (int i = threadIdx.x; i < TILE; i += 32)
            if (at_a + i < s.dims[a] && at_b + j < s.dims[b])
                tile[j][i] = from[at_a + i + (at_b + j) * s.from[b]];
    __syncthreads();
    for (int j = threadIdx.y; j < TILE; j += 8)
        for (int i = threadIdx.x; i < TILE; i += 32)
            if (at_b + i < s.dims[b] && at_a + j < s.dims[a])
                to[at_b + i + (at_a + j) * s.to[a]] = tile[i][j];
}

struct alignas(16) word16 {
    u64 v[2];
};

#define COPIES(NAME, T, TILE)                                                                      \
    extern "C" __global__ void __launch_bounds__(256)                                              \
        copy_##NAME(const copy_shape s, const void *from, void *to)                                \
    {                                                                                              \
        copy_any<T>(s, from, to);                                                                  \
    }                                                                                              \
    extern "C" __global__ void __launch_bounds__(256)                                              \
        transpose_##NAME(const copy_shape s, const void *from, void *to)                           \
    {                                                                                              \
        transpose_any<T, TILE>(s, from, to);                                                       \
    }

COPIES(1, u8, 64)
COPIES(2, u16, 64)
COPIES(4, u32, 32)
COPIES(8, u64, 32)
COPIES(16, word16, 32)
