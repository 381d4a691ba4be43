// conv_patch.cu -- convolutions of images with up to 4 channels: a block brings the patch of the image that its tile of outputs sees into
// shared memory, 4 channels a pixel, and multiplies from there: the windows of neighbours overlap in it. The weights stay in
// shared memory; blocks stay too, and load the next patch while they multiply.
// SPDX-License-Identifier: Apache-2.0
//
// Given before: ELEMENT, IN_CHANNELS, KERNEL_Y, KERNEL_X, STRIDE_Y, STRIDE_X, DILATION_Y, WARPS, TALL (rows of 16 outputs, of a warp),
// GROUPS (32 columns each, that are summed at once). LOOSE: windows begin at any pixel (of 8 bytes); a lane of a product then has a whole
// one of each step, and the weights lie likewise. k is rows of the kernel, in each a multiple of 32 bytes of pixels.
#include "common.cuh"
#include "conv_sizes.cuh"
#include "finish.cuh"
#include "finish_batch.cuh"
#include "ptx_matrix.cuh"

typedef ELEMENT T;
enum {
    THREADS = WARPS * 32,
    WIDE = 16,           // outputs of a tile
    HIGH = WARPS * TALL, // rows of them
    COLUMNS = GROUPS * 32,
    PIXEL = 4 * sizeof(T), // bytes
    STEPS = (KERNEL_X * PIXEL + 31) / 32, // of k, of a row of the kernel
    IN_STEP = 32 / PIXEL,                 // pixels
    IN_LAST = KERNEL_X - (STEPS - 1) * IN_STEP,
    ROWS = (HIGH - 1) * STRIDE_Y + (KERNEL_Y - 1) * DILATION_Y + 1, // of a patch
    ACROSS = (WIDE - 1) * STRIDE_X + STEPS * IN_STEP,               // pixels of its rows
    ROW_BYTES = (ACROSS * PIXEL + 15) / 16 * 16,
    PATCH_BYTES = ROWS * ROW_BYTES,
    EACH = (ROWS * ACROSS + THREADS - 1) / THREADS, // pixels of a thread
    LINE = KERNEL_Y * STEPS * 32,                   // bytes of a column's weights
    PITCH = LINE + 16,                              // an odd number of 16 bytes
};

struct patch_args {
    const T *x, *w;
    int n; // columns
    u32 images;
    conv_sizes s;
};

struct patch_place {
    u32 image;
    int y, x; // of its first output
};
DEVICE patch_place place_of(const patch_args &p, u32 tile)
{
    u32 right = (p.s.out[2] + WIDE - 1) / WIDE, down = (p.s.out[1] + HIGH - 1) / HIGH, line = tile / right;
    patch_place t;
    t.x = (tile - line * right) * WIDE;
    t.image = line / down;
    t.y = (line - t.image * down) * HIGH;
    return t;
}

struct alignas(PIXEL) pixel {
    T v[4];
};
struct own_pixels {
    pixel v[EACH];
};

DEVICE void load_patch(own_pixels &to, const patch_args &p, const patch_place &t)
{
    int first_y = t.y * STRIDE_Y - p.s.pad[1], first_x = t.x * STRIDE_X - p.s.pad[2];
    const T *image = p.x + (i64)t.image * p.s.image;
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        int at = threadIdx.x + i * THREADS, row = at / ACROSS, y = first_y + row;
        int x = first_x + at - row * ACROSS;
        bool inside = row < ROWS && (u32)y < (u32)p.s.in[1] && (u32)x < (u32)p.s.in[2];
        const T *from = image + y * p.s.step[1] + x * p.s.step[2];
#pragma unroll
        for (int c = 0; c < 4; c++) {
            to.v[i].v[c] = from_float<T>(0);
            if (c < IN_CHANNELS && inside)
                to.v[i].v[c] = from[c * p.s.channel];
        }
    }
}

DEVICE void store_patch(const own_pixels &from, char *patch)
{
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        int at = threadIdx.x + i * THREADS, row = at / ACROSS;
        if (row < ROWS)
            *(pixel *)(patch + row * ROW_BYTES + (at - row * ACROSS) * PIXEL) = from.v[i];
    }
}

// By fragment_column; columns that there are not are zeros.
DEVICE void place_weights(const patch_args &p, u32 weights)
{
    u32 all = (p.n + COLUMNS - 1) / COLUMNS * COLUMNS * (LINE / 16);
    for (u32 i = threadIdx.x; i < all; i += THREADS) {
        u32 column = i / (LINE / 16), chunk = i - column * (LINE / 16);
        bool exists = column < (u32)p.n;
        copy16(weights + fragment_column(column) * PITCH + chunk * 16,
               exists ? (const char *)p.w + (i64)column * LINE + chunk * 16 : (const char *)p.w, exists);
    }
    copies_end_group();
    copies_wait<0>();
}

struct sums {
    float v[TALL][GROUPS * 4][4];
};

