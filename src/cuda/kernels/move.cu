// move.cu -- strided pieces to other places, several in one launch.
// SPDX-License-Identifier: Apache-2.0
//
// Generated before this: RANK and PIECES (what there is room for), WIDE (nest.cuh); NEAR (32 bits hold how far elements of a
// piece are apart); for tiles ELEMENT, TILE, RUN and BLOCKS; SHIFTED (words are wider than what both sides are aligned to).
// cuda/move.c lays the arguments out. Steps count bytes.
#include "common.cuh"
#include "elements.cuh"
#include "nest.cuh"

struct piece {
    const char *from; // NULL: filled
    char *to;
    u32 word, element;         // bytes that are moved at once where both sides are aligned to them; else elements are
    u64 units;                 // words; tiles
    u32 first_block, n_blocks; // that move it
    i64 cols, rows, from_col, to_row; // tiles: columns lie side by side in `to`, rows in `from`; SHIFTED words: bytes of a row
    axis dims[RANK];
    i64 from_step[RANK], to_step[RANK];
};
struct arguments {
    u64 fill[2]; // one element, again and again
    u64 n;
    piece pieces[PIECES];
};

DEVICE const piece &piece_of_block(const arguments &a)
{
    int i = 0;
    while (i + 1 < a.n && blockIdx.x >= a.pieces[i + 1].first_block)
        i++;
    return a.pieces[i];
}

#ifdef TILE
typedef ELEMENT tile_row[TILE + RUN]; // the odd word keeps columns out of each other's banks

// One tile, N elements at a time: read along rows, written along columns.
template <int N>
DEVICE void move_tile(const piece &p, i64 col, i64 row, const char *from, char *to, tile_row *tile)
{
    const int words = TILE / N, lines = 256 / words, at = threadIdx.x % words * N;
    const int line = threadIdx.x / words;
    ELEMENT v[TILE / lines][N];
#pragma unroll
    for (int i = 0; i < TILE / lines; i++) {
        i64 c = col + line + i * lines;
        if (c < p.cols && row + at < p.rows)
            load_run<true, ELEMENT, N>((const ELEMENT *)(from + c * p.from_col) + row + at, v[i]);
    }
    __syncthreads(); // the tile before has left
#pragma unroll
    for (int i = 0; i < TILE / lines; i++)
        store_run<true, ELEMENT, N>(&tile[line + i * lines][at], v[i]);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < TILE / lines; i++) {
        int r = line + i * lines;
#pragma unroll
        for (int j = 0; j < N; j++)
            v[i][j] = tile[at + j][r];
        if (row + r < p.rows && col + at < p.cols)
            store_run<true, ELEMENT, N>((ELEMENT *)(to + (row + r) * p.to_row) + col + at, v[i]);
    }
}

// `word` is that of RUN elements where rows and columns are whole runs of them.
extern "C" __global__ void __launch_bounds__(256, BLOCKS) move_tiles(const __grid_constant__ arguments a)
{
    __shared__ __align__(16) tile_row tile[TILE];
    const piece &p = piece_of_block(a);
    const index across = (index)((p.cols + TILE - 1) / TILE), down = (index)((p.rows + TILE - 1) / TILE);
    const bool aligned =
        p.word == sizeof(ELEMENT) * RUN && ((u64)p.from | (u64)p.to) % p.word == 0;
    for (u64 t = blockIdx.x - p.first_block; t < p.units; t += p.n_blocks) {
        const index rest = (index)t / across, col = (index)t - rest * across;
        index outer = rest / down;
        const i64 row = rest - outer * down;
        i64 from = 0, to = 0;
#pragma unroll
        for (int d = RANK - 1; d >= 0; d--) {
            const index q = d ? quotient(outer, p.dims[d]) : 0;
            const i64 i = outer - q * size_of(p.dims[d]);
            outer = q;
            from += i * p.from_step[d];
            to += i * p.to_step[d];
        }
        if (aligned)
            move_tile<RUN>(p, (i64)col * TILE, row * TILE, p.from + from, p.to + to, tile);
        else
            move_tile<1>(p, (i64)col * TILE, row * TILE, p.from + from, p.to + to, tile);
    }
}
#else
#if NEAR
typedef int distance;
#else
typedef i64 distance;
#endif

