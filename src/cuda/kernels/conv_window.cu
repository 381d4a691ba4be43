// conv_window.cu -- convolutions with few channels in a group: a block brings the patch of the image that its tile of outputs sees into
// shared memory, and multiplies from there. Each group has products of its own: what is not finite stays in it.
// SPDX-License-Identifier: Apache-2.0
//
// Given before: ELEMENT, KERNEL_Y, KERNEL_X, STRIDE_Y, STRIDE_X, DILATION_Y, DILATION_X, HIGH, WIDE (outputs of a tile), WARPS, TALL (16
// outputs each, that a warp makes at once), and of the columns: they come in blocks of 32, BLOCKS to a tile, TILES of 8 in each (fewer
// where all columns are less than 32); GROUPS in a block, of IN channels each. ALIKE: one group is that of all blocks.
//
// k is kernel positions and, inside, channels, in units of 8 bytes: lane l of a product has unit l % 4 of each step, whose two words are
// what fragments have apart from each other. The weights are packed in that order: [block][step][tile][lane].
#include "common.cuh"
#include "conv_sizes.cuh"
#include "finish.cuh"
#include "finish_batch.cuh"
#include "ptx_matrix.cuh"

typedef ELEMENT T;
enum {
    THREADS = WARPS * 32,
    TAPS = KERNEL_Y * KERNEL_X,
    UNITS = IN * sizeof(T) / 8, // of a kernel position
    STEPS = (TAPS * UNITS + 3) / 4,
    ROWS = (HIGH - 1) * STRIDE_Y + (KERNEL_Y - 1) * DILATION_Y + 1, // of a patch
    ACROSS = (WIDE - 1) * STRIDE_X + (KERNEL_X - 1) * DILATION_X + 1,
    BLOCK_BYTES = GROUPS * IN * sizeof(T), // of a pixel, that a block of columns sees
    SLAB = BLOCK_BYTES * (ALIKE ? 1 : BLOCKS),
    CHUNKS = SLAB / 16,
    // Pixels that are read together lie in different banks: an odd number of what a unit or four of them take.
    PITCH = UNITS % 4 == 0 ? (SLAB / 32 | 1) * 32 : (CHUNKS | 1) * 16,
    PATCH_BYTES = ROWS * ACROSS * PITCH,
    WEIGHT_BYTES = STEPS * TILES * 256, // of a block
    ITEMS = (HIGH * WIDE + TALL * 16 - 1) / (TALL * 16),
    SHARERS = GROUPS > TILES ? GROUPS / TILES : 1, // groups of a tile
    EACH = GROUPS < TILES ? TILES / GROUPS : 1,    // tiles of a group
};

struct window_args {
    const T *x, *w;
    int n;              // columns
    u32 slabs, blocks;  // of columns, all of them
    conv_sizes s;
};

struct window_place {
    u32 image, slab;
    int y, x; // of the first output
};
DEVICE window_place place_of(const window_args &p, u32 index)
{
    u32 right = (p.s.out[2] + WIDE - 1) / WIDE, down = (p.s.out[1] + HIGH - 1) / HIGH;
    window_place t;
    u32 tile = index / p.slabs, line = tile / right;
    t.slab = index - tile * p.slabs;
    t.x = (tile - line * right) * WIDE;
    t.image = line / down;
    t.y = (line - t.image * down) * HIGH;
    return t;
}

DEVICE void copy_weights(const window_args &p, u32 slab, u32 to)
{
    u32 first = slab * BLOCKS, left = p.blocks - first;
    u32 all = (left < BLOCKS ? left : BLOCKS) * (WEIGHT_BYTES / 16);
    const char *from = (const char *)p.w + (i64)first * WEIGHT_BYTES;
    for (u32 i = threadIdx.x; i < all; i += THREADS)
        copy16(to + i * 16, from + i * 16, true);
}

