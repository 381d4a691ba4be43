// matmul_skinny.cu -- products of some rows with a matrix that is read once, by matrix units.
// SPDX-License-Identifier: Apache-2.0
//
// Given before: ELEMENT, ROWS (a multiple of 8, at least m), TILES (of 16 columns, that a warp has), WARPS_K (of a block, that share k),
// WARPS_N (side by side), STAGES (steps of k in shared memory), SPLITS (blocks that share k, a cluster), RUN (steps of k that a warp has
// side by side, a power of two), B_EARLY (B is constant). k is adjacent in both operands, whose lines begin at multiples of 16 bytes.
// Sums are added in the same order in every run.
//
// A lane loads 16 bytes of a line: what it holds of four neighbours' k is what products want of it, in another order of k that is the
// same in both operands. So every lane reads from shared memory what it has copied there itself, and no warp waits for another. B's
// columns are the 16 rows of a product, rows of A its 8 columns.
#include "common.cuh"
#include "finish.cuh"

typedef ELEMENT T;
enum {
    WARPS = WARPS_K * WARPS_N,
    THREADS = WARPS * 32,
    EACH = 16 / sizeof(T),           // elements that are loaded at once
    STEP = 4 * EACH,                 // of k
    COLS = TILES * 16 * WARPS_N,     // of a block
    PITCH = COLS + 4,                // of sums: eight lines apart begins another bank
    GROUPS = ROWS / 8,               // of rows
    LOADS = 2 * TILES + GROUPS,      // of a lane, for a step
    WORKERS = SPLITS * WARPS_K,      // that share k
    UNITS = ROWS * COLS / 8,         // of 8 results
};

struct skinny_args {
    const T *a, *b;
    int m, n, k;
    i64 a_row, b_col; // strides
    axes a_z, b_z;
};

// What a lane reads, and where to.
struct share {
    const T *a, *b; // of step 0
    u32 slot;       // in shared memory
    int worker, first; // k of step 0
};

DEVICE u32 slot_of(const share &s, int stage, int load) { return s.slot + (stage * LOADS + load) * (THREADS * 16); }

// k of the worker's i-th step, from that of step 0.
DEVICE int k_of(const share &s, int i) { return (i / RUN * (RUN * WORKERS) + s.worker * RUN + i % RUN) * STEP; }

DEVICE int steps_of(int k, int worker)
{
    const int all = (k + STEP - 1) / STEP, rounds = all / (RUN * WORKERS);
    const int rest = all - rounds * RUN * WORKERS - worker * RUN;
    return rounds * RUN + (rest < 0 ? 0 : rest < RUN ? rest : RUN);
}

// Of the matrix that is read once.
DEVICE void copy_once(u32 to, const void *from, bool valid)
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(valid ? 16 : 0));
#else
    copy16(to, from, valid);
#endif
}

DEVICE void copy_columns(const skinny_args &p, const share &s, int i, int col)
{
    const int k = k_of(s, i);
    const bool inside = s.first + k < p.k;
#pragma unroll
    for (int j = 0; j < 2 * TILES; j++)
        copy_once(slot_of(s, i % STAGES, j), s.b + k + j * 8 * p.b_col, inside && col + j * 8 < p.n);
}

DEVICE void copy_rows(const skinny_args &p, const share &s, int i, int row)
{
    const int k = k_of(s, i);
    const bool inside = s.first + k < p.k;
#pragma unroll
    for (int g = 0; g < GROUPS; g++)
        copy16(slot_of(s, i % STAGES, 2 * TILES + g), s.a + k + g * 8 * p.a_row, inside && row + g * 8 < p.m);
}

DEVICE void load_slot(u32 (&to)[4], u32 at)
{
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(at));
#pragma unroll
    for (int i = 0; i < 4; i++)
        to[i] = shortened<T>(to[i]);
}

DEVICE void multiply(float (&sum)[TILES][GROUPS][4], const share &s, int stage)
{
    u32 x[GROUPS][4];
#pragma unroll
    for (int g = 0; g < GROUPS; g++)
        load_slot(x[g], slot_of(s, stage, 2 * TILES + g));
#pragma unroll
    for (int j = 0; j < TILES; j++) {
        u32 low[4], high[4]; // 8 columns each
        load_slot(low, slot_of(s, stage, 2 * j));
        load_slot(high, slot_of(s, stage, 2 * j + 1));
#pragma unroll
        for (int h = 0; h < 4; h += 2) {
            const u32 w[4] = {low[h], high[h], low[h + 1], high[h + 1]};
#pragma unroll
            for (int g = 0; g < GROUPS; g++)
                multiply_fragments<T>(sum[j][g], w, x[g][h], x[g][h + 1]);
        }
    }
}

