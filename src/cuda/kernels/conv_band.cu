// conv_band.cu -- depthwise convolutions on matrix units, channels innermost: for one channel, a row of the kernel is a band matrix, and the
// outputs of 8 rows of pixels are its products with 8 rows of inputs. A block brings all that its tile sees into shared memory.
// SPDX-License-Identifier: Apache-2.0
//
// Given before: ELEMENT, KERNEL_Y, KERNEL_X, STRIDE_Y, STRIDE_X, DILATION_Y, DILATION_X, WARPS, and of a tile CHUNKS (of 8 channels, an odd
// number), ACROSS (spans of outputs), DOWN (eights of rows); TALL eights are made at once. A span is what STEPS of 16 inputs reach.
//
// Zeros of the band meet inputs that an output does not see: where one of the tile is no finite number, the tile is summed one by one.
#include "common.cuh"
#include "conv_sizes.cuh"
#include "finish.cuh"
#include "finish_batch.cuh"
#include "ptx_bulk.cuh"
#include "ptx_groups.cuh"
#include "ptx_matrix.cuh"

typedef ELEMENT T;
typedef vec16<T> chunk;
enum {
    THREADS = WARPS * 32,
    REACH_X = (KERNEL_X - 1) * DILATION_X + 1,
    REACH_Y = (KERNEL_Y - 1) * DILATION_Y + 1,
    FITTING = (STEPS * 16 - REACH_X) / STRIDE_X + 1,
    SPAN = FITTING < 16 ? FITTING : 16, // outputs
    WIDE = ACROSS * SPAN,
    HIGH = DOWN * 8,
    ROWS = (HIGH - 1) * STRIDE_Y + REACH_Y, // of inputs
    COLUMNS = ((ACROSS - 1) * SPAN * STRIDE_X + STEPS * 16) | 1, // neighbours in shared memory are in other banks
    TILE_CHUNKS = ROWS * COLUMNS * CHUNKS,
    TAPS = KERNEL_X + 1, // of a row of the kernel; the last one is zero
    GROUPS = DOWN / TALL,
};

struct band_args {
    const T *w; // [kernel position][channel]
    int channels;
    u32 parts, across, down; // tiles of an image: of channels, and of pixels
    conv_sizes s;
};

struct band_place {
    u32 image;
    int channel, y, x; // of its first output
};
DEVICE band_place place_of(const band_args &p, u32 tile)
{
    u32 rest = tile / p.parts, line = rest / p.across;
    band_place t;
    t.channel = (tile - rest * p.parts) * (CHUNKS * 8);
    t.x = (rest - line * p.across) * WIDE;
    t.image = line / p.down;
    t.y = (line - t.image * p.down) * HIGH;
    return t;
}

// 16-bit elements of 8 channels of two neighbours, as pairs of neighbours.
DEVICE void pair_up(u32 (&to)[8], const uint4 &a, const uint4 &b)
{
    const u32 x[4] = {a.x, a.y, a.z, a.w}, y[4] = {b.x, b.y, b.z, b.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        to[i * 2] = __byte_perm(x[i], y[i], 0x5410);
        to[i * 2 + 1] = __byte_perm(x[i], y[i], 0x7632);
    }
}

// Register q of a fragment of the band has outputs q % 2 * 8 on and inputs q / 2 * 8 on. It follows from where the one lies before the
// other.
DEVICE constexpr int offset_of(int step, int q) { return step * 16 + q / 2 * 8 - q % 2 * 8 * STRIDE_X; }
DEVICE constexpr bool is_empty(int offset) { return offset + 7 < 0 || offset - 7 * STRIDE_X > REACH_X - 1; }