// Zeros where the image has no pixel.
DEVICE void copy_patch(const window_args &p, const window_place &t, u32 to)
{
    int first_y = t.y * STRIDE_Y - p.s.pad[1], first_x = t.x * STRIDE_X - p.s.pad[2];
    const char *image = (const char *)(p.x + (i64)t.image * p.s.image) + (ALIKE ? 0 : t.slab * SLAB);
#pragma unroll 4
    for (u32 i = threadIdx.x; i < ROWS * ACROSS * CHUNKS; i += THREADS) {
        u32 pixel = i / CHUNKS, chunk = i - pixel * CHUNKS, row = pixel / ACROSS;
        int y = first_y + (int)row, x = first_x + (int)(pixel - row * ACROSS);
        bool inside = (u32)y < (u32)p.s.in[1] && (u32)x < (u32)p.s.in[2];
        const char *from = image + (y * p.s.step[1] + x * p.s.step[2]) * (i64)sizeof(T) + chunk * 16;
        copy16(to + pixel * PITCH + chunk * 16, inside ? from : (const char *)p.x, inside);
    }
}

// Where a unit lies from the first of its window on. Known when this is compiled.
DEVICE constexpr u32 unit_at(int unit)
{
    const int tap = unit / UNITS < TAPS ? unit / UNITS : 0;
    return (tap / KERNEL_X * DILATION_Y * ACROSS + tap % KERNEL_X * DILATION_X) * PITCH + unit % UNITS * 8;
}
DEVICE u32 own_unit_at(int step)
{
    u32 own = threadIdx.x % 4;
    if (UNITS % 4 == 0)
        return unit_at(step * 4) + own * 8;
    return own == 0   ? unit_at(step * 4)
           : own == 1 ? unit_at(step * 4 + 1)
           : own == 2 ? unit_at(step * 4 + 2)
                      : unit_at(step * 4 + 3);
}

DEVICE void load_unit(u32 &first, u32 &second, u32 at)
{
    asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];" : "=r"(first), "=r"(second) : "r"(at));
}

struct sums {
    float v[TALL][TILES][SHARERS][4];
};

// A group's step; units behind the last one are zeros.
DEVICE void multiply_group(sums &s, int group, bool exists, const u32 (&windows)[TALL][2], u32 at,
                           const u32 (&right)[TILES][2])
{
#pragma unroll
    for (int i = 0; i < TALL; i++) {
        u32 left[4];
        load_unit(left[0], left[2], windows[i][0] + at);
        load_unit(left[1], left[3], windows[i][1] + at);
#pragma unroll
        for (int q = 0; q < 4; q++)
            left[q] = exists ? shortened<T>(left[q]) : 0;
#pragma unroll
        for (int e = 0; e < EACH; e++) {
            const int tile = group / SHARERS * EACH + e;
            multiply_fragments<T>(s.v[i][tile][group % SHARERS], left, right[tile][0], right[tile][1]);
        }
    }
}

// windows: where those of this lane's two outputs of each 16 begin.
DEVICE void multiply(sums &s, const u32 (&windows)[TALL][2], u32 weights)
{
    const u32 own = threadIdx.x % 4, lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < TALL * TILES * SHARERS * 4; i++)
        s.v[i / (TILES * SHARERS * 4)][i / (SHARERS * 4) % TILES][i / 4 % SHARERS][i % 4] = 0;
#pragma unroll
    for (int step = 0; step < STEPS; step++) {
        u32 right[TILES][2], at = own_unit_at(step);
        bool exists = (step + 1) * 4 <= TAPS * UNITS || step * 4 + own < TAPS * UNITS;
#pragma unroll
        for (int t = 0; t < TILES; t++)
            load_unit(right[t][0], right[t][1], weights + ((step * TILES + t) * 32 + lane) * 8);
#pragma unroll
        for (int g = 0; g < GROUPS; g++)
            multiply_group(s, g, exists, windows, at + g * (IN * sizeof(T)), right);
    }
}