// Those of a warp, to its columns of [ROWS][PITCH].
DEVICE void put_sums(const float (&sum)[TILES][GROUPS][4], float *to)
{
    const int lane = threadIdx.x % 32;
    to += lane % 4 * 2 * PITCH + lane / 4;
#pragma unroll
    for (int j = 0; j < TILES; j++)
#pragma unroll
        for (int g = 0; g < GROUPS; g++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                to[(g * 8 + i % 2) * PITCH + j * 16 + i / 2 * 8] = sum[j][g][i];
}

DEVICE void add8(float (&x)[8], const float4 &low, const float4 &high)
{
    x[0] += low.x, x[1] += low.y, x[2] += low.z, x[3] += low.w;
    x[4] += high.x, x[5] += high.y, x[6] += high.z, x[7] += high.w;
}

// Of all warps that share k, or of all blocks that do.
DEVICE void add_warps(float (&x)[8], const float *sums)
{
#pragma unroll
    for (int w = 0; w < WARPS_K; w++) {
        const float4 *at = (const float4 *)(sums + w * ROWS * PITCH);
        add8(x, at[0], at[1]);
    }
}
#if SPLITS > 1
DEVICE void add_blocks(float (&x)[8], const float *sums)
{
    const u32 at = shared_address(sums);
#pragma unroll
    for (int q = 0; q < SPLITS; q++)
        add8(x, load_cluster16(at, q), load_cluster16(at + 16, q));
}
#endif

extern "C" __global__ void __launch_bounds__(THREADS) matmul_skinny(const __grid_constant__ skinny_args p,
                                                                const __grid_constant__ finish_args f)
{
    extern __shared__ __align__(128) char shared[];
    float *sums = (float *)shared; // [WARPS_K][ROWS][PITCH], when all was multiplied
    const u32 blocks = (p.n + COLS - 1) / COLS, split = blockIdx.x % SPLITS, block = blockIdx.x / SPLITS;
    const u32 z = block / blocks, warp = threadIdx.x / 32, line = threadIdx.x % 32 / 4;
    const int col = (block - z * blocks) * COLS, own = warp % WARPS_N * TILES * 16;
    share s;
    s.first = threadIdx.x % 4 * EACH;
    s.a = p.a + along<2>(p.a_z, z) + line * p.a_row + s.first;
    s.b = p.b + along<2>(p.b_z, z) + (col + own + line) * p.b_col + s.first;
    s.slot = shared_address(shared) + threadIdx.x * 16;
    s.worker = split * WARPS_K + warp / WARPS_N;
    const int steps = steps_of(p.k, s.worker);
#if B_EARLY
#pragma unroll
    for (int i = 0; i < STAGES - 1; i++)
        copy_columns(p, s, i, col + own + line);
#endif
    wait_for_predecessor();
#pragma unroll
    for (int i = 0; i < STAGES - 1; i++) {
        if (!B_EARLY)
            copy_columns(p, s, i, col + own + line);
        copy_rows(p, s, i, line);
        copies_end_group();
    }
    float sum[TILES][GROUPS][4];
#pragma unroll
    for (int i = 0; i < TILES * GROUPS * 4; i++)
        sum[i / 4 / GROUPS][i / 4 % GROUPS][i % 4] = 0;
    for (int i = 0; i < steps; i++) {
        copies_wait<STAGES - 2>();
        multiply(sum, s, i % STAGES);
        if (i + STAGES - 1 < steps) {
            copy_columns(p, s, i + STAGES - 1, col + own + line);
            copy_rows(p, s, i + STAGES - 1, line);
        }
        copies_end_group();
    }
    copies_wait<0>();
    __syncthreads(); // sums come to stand where copies went
    put_sums(sum, sums + warp / WARPS_N * ROWS * PITCH + own);
    __syncthreads();
#if SPLITS > 1
    for (int u = threadIdx.x; u < UNITS; u += THREADS) {
        float x[8] = {0, 0, 0, 0, 0, 0, 0, 0}, *at = sums + u / (COLS / 8) * PITCH + u % (COLS / 8) * 8;
        add_warps(x, at);
#pragma unroll
        for (int i = 0; i < 8; i++)
            at[i] = x[i];
    }
    cluster_barrier();
#endif
    const finish_places places = finish_matrix(f, z);
    for (int u = threadIdx.x * SPLITS + split; u < UNITS; u += THREADS * SPLITS) {
        const int row = u / (COLS / 8), c = u % (COLS / 8) * 8, left = p.n - col - c;
        if (row >= p.m || left <= 0)
            continue;
        float x[8] = {0, 0, 0, 0, 0, 0, 0, 0};
#if SPLITS > 1
        add_blocks(x, sums + row * PITCH + c);
#else
        add_warps(x, sums + row * PITCH + c);
#endif
        finish8(f, places, row, col + c, left < 8 ? left : 8, x);
    }
#if SPLITS > 1
    cluster_barrier(); // until all was read
#endif
}
