// qproduct.cu -- products of bytes with exact sums; the rows are a matrix's, or patches of images.
// SPDX-License-Identifier: Apache-2.0
//
// y[i][j] = finish(sum over l of (a[i][l] - zero_a) * (b[j][l] - zero_b[j])). Tiles of BM by BN and 64 bytes of depth
// are staged in shared memory, multiplied on tensor cores as they are, and zero points brought in afterwards by sums of
// rows and columns. Generated before this:
//   BM, BN            the tile; 8 warps, 2 by 4
//   PATCHES           rows are patches: of channels first, then taps
//   A_WORDS, B_WORDS  16 bytes of depth lie side by side, aligned; B is [columns][depth] then
//   what qproduct.cuh asks for
#include "common.cuh"
#include "elements.cuh"
#include "qproduct.cuh"

enum { DEPTH = 64, PITCH = DEPTH + 16, THREADS = 256 };
enum { A_CHUNKS = BM * DEPTH / 16 / THREADS, B_CHUNKS = BN * DEPTH / 16 / THREADS };
enum { MT = BM / 32, NT = BN / 32 }; // tiles of 16 by 8 of a warp

// Bytes of depth one after the other as a chunk of 16.
struct alignas(16) chunk {
    u32 w[4];
};
DEVICE void put(chunk &c, int i, u32 byte) { c.w[i / 4] |= byte << (8 * (i % 4)); }

// Where a row begins: of a matrix, or the corner of a patch.
struct row_place {
    const u8 *from;
    int at[3];
    bool inside;
};

DEVICE row_place row_of(const arguments &a, const u8 *base, i64 i)
{
    row_place r = {base, {0, 0, 0}, i < a.m};
#if PATCHES
    i64 image = i / a.pixels;
    int rest = (int)(i - image * a.pixels);
    r.from += image * a.x_image;
#pragma unroll
    for (int d = 2; d >= 0; d--) {
        int q = d ? rest / a.out[d] : 0;
        r.at[d] = (rest - q * a.out[d]) * a.stride[d] - a.pad[d];
        rest = q;
    }
#else
    r.from += i * a.a_row;
#endif
    return r;
}

#if PATCHES
// The tap's pixel, NULL: outside.
DEVICE const u8 *pixel(const arguments &a, const row_place &r, int tap)
{
    const u8 *p = r.from;
    bool inside = r.inside;
    int rest = tap;
#pragma unroll
    for (int d = 2; d >= 0; d--) {
        int q = d ? rest / a.kernel[d] : 0, at = r.at[d] + (rest - q * a.kernel[d]) * a.dilation[d];
        rest = q;
        inside = inside && at >= 0 && at < a.in[d];
        p += (i64)at * a.x_step[d];
    }
    return inside ? p : 0;
}

DEVICE chunk a_chunk(const arguments &a, const row_place &r, int l, u32 zero)
{
    chunk c = {{0, 0, 0, 0}};
    if (l >= a.k)
        return c;
    const int channels = (int)a.channels;
    int tap = l / channels, channel = l - tap * channels;
    const u8 *p = pixel(a, r, tap);
#if A_WORDS
    if (p) {
        const uint4 v = *(const uint4 *)(p + channel);
        c.w[0] = v.x, c.w[1] = v.y, c.w[2] = v.z, c.w[3] = v.w;
    } else {
        c.w[0] = c.w[1] = c.w[2] = c.w[3] = zero * 0x01010101u;
    }
#else
#pragma unroll
    for (int i = 0; i < 16; i++) {
        if (l + i < a.k)
            put(c, i, p ? p[channel * a.x_channel] : zero);
        if (++channel == channels && l + i + 1 < a.k) {
            channel = 0;
            p = pixel(a, r, ++tap);
        }
    }
#endif
    return c;
}
#else
DEVICE chunk a_chunk(const arguments &a, const row_place &r, int l, u32)
{
    chunk c = {{0, 0, 0, 0}};
    if (!r.inside || l >= a.k)
        return c;
#if A_WORDS
    const uint4 v = *(const uint4 *)(r.from + l);
    c.w[0] = v.x, c.w[1] = v.y, c.w[2] = v.z, c.w[3] = v.w;
#else
#pragma unroll
    for (int i = 0; i < 16; i++)
        if (l + i < a.k)
            put(c, i, r.from[l + i]);
#endif
    return c;
}
#endif