// A lane's two columns of four tiles become eight of one, by exchange with those beside it.
DEVICE void gather_columns(const float (&from)[TILES][SHARERS][4], float (&to)[2][8])
{
    const u32 own = threadIdx.x % 4;
    float v[4][4];
#pragma unroll
    for (int t = 0; t < 4; t++)
#pragma unroll
        for (int c = 0; c < 4; c++) {
            v[t][c] = t < TILES ? from[t < TILES ? t : 0][0][c] : 0;
#pragma unroll
            for (int s = 1; s < SHARERS; s++) { // by values: a choice of places would bring sums into memory
                float other = from[t < TILES ? t : 0][s][c];
                asm("{ .reg .pred is; setp.eq.u32 is, %2, %3; selp.f32 %0, %1, %0, is; }"
                    : "+f"(v[t][c])
                    : "f"(other), "r"(own * SHARERS / 4), "r"(s));
            }
        }
#pragma unroll
    for (int b = 1; b < 4; b *= 2)
#pragma unroll
        for (int t = 0; t < 4; t++)
#pragma unroll
            for (int c = 0; c < 4 && !(t & b); c++) {
                float got = __shfl_xor_sync(~0u, own & b ? v[t][c] : v[t | b][c], b);
                v[t][c] = own & b ? got : v[t][c];
                v[t | b][c] = own & b ? v[t | b][c] : got;
            }
#pragma unroll
    for (int c = 0; c < 16; c++)
        to[c / 8][c % 8] = v[c % 8 / 2][c / 8 * 2 + c % 2];
}

// Outputs of a tile from `first` on.
DEVICE void hand_out(const sums &s, const window_args &p, const finish_args &f, const finish_places &at,
                     const window_place &t, int first, int column)
{
    const int lane = threadIdx.x % 32, own = column + lane % 4 * 8, n = p.n - own < 8 ? p.n - own : 8;
    batch_places<TALL * 2> rows;
    float x[TALL * 2][8];
#pragma unroll
    for (int i = 0; i < TALL * 2; i++) {
        int pixel = first + i * 8 + lane / 4, down = pixel / WIDE;
        int row = t.y + down, col = t.x + pixel - down * WIDE;
        rows.row[i] = (t.image * p.s.out[1] + row) * p.s.out[2] + col;
        rows.exists[i] = pixel < HIGH * WIDE && row < p.s.out[1] && col < p.s.out[2];
    }
#pragma unroll
    for (int i = 0; i < TALL; i++) {
        float both[2][8];
        gather_columns(s.v[i], both);
#pragma unroll
        for (int c = 0; c < 16; c++)
            x[i * 2 + c / 8][c % 8] = both[c / 8][c % 8];
    }
    if (n > 0)
        finish_batch<TALL * 2, 8>(f, at, rows, own, n, x);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    conv_window(const __grid_constant__ window_args p, const __grid_constant__ finish_args f)
{
    extern __shared__ __align__(128) char shared[]; // the patch, the weights
    const u32 patch = shared_address(shared), weights = patch + PATCH_BYTES;
    const window_place t = place_of(p, blockIdx.x);
    copy_weights(p, t.slab, weights);
    wait_for_predecessor();
    copy_patch(p, t, patch);
    copies_end_group();
    copies_wait<0>();
    __syncthreads();
    const finish_places at = finish_matrix(f, 0);
    const int lane = threadIdx.x % 32;
    for (u32 item = threadIdx.x / 32; item < ITEMS * BLOCKS; item += WARPS) {
        const u32 block = item / ITEMS, first = (item - block * ITEMS) * (TALL * 16);
        u32 windows[TALL][2];
        sums s;
        if (t.slab * BLOCKS + block >= p.blocks)
            break;
#pragma unroll
        for (int i = 0; i < TALL * 2; i++) {
            u32 pixel = first + i * 8 + lane / 4, down = pixel / WIDE;
            u32 place = (down * (STRIDE_Y * ACROSS) + (pixel - down * WIDE) * STRIDE_X) * PITCH;
            windows[i / 2][i % 2] = patch + (pixel < HIGH * WIDE ? place : 0) + (ALIKE ? 0 : block * BLOCK_BYTES);
        }
        multiply(s, windows, weights + block * WEIGHT_BYTES);
        hand_out(s, p, f, at, t, first, (t.slab * BLOCKS + block) * 32);
    }
}