DEVICE void find(const piece &p, index u, distance &from, distance &to)
{
#pragma unroll
    for (int d = RANK - 1; d >= 0; d--) {
        index rest = d ? quotient(u, p.dims[d]) : 0;
        distance i = u - rest * size_of(p.dims[d]);
        u = rest;
        from += i * (distance)p.from_step[d];
        to += i * (distance)p.to_step[d];
    }
}

// U words: u, u + step, ...; 2^split of them are one of the piece's.
template <class W, int U>
DEVICE void move_some(const piece &p, const u64 *fill, index u, index step, int split)
{
    W v[U];
    distance to[U];
#pragma unroll
    for (int j = 0; j < U; j++) {
        index e = u + j * step;
        distance from = (e & ((1u << split) - 1)) * sizeof(W);
        to[j] = from;
        find(p, e >> split, from, to[j]);
        v[j] = *(const W *)(p.from ? p.from + from : (const char *)fill);
    }
#pragma unroll
    for (int j = 0; j < U; j++)
        *(W *)(p.to + to[j]) = v[j];
}

#if SHIFTED
// A word of rows that begin anywhere, or that are all one element (`rows` is 1): those of the output are whole but at a row's
// ends. One at a time: that leaves room for many threads.
template <class E> DEVICE void shift_one(const piece &p, const u64 *fill, index u)
{
    const index at = u - quotient(u, p.dims[RANK - 1]) * size_of(p.dims[RANK - 1]);
    distance from_at = 0, to_at = 0;
    find(p, u, from_at, to_at);
    const int head = (int)((u64)(p.to + to_at) & 15);
    const i64 left = p.cols + head - (i64)at * 16;
    const int low = at ? 0 : head, high = left < 16 ? (int)left : 16;
    char *to = p.to + to_at - head;
    uint4 v = *(const uint4 *)fill;
    if (p.rows) {
        run_of<E, 16 / sizeof(E)> same;
#pragma unroll
        for (int i = 0; i < 16 / (int)sizeof(E); i++)
            same.v[i] = *(const E *)(p.from + from_at);
        v = same.all;
    } else if (p.from && high > low) {
        v = load_shifted(p.from + from_at - head, low, high);
    }
    if (low == 0 && high == 16)
        *(uint4 *)to = v;
    else
        store_part<E>(to, v, low, high);
}

template <class E> DEVICE void shift_all(const piece &p, const u64 *fill)
{
    const index n = (index)p.units, step = p.n_blocks * blockDim.x;
    for (index u = (blockIdx.x - p.first_block) * blockDim.x + threadIdx.x; u < n; u += step)
        shift_one<E>(p, fill, u);
}
#endif

template <class W> DEVICE void move_all(const piece &p, const u64 *fill, int split)
{
    const int many = 4;
    const index n = (index)p.units << split, step = p.n_blocks * blockDim.x;
    index u = (blockIdx.x - p.first_block) * blockDim.x + threadIdx.x;
    for (; (u64)u + (many - 1) * (u64)step < n; u += many * step)
        move_some<W, many>(p, fill, u, step, split);
    for (; u < n; u += step)
        move_some<W, 1>(p, fill, u, step, split);
}

extern "C" __global__ void __launch_bounds__(256) move_words(const __grid_constant__ arguments a)
{
    const piece &p = piece_of_block(a);
#if SHIFTED
    if (p.cols) {
        if (p.element == 1)
            shift_all<u8>(p, a.fill);
        else if (p.element == 2)
            shift_all<u16>(p, a.fill);
        else if (p.element == 4)
            shift_all<u32>(p, a.fill);
        else
            shift_all<uint2>(p, a.fill);
        return;
    }
#endif
    bool aligned = ((u64)p.from | (u64)p.to) % p.word == 0;
    u32 bytes = aligned ? p.word : p.element;
    int split = __ffs(p.word / bytes) - 1;
    if (bytes == 16)
        move_all<uint4>(p, a.fill, split);
    else if (bytes == 8)
        move_all<uint2>(p, a.fill, split);
    else if (bytes == 4)
        move_all<u32>(p, a.fill, split);
    else if (bytes == 2)
        move_all<u16>(p, a.fill, split);
    else
        move_all<u8>(p, a.fill, split);
}
#endif