DEVICE chunk b_chunk(const arguments &a, const u8 *base, i64 j, int l)
{
    chunk c = {{0, 0, 0, 0}};
    if (j >= a.n || l >= a.k)
        return c;
    const u8 *from = base + j * a.b_col + l * a.b_row;
#if B_WORDS
    const uint4 v = *(const uint4 *)from;
    c.w[0] = v.x, c.w[1] = v.y, c.w[2] = v.z, c.w[3] = v.w;
#else
#pragma unroll
    for (int i = 0; i < 16; i++)
        if (l + i < a.k)
            put(c, i, from[i * a.b_row]);
#endif
    return c;
}

// Thread t's chunk i of a tile: neighbours along the depth where it lies side by side, else along rows.
template <bool WORDS, int ROWS> DEVICE void place_of(int i, int &row, int &l)
{
    int c = threadIdx.x + i * THREADS;
    row = WORDS ? c / (DEPTH / 16) : c % ROWS;
    l = (WORDS ? c % (DEPTH / 16) : c / ROWS) * 16;
}

DEVICE void load_matrices(u32 *r, const u8 *p)
{
    u32 at = (u32)__cvta_generic_to_shared(p);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at));
}

#if A_SIGNED
#define A_TYPE "s8"
#else
#define A_TYPE "u8"
#endif
#if B_SIGNED
#define B_TYPE "s8"
#else
#define B_TYPE "u8"
#endif

DEVICE void multiply(int *c, const u32 *a, const u32 *b)
{
#if __CUDA_ARCH__ >= 800
    asm("mma.sync.aligned.m16n8k32.row.col.s32." A_TYPE "." B_TYPE ".s32 {%0,%1,%2,%3}, "
        "{%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
#pragma unroll
    for (int i = 0; i < 4; i++) // quarters: rows of 8, halves of the depth
        asm("mma.sync.aligned.m8n8k16.row.col.s32." A_TYPE "." B_TYPE ".s32 {%0,%1}, {%2}, {%3}, "
            "{%0,%1};"
            : "+r"(c[i % 2 * 2]), "+r"(c[i % 2 * 2 + 1])
            : "r"(a[i]), "r"(b[i / 2]));
#endif
}

DEVICE int sum_of(u32 bytes, int sum, bool is_signed)
{
    if (is_signed)
        asm("dp4a.s32.s32 %0, %1, %2, %0;" : "+r"(sum) : "r"(bytes), "r"(0x01010101));
    else
        asm("dp4a.u32.u32 %0, %1, %2, %0;" : "+r"(sum) : "r"(bytes), "r"(0x01010101));
    return sum;
}

struct tile {
    u8 a[BM][PITCH], b[BN][PITCH];
};

struct work {
    int acc[MT][NT][4];
    int rows[MT][2], cols[NT]; // sums of bytes: of rows lane / 4 and 8 on; of column lane / 4
};

DEVICE void multiply_tile(const tile &t, work &w)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int row = warp / 4 * (BM / 2), col = warp % 4 * (BN / 4);
#pragma unroll
    for (int s = 0; s < DEPTH / 32; s++) {
        u32 a[MT][4], b[NT][2];
#pragma unroll
        for (int i = 0; i < MT; i++)
            load_matrices(a[i], &t.a[row + i * 16 + lane % 16][s * 32 + lane / 16 * 16]);
#pragma unroll
        for (int j = 0; j < NT; j += 2) {
            u32 r[4];
            load_matrices(r, &t.b[col + j * 8 + lane % 8 + lane / 16 * 8][s * 32 + lane / 8 % 2 * 16]);
            b[j][0] = r[0], b[j][1] = r[1];
            b[j + 1][0] = r[2], b[j + 1][1] = r[3];
        }
#pragma unroll
        for (int i = 0; i < MT; i++)
#pragma unroll
            for (int j = 0; j < NT; j++)
                multiply(w.acc[i][j], a[i], b[j]);
        if (B_ZERO) {
#pragma unroll
            for (int i = 0; i < MT; i++)
#pragma unroll
                for (int q = 0; q < 4; q++)
                    w.rows[i][q % 2] = sum_of(a[i][q], w.rows[i][q % 2], A_SIGNED);
        }
        if (A_ZERO) {
#pragma unroll
            for (int j = 0; j < NT; j++)
                w.cols[j] = sum_of(b[j][1], sum_of(b[j][0], w.cols[j], B_SIGNED), B_SIGNED);
        }
    }
}

