// tile_product.cuh -- one tile of a matrix product by one block: the loop over k, and the way out.
// SPDX-License-Identifier: Apache-2.0
//
// Given before: ELEMENT (its type), TENSOR (1: matrix units, float as tf32; 0: float32 arithmetic), TILE_M, TILE_N, TILE_K,
// STAGES, WARPS_M, WARPS_N, and A_ACROSS, B_ACROSS: 1 where rows of A (columns of B) are adjacent in memory, 0
// where k is; A_WHOLE, B_WHOLE: 16 bytes can be read at once along those; B_EARLY.
//
// A tile of an operand lies in shared memory as lines of 16-byte chunks: a line is a row (column) of TILE_K
// elements, or, across, one k of TILE_M (TILE_N) elements. Chunks of a line are exchanged (swizzled) so that the 8 lines
// of a fragment come from different banks.
#pragma once
#include "ptx_matrix.cuh"
#include "tile_place.cuh"

typedef ELEMENT T;

enum {
    THREADS = WARPS_M * WARPS_N * 32,
    CHUNK = 16 / sizeof(T), // elements
    WARP_M = TILE_M / WARPS_M,
    WARP_N = TILE_N / WARPS_N,
    A_LINES = A_ACROSS ? TILE_K : TILE_M,
    A_CHUNKS = (A_ACROSS ? TILE_M : TILE_K) / CHUNK, // of a line
    B_LINES = B_ACROSS ? TILE_K : TILE_N,
    B_CHUNKS = (B_ACROSS ? TILE_N : TILE_K) / CHUNK,
    A_BYTES = TILE_M * TILE_K * sizeof(T),
    B_BYTES = TILE_N * TILE_K * sizeof(T),
    STAGE_BYTES = A_BYTES + B_BYTES,
};

// The byte at which chunk `chunk` of line `line` begins.
template <int CHUNKS, int ACROSS> DEVICE u32 chunk_at(int line, int chunk)
{
    int swap = sizeof(T) == 4 && ACROSS ? 2 * (line & 3) : CHUNKS >= 8 ? line : line / (8 / CHUNKS);
    return (line * CHUNKS + (chunk ^ (swap & ((CHUNKS < 8 ? CHUNKS : 8) - 1)))) * 16;
}

// One operand that is a matrix by strides. A thread copies the same chunk of every (THREADS / CHUNKS)-th line.
template <int LINES, int CHUNKS, int ACROSS, int WHOLE> struct matrix_source {
    enum {
        APART = THREADS / CHUNKS,
        EACH = (LINES + APART - 1) / APART,
    };
    const T *next; // this thread's first chunk in the next tile
    i64 step;      // from one of this thread's lines to the next
    i64 ahead;     // from one tile to the next
    i64 element;   // from one element of a chunk to the next, where not WHOLE
    int line, chunk;
    int lines;    // of rows or columns that there are, from this thread's first line on; across: chunk's elements
    int k_left;   // from this thread's first k in the next tile on

    // from: the tile's first element; rows: how many of its rows or columns exist; k: how many remain.
    INLINE void begin(const void *from, i64 row_stride, i64 k_stride, int rows, int k)
    {
        i64 line_stride = ACROSS ? k_stride : row_stride;
        element = ACROSS ? row_stride : k_stride;
        line = threadIdx.x / CHUNKS;
        chunk = threadIdx.x % CHUNKS;
        next = (const T *)from + line * line_stride + chunk * CHUNK * element;
        step = APART * line_stride;
        ahead = TILE_K * k_stride;
        lines = rows - (ACROSS ? chunk * CHUNK : line);
        k_left = k - (ACROSS ? line : chunk * CHUNK);
    }

    INLINE void load(u32 to)
    {
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            int at = line + i * APART;
            if (EACH * APART > LINES && at >= LINES)
                break;
            const T *p = next + i * step;
            int line_left = (ACROSS ? k_left : lines) - i * APART;
            int chunk_left = line_left > 0 ? ACROSS ? lines : k_left : 0;
            u32 place = to + chunk_at<CHUNKS, ACROSS>(at, chunk);
            if (WHOLE) {
                copy16(place, chunk_left > 0 ? p : next, chunk_left > 0);
            } else {
                union {
                    T v[CHUNK];
                    uint4 all;
                } part;
                part.all = make_uint4(0, 0, 0, 0);
#pragma unroll
                for (int e = 0; e < CHUNK; e++)
                    if (e < chunk_left)
                        part.v[e] = p[e * element];
                store_shared16(place, part.all);
            }
        }
        next += ahead;
        k_left -= TILE_K;
    }
};
typedef matrix_source<A_LINES, A_CHUNKS, A_ACROSS, A_WHOLE> matrix_a;
typedef matrix_source<B_LINES, B_CHUNKS, B_ACROSS, B_WHOLE> matrix_b;

