// matmul_few.cu -- products of a few rows with a matrix that is read once, as fast as memory gives it.
// SPDX-License-Identifier: Apache-2.0
//
// Given before: ELEMENT, ROWS (at least m), B_ACROSS (columns of B are adjacent, else k is, in A too), SPLITS (blocks that share k, a
// cluster), B_EARLY (B is constant). B's lines begin at multiples of 16 bytes. Sums are added in the same order in every run.
#include "common.cuh"
#include "finish.cuh"

typedef ELEMENT T;
enum {
    WARPS = 8,
    THREADS = WARPS * 32,
    EACH = 16 / sizeof(T),          // elements that are loaded at once
    COLS = B_ACROSS ? 8 * EACH : 8, // of a block
    UNROLL = 4,
};

struct few_args {
    const T *a, *b;
    int m, n, k;
    i64 a_row, a_k, b_line; // strides; B's lines are of columns or of k
    axes a_z, b_z;
};

struct share {
    int first, last; // of k
};

// Elements beyond the end are zeros.
DEVICE vec16<T> load_line(const T *p, bool valid)
{
    vec16<T> v;
    uint4 bits = make_uint4(0, 0, 0, 0);
    if (valid)
        asm volatile("ld.global.nc.L1::no_allocate.v4.b32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(bits.x), "=r"(bits.y), "=r"(bits.z), "=r"(bits.w)
                     : "l"(p));
    *(uint4 *)&v = bits;
    return v;
}

#if B_ACROSS
// A lane has EACH columns of every 32nd k; 8 lanes a line of the block's columns.
DEVICE void multiply(float (&sum)[ROWS][COLS / 8], const few_args &p, const T *a, const T *b, int col, share s)
{
    enum { STEP = WARPS * 4 };
    int lane = threadIdx.x % 32, own = threadIdx.x / 8;
    bool inside = col + lane % 8 * EACH < p.n;
    b += col + lane % 8 * EACH;
    for (int k = s.first + own; k < s.last; k += STEP * UNROLL) {
        vec16<T> v[UNROLL];
#pragma unroll
        for (int u = 0; u < UNROLL; u++)
            v[u] = load_line(b + (i64)(k + u * STEP) * p.b_line, inside && k + u * STEP < s.last);
#pragma unroll
        for (int u = 0; u < UNROLL; u++)
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                bool is = r < p.m && k + u * STEP < s.last;
                float x = is ? to_float(a[r * p.a_row + (k + u * STEP) * p.a_k]) : 0;
#pragma unroll
                for (int c = 0; c < EACH; c++)
                    sum[r][c] += x * to_float(v[u].v[c]);
            }
    }
}

// To the lanes below 8: the columns of all of the warp's k.
DEVICE void gather(float (&sum)[ROWS][COLS / 8], float (*to)[COLS])
{
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
        for (int c = 0; c < EACH; c++) {
            float x = sum[r][c];
            x += __shfl_xor_sync(~0u, x, 8);
            x += __shfl_xor_sync(~0u, x, 16);
            if (lane < 8)
                to[r][lane * EACH + c] = x;
        }
}
enum { LANE_SUMS = COLS / 8 };
#else
// A warp has all columns, a lane EACH of every 32 EACH k.
DEVICE void multiply(float (&sum)[ROWS][8], const few_args &p, const T *a, const T *b, int col, share s)
{
    enum { STEP = THREADS * EACH };
    b += (i64)col * p.b_line;
    for (int k = s.first + threadIdx.x * EACH; k < s.last; k += STEP) {
        vec16<T> v[8];
#pragma unroll
        for (int c = 0; c < 8; c++)
            v[c] = load_line(b + c * p.b_line + k, col + c < p.n);
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            vec16<T> x = load_line(a + r * p.a_row + k, r < p.m);
#pragma unroll
            for (int e = 0; e < EACH; e++) {
                float each = k + e < s.last ? to_float(x.v[e]) : 0;
#pragma unroll
                for (int c = 0; c < 8; c++)
                    sum[r][c] += each * (k + e < s.last ? to_float(v[c].v[e]) : 0);
            }
        }
    }
}

DEVICE void gather(float (&sum)[ROWS][8], float (*to)[COLS])
{
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
        for (int c = 0; c < 8; c++) {
            float x = sum[r][c];
#pragma unroll
            for (int apart = 1; apart < 32; apart *= 2)
                x += __shfl_xor_sync(~0u, x, apart);
            if (lane == 0)
                to[r][c] = x;
        }
}
enum { LANE_SUMS = 8 };
#endif

// Sums of all warps, of 8 columns from `c` on.
DEVICE void add_warps(float (&x)[8], const float (*sums)[ROWS][COLS], int row, int c)
{
#pragma unroll
    for (int i = 0; i < 8; i++) {
        x[i] = 0;
#pragma unroll
        for (int w = 0; w < WARPS; w++)
            x[i] += sums[w][row][c + i];
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) matmul_few(const __grid_constant__ few_args p,
                                                             const __grid_constant__ finish_args f)
{
    __shared__ __align__(16) float sums[WARPS][ROWS][COLS], total[ROWS][COLS];
    u32 blocks = (p.n + COLS - 1) / COLS, split = blockIdx.x % SPLITS, block = blockIdx.x / SPLITS;
    u32 z = block / blocks;
    int col = (block - z * blocks) * COLS, lines = (p.k + EACH - 1) / EACH;
    share s = {(int)((i64)lines * split / SPLITS) * EACH, (int)((i64)lines * (split + 1) / SPLITS) * EACH};
    s.last = s.last < p.k ? s.last : p.k;
    const T *a = p.a + along<2>(p.a_z, z), *b = p.b + along<2>(p.b_z, z);
    if (B_EARLY && B_ACROSS && s.first + (int)threadIdx.x < s.last)
        prefetch(b + (i64)(s.first + threadIdx.x) * p.b_line + col);
    wait_for_predecessor();
    float sum[ROWS][LANE_SUMS];
#pragma unroll
    for (int i = 0; i < ROWS * LANE_SUMS; i++)
        sum[i / LANE_SUMS][i % LANE_SUMS] = 0;
    multiply(sum, p, a, b, col, s);
    gather(sum, sums[threadIdx.x / 32]);
    __syncthreads();
    int row = threadIdx.x / (COLS / 8), c = threadIdx.x % (COLS / 8) * 8;
    float x[8];
    if (row < ROWS)
        add_warps(x, sums, row, c);
#if SPLITS > 1
    if (row < ROWS)
        for (int i = 0; i < 8; i++)
            total[row][c + i] = x[i];
    cluster_barrier();
    if (row < ROWS && split == 0)
        for (int q = 1; q < SPLITS; q++) {
            u32 at = shared_address(&total[row][c]);
            float4 low = load_cluster16(at, q), high = load_cluster16(at + 16, q);
            x[0] += low.x, x[1] += low.y, x[2] += low.z, x[3] += low.w;
            x[4] += high.x, x[5] += high.y, x[6] += high.z, x[7] += high.w;
        }
    cluster_barrier(); // until all was read
#endif
    if (row < p.m && row < ROWS && split == 0 && col + c < p.n)
        finish8(f, finish_matrix(f, z), row, col + c, p.n - col - c < 8 ? p.n - col - c : 8, x);
}