DEVICE int over_quad(int v)
{
    v += __shfl_xor_sync(~0u, v, 1);
    return v + __shfl_xor_sync(~0u, v, 2);
}

DEVICE void store_tile(const arguments &a, work &w, i64 first_row, i64 first_col, int zero_a)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const i64 row = first_row + warp / 4 * (BM / 2), col = first_col + warp % 4 * (BN / 4);
    const float y_zero = zero_of_output(a);
    column columns[NT][2];
#pragma unroll
    for (int j = 0; j < NT; j++) {
        int sum = A_ZERO ? over_quad(w.cols[j]) : 0;
#pragma unroll
        for (int h = 0; h < 2; h++)
            columns[j][h] = column_of(a, blockIdx.z, col + j * 8 + lane % 4 * 2 + h,
                                      __shfl_sync(~0u, sum, (lane % 4 * 2 + h) * 4), zero_a);
    }
#pragma unroll
    for (int i = 0; i < MT; i++)
#pragma unroll
        for (int up = 0; up < 2; up++) {
            const int row_sum = B_ZERO ? over_quad(w.rows[i][up]) : 0;
            const i64 at = row + i * 16 + up * 8 + lane / 4, image = at / a.pixels;
            OUTPUT *y = a.y + blockIdx.z * a.y_batch + image * a.y_image + (at - image * a.pixels) * a.y_row;
            if (at >= a.m)
                continue;
#pragma unroll
            for (int j = 0; j < NT; j++)
#pragma unroll
                for (int h = 0; h < 2; h++) {
                    const i64 c = col + j * 8 + lane % 4 * 2 + h;
                    const column &of = columns[j][h];
                    if (c < a.n)
                        y[c * a.y_col] = finished(w.acc[i][j][up * 2 + h] + of.add - of.zero * row_sum,
                                                  of, a.bias != 0, y_zero);
                }
        }
}

extern "C" __global__ void __launch_bounds__(THREADS) qproduct(const __grid_constant__ arguments a)
{
    __shared__ __align__(16) tile tiles[2];
    const i64 across = (a.n + BN - 1) / BN, first_row = blockIdx.x / across * BM;
    const i64 first_col = blockIdx.x % across * BN;
    const u8 *a_base = a.a + blockIdx.z * a.a_batch, *b_base = a.b + blockIdx.z * a.b_batch;
    const u32 pad = A_ZERO ? *a.a_zero : 0;
    const int zero_a = A_ZERO ? byte_of(a.a_zero, A_SIGNED) : 0, k = (int)a.k;
    row_place rows[A_CHUNKS];
    chunk next_a[A_CHUNKS], next_b[B_CHUNKS];
    work w = {};
    int row, l;
#pragma unroll
    for (int i = 0; i < A_CHUNKS; i++) {
        place_of<A_WORDS, BM>(i, row, l);
        rows[i] = row_of(a, a_base, first_row + row);
    }
    for (int from = 0, turn = 0; from < k + DEPTH; from += DEPTH, turn ^= 1) {
        if (from < k) {
#pragma unroll
            for (int i = 0; i < A_CHUNKS; i++) {
                place_of<A_WORDS, BM>(i, row, l);
                next_a[i] = a_chunk(a, rows[i], from + l, pad);
            }
#pragma unroll
            for (int i = 0; i < B_CHUNKS; i++) {
                place_of<B_WORDS, BN>(i, row, l);
                next_b[i] = b_chunk(a, b_base, first_col + row, from + l);
            }
        }
        if (from > 0)
            multiply_tile(tiles[turn ^ 1], w);
        if (from < k) {
#pragma unroll
            for (int i = 0; i < A_CHUNKS; i++) {
                place_of<A_WORDS, BM>(i, row, l);
                *(chunk *)&tiles[turn].a[row][l] = next_a[i];
            }
#pragma unroll
            for (int i = 0; i < B_CHUNKS; i++) {
                place_of<B_WORDS, BN>(i, row, l);
                *(chunk *)&tiles[turn].b[row][l] = next_b[i];
            }
        }
        __syncthreads();
    }
    store_tile(a, w, first_row, first_col, zero_a);
}