// A row of the kernel for a lane: the pair of weights that it has of register q.
struct band {
    u32 v[STEPS * 4][8];
};
DEVICE void load_band(band &b, const uint4 *weights)
{
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < STEPS * 4; i++) {
        const int offset = offset_of(i / 4, i % 4);
        bool known = is_empty(offset);
#pragma unroll
        for (int c = 0; c < 8; c++)
            b.v[i][c] = 0;
#pragma unroll
        for (int j = 0; j < i; j++)
            if (!known && offset_of(j / 4, j % 4) == offset) {
                known = true;
#pragma unroll
                for (int c = 0; c < 8; c++)
                    b.v[i][c] = b.v[j][c];
            }
        if (known)
            continue;
        uint4 two[2];
#pragma unroll
        for (int h = 0; h < 2; h++) {
            int at = offset + lane % 4 * 2 + h - lane / 4 * STRIDE_X;
            bool seen = at >= 0 && at < REACH_X && at % DILATION_X == 0;
            two[h] = weights[(seen ? at / DILATION_X : KERNEL_X) * CHUNKS];
        }
        pair_up(b.v[i], two[0], two[1]);
    }
}

// Sums of TALL eights of rows and 8 channels, in fragments.
struct band_sums {
    float v[TALL][8][4];
};
// tile: from this lane's first input on.
DEVICE void multiply(band_sums &s, const uint4 *tile, const uint4 *weights)
{
#pragma unroll
    for (int i = 0; i < TALL * 32; i++)
        s.v[i / 32][i / 4 % 8][i % 4] = 0;
#pragma unroll
    for (int k = 0; k < KERNEL_Y; k++) {
        band b;
        load_band(b, weights + k * (TAPS * CHUNKS));
#pragma unroll
        for (int t = 0; t < TALL; t++)
#pragma unroll
            for (int step = 0; step < STEPS; step++) {
                u32 pairs[2][8];
#pragma unroll
                for (int h = 0; h < 2; h++) {
                    const int at = (t * 8 * STRIDE_Y + k * DILATION_Y) * COLUMNS + step * 16 + h * 8;
                    pair_up(pairs[h], tile[at * CHUNKS], tile[(at + 1) * CHUNKS]);
                }
#pragma unroll
                for (int c = 0; c < 8; c++) {
                    const u32 left[4] = {b.v[step * 4][c], b.v[step * 4 + 1][c], b.v[step * 4 + 2][c],
                                         b.v[step * 4 + 3][c]};
                    multiply_fragments<T>(s.v[t][c], left, pairs[0][c], pairs[1][c]);
                }
            }
    }
}

// y, x: this lane's first output of the first eight.
DEVICE void hand_out(const band_sums &s, const band_args &p, const finish_args &f, const finish_places &at, u32 image,
                     int y, int x, int span, int channel)
{
#pragma unroll
    for (int t = 0; t < TALL; t++) {
        batch_places<4> places;
        float own[4][8];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int down = y + t * 8 + i % 2, right = x + i / 2 * 8;
            places.row[i] = (image * p.s.out[1] + down) * p.s.out[2] + right;
            places.exists[i] = down < p.s.out[1] && right < p.s.out[2] && span + i / 2 * 8 < SPAN;
#pragma unroll
            for (int c = 0; c < 8; c++)
                own[i][c] = s.v[t][c][i];
        }
        finish_batch<4, 8>(f, at, places, channel, 8, own);
    }
}

DEVICE void make_outputs(const band_args &p, const finish_args &f, const band_place &place, const uint4 *tile,
                         const uint4 *weights)
{
    finish_places at = finish_matrix(f, 0);
    int lane = threadIdx.x % 32;
    for (int item = threadIdx.x / 32; item < CHUNKS * ACROSS * GROUPS; item += WARPS) {
        int part = item / CHUNKS, q = item - part * CHUNKS, group = part / ACROSS, span = part - group * ACROSS;
        int channel = place.channel + q * 8, y = group * TALL * 8;
        if (channel >= p.channels || place.y + y >= p.s.out[1] || place.x + span * SPAN >= p.s.out[2])
            continue;
        int row = (y + lane / 4) * STRIDE_Y, column = span * SPAN * STRIDE_X + lane % 4 * 2;
        band_sums s;
        multiply(s, tile + (row * COLUMNS + column) * CHUNKS + q, weights + q);
        hand_out(s, p, f, at, place.image, place.y + y + lane % 4 * 2, place.x + span * SPAN + lane / 4, lane / 4,
                 channel);
    }
}