#if TENSOR

enum {
    MS = WARP_M / 16,
    NS = WARP_N / 8,
    STEPS = TILE_K / (2 * CHUNK),
    SLICES = WARP_M / 8, // of 8 rows, on the way out
};

struct sums {
    float v[MS][NS][4];
};
struct fragments {
    u32 a[MS][4], b[NS][2];
};

DEVICE void load_step(fragments &f, u32 a, u32 b, int step, int warp_m, int warp_n)
{
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < MS; i++) {
        int row = warp_m * WARP_M + i * 16;
        if (!A_ACROSS) {
            load_fragments(f.a[i], a + chunk_at<A_CHUNKS, A_ACROSS>(row + lane % 16,
                                                                    step * 2 + lane / 16));
        } else if (sizeof(T) == 2) {
            load_fragments_transposed(
                f.a[i], a + chunk_at<A_CHUNKS, A_ACROSS>(step * 16 + lane % 8 + lane / 16 * 8,
                                                         row / CHUNK + lane / 8 % 2));
        } else {
#pragma unroll
            for (int q = 0; q < 4; q++) {
                int m = row + lane / 4 + q % 2 * 8, k = step * 8 + lane % 4 + q / 2 * 4;
                f.a[i][q] = load_shared4(a + chunk_at<A_CHUNKS, A_ACROSS>(k, m / CHUNK) +
                                         m % CHUNK * sizeof(T));
            }
        }
    }
#pragma unroll
    for (int j = 0; j < NS; j += 2) {
        int col = warp_n * WARP_N + j * 8;
        u32 r[4];
        if (!B_ACROSS) {
            load_fragments(r, b + chunk_at<B_CHUNKS, B_ACROSS>(col + lane % 8 + lane / 16 * 8,
                                                               step * 2 + lane / 8 % 2));
        } else if (sizeof(T) == 2) {
            load_fragments_transposed(r, b + chunk_at<B_CHUNKS, B_ACROSS>(step * 16 + lane % 16,
                                                                          col / CHUNK + lane / 16));
        } else {
#pragma unroll
            for (int q = 0; q < 4; q++) {
                int n = col + lane / 4 + q / 2 * 8, k = step * 8 + lane % 4 + q % 2 * 4;
                r[q] = load_shared4(b + chunk_at<B_CHUNKS, B_ACROSS>(k, n / CHUNK) +
                                    n % CHUNK * sizeof(T));
            }
        }
        f.b[j][0] = r[0];
        f.b[j][1] = r[1];
        f.b[j + 1][0] = r[2];
        f.b[j + 1][1] = r[3];
    }
    if (sizeof(T) == 4) {
#pragma unroll
        for (int i = 0; i < MS * 4; i++)
            f.a[i / 4][i % 4] = shortened<T>(f.a[i / 4][i % 4]);
#pragma unroll
        for (int j = 0; j < NS * 2; j++)
            f.b[j / 2][j % 2] = shortened<T>(f.b[j / 2][j % 2]);
    }
}

// One stage: fragments of the next step are loaded while this one's are multiplied.
DEVICE void multiply_stage(sums &s, const char *stage, u32 a, int warp_m, int warp_n)
{
    u32 b = a + A_BYTES;
    fragments f[2];
    load_step(f[0], a, b, 0, warp_m, warp_n);
#pragma unroll
    for (int step = 0; step < STEPS; step++) {
        if (step + 1 < STEPS)
            load_step(f[(step + 1) % 2], a, b, step + 1, warp_m, warp_n);
        const fragments &now = f[step % 2];
#pragma unroll
        for (int i = 0; i < MS; i++)
#pragma unroll
            for (int j = 0; j < NS; j++)
                multiply_fragments<T>(s.v[i][j], now.a[i], now.b[j][0], now.b[j][1]);
    }
}