// What a row of the kernel does not reach any more is taken for zeros: it may be infinite.
DEVICE void cut(u32 (&a)[4])
{
#pragma unroll
    for (int q = 0; q < 4; q++) {
        int at = LOOSE ? threadIdx.x % 4 : q / 2 * (IN_STEP / 2) + (IN_STEP == 4 ? threadIdx.x % 4 / 2 : 0);
        a[q] = at < IN_LAST ? a[q] : 0;
    }
}

// 16 windows of a row; at: this lane's.
DEVICE void load_windows(u32 (&a)[4], u32 at)
{
    if (!LOOSE) {
        load_fragments(a, at);
        return;
    }
    asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];" : "=r"(a[0]), "=r"(a[2]) : "r"(at));
    asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];" : "=r"(a[1]), "=r"(a[3]) : "r"(at + 8 * STRIDE_X * PIXEL));
}

// patch: of this warp's first row of outputs.
DEVICE void multiply(sums &s, u32 patch, u32 weights)
{
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < TALL * GROUPS * 16; i++)
        s.v[i / (GROUPS * 16)][i / 4 % (GROUPS * 4)][i % 4] = 0;
    u32 a = patch + (LOOSE ? lane / 4 * (STRIDE_X * PIXEL) + lane % 4 * PIXEL
                           : lane % 16 * (STRIDE_X * PIXEL) + lane / 16 * 16);
    u32 b = weights + (lane % 8 + lane / 16 * 8) * PITCH + lane / 8 % 2 * 16;
#pragma unroll 7 // more need registers that there are not
    for (int k = 0; k < KERNEL_Y * STEPS; k++) {
        u32 left[TALL][4];
#pragma unroll
        for (int i = 0; i < TALL; i++) {
            load_windows(left[i], a + (i * STRIDE_Y + k / STEPS * DILATION_Y) * ROW_BYTES + k % STEPS * 32);
#pragma unroll
            for (int q = 0; q < 4; q++)
                left[i][q] = shortened<T>(left[i][q]);
            if (k % STEPS == STEPS - 1)
                cut(left[i]);
        }
#pragma unroll
        for (int j = 0; j < GROUPS * 2; j++) {
            u32 right[4];
            load_fragments(right, b + j * 16 * PITCH + k * 32);
#pragma unroll
            for (int q = 0; q < 4; q++)
                right[q] = shortened<T>(right[q]);
#pragma unroll
            for (int i = 0; i < TALL; i++) {
                multiply_fragments<T>(s.v[i][j * 2], left[i], right[0], right[1]);
                multiply_fragments<T>(s.v[i][j * 2 + 1], left[i], right[2], right[3]);
            }
        }
    }
}

// row: of the tile, the first of this warp.
DEVICE void hand_out(const sums &s, const patch_args &p, const finish_args &f, const finish_places &at,
                     const patch_place &t, int row, int col)
{
    int lane = threadIdx.x % 32;
    batch_places<TALL * 2> rows;
#pragma unroll
    for (int i = 0; i < TALL * 2; i++) {
        int y = t.y + row + i / 2, x = t.x + i % 2 * 8 + lane / 4;
        rows.row[i] = (t.image * p.s.out[1] + y) * p.s.out[2] + x;
        rows.exists[i] = y < p.s.out[1] && x < p.s.out[2];
    }
#pragma unroll
    for (int g = 0; g < GROUPS; g++) {
        int own = col + g * 32 + lane % 4 * 8, n = p.n - own < 8 ? p.n - own : 8;
        if (n <= 0)
            continue;
        float x[TALL * 2][8];
#pragma unroll
        for (int i = 0; i < TALL * 2; i++)
#pragma unroll
            for (int c = 0; c < 8; c++)
                x[i][c] = s.v[i / 2][g * 4 + c / 2][i % 2 * 2 + c % 2];
        finish_batch<TALL * 2, 8>(f, at, rows, own, n, x);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 16 / WARPS)
    conv_patch(const __grid_constant__ patch_args p, u32 tiles, const __grid_constant__ finish_args f)
{
    extern __shared__ __align__(128) char shared[]; // two patches, the weights
    u32 base = shared_address(shared), weights = base + 2 * PATCH_BYTES;
    int row = threadIdx.x / 32 * TALL, slot = 0;
    place_weights(p, weights);
    wait_for_predecessor();
    finish_places at = finish_matrix(f, 0);
    own_pixels pixels;
    load_patch(pixels, p, place_of(p, blockIdx.x));
    for (u32 tile = blockIdx.x; tile < tiles; tile += gridDim.x, slot ^= 1) {
        patch_place t = place_of(p, tile);
        store_patch(pixels, shared + slot * PATCH_BYTES);
        __syncthreads();
        if (tile + gridDim.x < tiles)
            load_patch(pixels, p, place_of(p, tile + gridDim.x));
        for (int col = 0; col < p.n; col += COLUMNS) {
            sums s;
            multiply(s, base + slot * PATCH_BYTES + row * (STRIDE_Y * ROW_BYTES), weights + col * PITCH);
            hand_out(s, p, f, at, t, row, col);
        }
    }
}