// Each output from what it sees alone.
DEVICE void make_one_by_one(const band_args &p, const finish_args &f, const band_place &place, const chunk *tile,
                            const chunk *weights)
{
    finish_places at = finish_matrix(f, 0);
#pragma unroll 1
    for (int i = threadIdx.x; i < HIGH * WIDE * CHUNKS; i += THREADS) {
        int pixel = i / CHUNKS, q = i - pixel * CHUNKS, y = pixel / WIDE, x = pixel - y * WIDE;
        batch_places<1> to;
        float sum[1][8] = {};
        to.row[0] = (place.image * p.s.out[1] + place.y + y) * p.s.out[2] + place.x + x;
        to.exists[0] = true;
        if (place.channel + q * 8 >= p.channels || place.y + y >= p.s.out[1] || place.x + x >= p.s.out[2])
            continue;
#pragma unroll 1
        for (int k = 0; k < KERNEL_Y * KERNEL_X; k++) {
            int down = y * STRIDE_Y + k / KERNEL_X * DILATION_Y, right = x * STRIDE_X + k % KERNEL_X * DILATION_X;
            chunk v = tile[(down * COLUMNS + right) * CHUNKS + q];
            chunk w = weights[(k / KERNEL_X * TAPS + k % KERNEL_X) * CHUNKS + q];
#pragma unroll
            for (int c = 0; c < 8; c++)
                sum[0][c] += to_float(v.v[c]) * to_float(w.v[c]);
        }
        finish_batch<1, 8>(f, at, to, place.channel + q * 8, 8, sum);
    }
}

// The exponents that infinities and NaNs have overflow when their last bit is added once more.
template <class E> struct exponent;
template <> struct exponent<f16> {
    enum { BITS = 0x7c00, LAST = 0x0400 };
};
template <> struct exponent<bf16> {
    enum { BITS = 0x7f80, LAST = 0x0080 };
};
DEVICE bool all_finite(const uint4 *tile)
{
    const u32 bits = exponent<T>::BITS * 0x10001u, last = exponent<T>::LAST * 0x10001u;
    u32 found = 0;
#pragma unroll 4
    for (int i = threadIdx.x; i < TILE_CHUNKS; i += THREADS) {
        uint4 v = tile[i];
        found |= ((v.x & bits) + last) | ((v.y & bits) + last) | ((v.z & bits) + last) | ((v.w & bits) + last);
    }
    return !__syncthreads_or(found & 0x80008000u);
}

DEVICE void place_weights(const band_args &p, const band_place &place, uint4 *weights)
{
    for (int i = threadIdx.x; i < KERNEL_Y * TAPS * CHUNKS; i += THREADS) {
        int tap = i / CHUNKS, row = tap / TAPS, at = tap - row * TAPS, channel = place.channel + (i - tap * CHUNKS) * 8;
        weights[i] = make_uint4(0, 0, 0, 0);
        if (at < KERNEL_X && channel < p.channels)
            weights[i] = *(const uint4 *)(p.w + (i64)(row * KERNEL_X + at) * p.channels + channel);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, TALL > 1 ? 3 : 4)
    conv_band(const __grid_constant__ band_args p, const __grid_constant__ tensor_map map,
              const __grid_constant__ finish_args f)
{
    extern __shared__ __align__(128) char shared[]; // the tile, the weights
    __shared__ alignas(8) u64 arrived[1];
    uint4 *tile = (uint4 *)shared, *weights = tile + TILE_CHUNKS;
    u32 barrier = shared_address(arrived);
    band_place place = place_of(p, blockIdx.x);
    if (threadIdx.x == 0) {
        prefetch_map(map);
        barrier_init(barrier, 1);
        barriers_made();
    }
    place_weights(p, place, weights);
    wait_for_predecessor();
    __syncthreads();
    if (threadIdx.x == 0) {
        barrier_expect(barrier, TILE_CHUNKS * 16);
        copy_box_4d(shared_address(tile), map, barrier, place.channel, place.x * STRIDE_X - p.s.pad[2],
                    place.y * STRIDE_Y - p.s.pad[1], place.image);
    }
    barrier_wait(barrier, 0);
    if (all_finite(tile))
        make_outputs(p, f, place, tile, weights);
    else
        make_one_by_one(p, f, place, (const chunk *)tile, (const chunk *)weights);
}