// Slice q is 8 rows of the warp's part: this one's row for lines 0 to 7 of the way out.
DEVICE int slice_row(int q, int line) { return q * 8 + line; }

// to: 8 lines of WARP_N + 8 floats.
DEVICE void put_slice(const sums &s, int q, float *to, int pitch)
{
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int j = 0; j < NS; j++)
        *(float2 *)(to + lane / 4 * pitch + j * 8 + lane % 4 * 2) =
            make_float2(s.v[q / 2][j][q % 2 * 2], s.v[q / 2][j][q % 2 * 2 + 1]);
}

#else // float32 arithmetic: lanes are 8 along rows by 4 along columns

enum {
    MS = WARP_M / 8,
    NS = WARP_N / 4,
    SLICES = MS,
};
struct sums {
    float v[MS][NS];
};

DEVICE int slice_row(int q, int line)
{
    return A_ACROSS ? line * 4 + q % 4 + q / 4 * 32 : line + q * 8;
}
DEVICE int column_of(int j, int line)
{
    return B_ACROSS ? line * 4 + j % 4 + j / 4 * 16 : line + j * 4;
}

DEVICE void load4(float (&to)[4], const char *from)
{
    float4 v = *(const float4 *)from;
    to[0] = v.x;
    to[1] = v.y;
    to[2] = v.z;
    to[3] = v.w;
}

DEVICE void multiply_stage(sums &s, const char *stage, u32, int warp_m, int warp_n)
{
    const char *a = stage, *b = stage + A_BYTES;
    int lane = threadIdx.x % 32, row = warp_m * WARP_M, col = warp_n * WARP_N;
#pragma unroll
    for (int c = 0; c < TILE_K / 4; c++) {
        float x[MS][4]; // four of k
        if (A_ACROSS) {
#pragma unroll
            for (int k = 0; k < 4; k++)
#pragma unroll
                for (int i = 0; i < MS; i += 4) {
                    float r[4];
                    load4(r, a + chunk_at<A_CHUNKS, A_ACROSS>(c * 4 + k, (row + slice_row(i, lane % 8)) / 4));
#pragma unroll
                    for (int q = 0; q < 4; q++)
                        x[(i + q) % MS][k] = r[q];
                }
        } else {
#pragma unroll
            for (int i = 0; i < MS; i++)
                load4(x[i], a + chunk_at<A_CHUNKS, A_ACROSS>(row + slice_row(i, lane % 8), c));
        }
#pragma unroll
        for (int j = 0; j < NS; j += B_ACROSS ? 4 : 1) {
            if (B_ACROSS) {
#pragma unroll
                for (int k = 0; k < 4; k++) {
                    float y[4];
                    load4(y, b + chunk_at<B_CHUNKS, B_ACROSS>(c * 4 + k, (col + column_of(j, lane / 8)) / 4));
#pragma unroll
                    for (int i = 0; i < MS; i++)
#pragma unroll
                        for (int q = 0; q < 4; q++)
                            s.v[i][(j + q) % NS] += x[i][k] * y[q];
                }
            } else {
                float y[4];
                load4(y, b + chunk_at<B_CHUNKS, B_ACROSS>(col + column_of(j, lane / 8), c));
#pragma unroll
                for (int k = 0; k < 4; k++)
#pragma unroll
                    for (int i = 0; i < MS; i++)
                        s.v[i][j] += x[i][k] * y[k];
            }
        }
    }
}

DEVICE void put_slice(const sums &s, int q, float *to, int pitch)
{
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int j = 0; j < NS; j++)
        to[lane % 8 * pitch + column_of(j, lane / 8)] = s.v[q][j];
}

#endif

// `tiles` tiles of k, loaded STAGES - 1 ahead. Afterwards shared memory is free for other uses. Where B is constant (B_EARLY) its
// first tiles are fetched before the grid's predecessor has ended.
template <class A, class B>
DEVICE void multiply_tiles(sums &s, A &a, B &b, int tiles, char *shared, int warp_m, int warp_n)
{
    u32 base = shared_address(shared);
    float *zero = (float *)&s;
#pragma unroll
    for (int i = 0; i < (int)(sizeof s / sizeof *zero); i++)
        zero[i] = 0;
#pragma unroll 1
    for (int i = 0; B_EARLY && i < STAGES - 1 && i < tiles; i++)
        b.load(base + i * STAGE_BYTES + A_BYTES);
    wait_for_predecessor();
    int read = 0, write = 0;
    for (int i = 1 - STAGES; i < tiles; i++) {
        if (i >= 0) {
            copies_wait<STAGES - 2>();
            __syncthreads();
        }
        if (i + STAGES - 1 < tiles) {
            a.load(base + write * STAGE_BYTES);
            if (!B_EARLY || i >= 0)
                b.load(base + write * STAGE_BYTES + A_BYTES);
        }
        copies_end_group();
        write = write + 1 == STAGES ? 0 : write + 1;
        if (i >= 0) {
            multiply_stage(s, shared + read * STAGE_BYTES, base + read * STAGE_BYTES, warp_m, warp_n);
            read = read + 1 == STAGES ? 0 : read + 1;
        }
    }
    copies_wait<0>();
    __syncthreads();
}

// The way out: f(row of the tile, column of the tile, how many, x) for 8 columns at a time. Through shared memory, each
// warp by itself, so that memory is read and written in whole lines.
template <class F> DEVICE void hand_out(const sums &s, char *shared, const tile_place &t, F f)
{
    enum { PITCH = WARP_N + 8, ACROSS = WARP_N / 8 };
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int row = warp / WARPS_N * WARP_M, col = warp % WARPS_N * WARP_N;
    float *own = (float *)shared + warp * 8 * PITCH;
#pragma unroll
    for (int q = 0; q < SLICES; q++) {
        put_slice(s, q, own, PITCH);
        __syncwarp();
#pragma unroll
        for (int v = 0; v < 8 * ACROSS; v += 32) {
            int at = v + lane, line = at / ACROSS, i = row + slice_row(q, line);
            int j = col + at % ACROSS * 8;
            if (at < 8 * ACROSS && i < t.rows && j < t.cols) {
                float x[8];
                load_sums8(x, own + line * PITCH + at % ACROSS * 8);
                f(i, j, t.cols - j < 8 ? t.cols - j : 8, x);
            }
        }
        __syncwarp();
    }
}

#if CLUSTER
// The same where the blocks of a cluster have a part of k each: every one adds up its share of the rows, in order.
template <class F> DEVICE void hand_out_cluster(const sums &s, char *shared, const tile_place &t, int splits, F f)
{
    enum { PITCH = TILE_N + 8, ACROSS = TILE_N / 8 };
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, rank = rank_in_cluster();
    float *all = (float *)shared;
#pragma unroll
    for (int q = 0; q < SLICES; q++) {
        // A slice's lines are not adjacent rows everywhere: each is put by itself.
        float *to = all + (warp / WARPS_N * WARP_M + slice_row(q, 0)) * PITCH + warp % WARPS_N * WARP_N;
        put_slice(s, q, to, (slice_row(0, 1) - slice_row(0, 0)) * PITCH);
    }
    cluster_barrier();
    u32 base = shared_address(shared);
    int begin = t.rows * rank / splits, end = t.rows * (rank + 1) / splits;
    for (int at = threadIdx.x; at < (end - begin) * ACROSS; at += THREADS) {
        int i = begin + at / ACROSS, j = at % ACROSS * 8;
        if (j >= t.cols)
            continue;
        float x[8] = {0};
        for (int r = 0; r < splits; r++) {
            u32 from = base + (i * PITCH + j) * 4;
            float4 low = load_cluster16(from, r), high = load_cluster16(from + 16, r);
            x[0] += low.x, x[1] += low.y, x[2] += low.z, x[3] += low.w;
            x[4] += high.x, x[5] += high.y, x[6] += high.z, x[7] += high.w;
        }
        f(i, j, t.cols - j < 8 ? t.cols - j : 8, x);
    }
    cluster_barrier(); // until nobody reads here any more
}
#endif
