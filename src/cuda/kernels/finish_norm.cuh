// finish_norm.cuh -- results whose rows are normalised before they are written: a layer's normalisation in the kernel of its product.
// SPDX-License-Identifier: Apache-2.0
//
// Given before, beside what finish_whole.cuh wants: MEMBERS, the blocks whose tiles make up whole rows, NORM_RMS (rows are divided by the root of their
// mean square, not by their deviation), NORM_KEPT (what is normalised is written too), and the types NORM_SCALE and, where there is one,
// NORM_BIAS. Results stay in registers; means of rows and squares about them go through device memory to the other
// members (signals.cuh), each of which has its own copy and leaves zeros there.
//
// Nobody waits for ever: all blocks are there at once, and each tells of its tile before it waits for the others' tiles of the same rows, which they take
// in the same order.
#pragma once
#include "signals.cuh"

enum { OWN_ROWS = BLOCKS_M * 2 }; // of a thread and three neighbours, each of whom brings the moments of one
static_assert(OWN_ROWS <= 4, "each row has a thread that tells of it");

// As cuda/product_norm.c has it.
struct norm_args {
    const void *scale, *bias; // a number for each column
    uint4 *told;              // of [tile of rows][reader][teller][row of the tile]
    i64 further;              // bytes from what is normalised to what it becomes, where both are written
    float epsilon;
};

// Tiles of the same rows stand one behind the other.
DEVICE tile_place place_of_member(u32 place, int m, int k)
{
    tile_place t;
    t.row = place / MEMBERS * TILE_M;
    t.col = place % MEMBERS * TILE_N;
    t.rows = m - t.row < TILE_M ? m - t.row : TILE_M;
    t.cols = TILE_N;
    t.split = t.first = 0;
    t.tiles = (k + TILE_K - 1) / TILE_K;
    t.z = 0;
    return t;
}

// What the program makes of sums, in their place.
DEVICE void finish_in_place(float (&sum)[BLOCKS_M][TILE_N / 2], way_out &w, const tensor_map &added, const finish_args &f,
                            const tile_place &t, int added_z)
{
    copies_wait<0>();
    __syncwarp();
#pragma unroll
    for (int i = 0; i < ALL_PARTS; i++) {
        float2 r[COLS / 8][2];
        float *x = &sum[i / PARTS][i % PARTS * (COLS / 2)];
        if (WHOLE_MATRIX)
            barrier_wait(w.barriers + w.slot * 8, w.parity);
        finish_floats(r, x, w, f, i, 0);
#pragma unroll
        for (int j = 0; j < COLS / 4; j++)
            x[j * 2] = r[j / 2][j % 2].x, x[j * 2 + 1] = r[j / 2][j % 2].y;
        if (WHOLE_MATRIX && i + SLOTS < ALL_PARTS) {
            slots_were_read();
            if (threadIdx.x % 32 == 0)
                fetch_part(w, added, t, i + SLOTS, w.slot, added_z);
        }
        w.slot = following(w.slot);
        w.parity ^= w.slot == 0;
    }
}

struct moments {
    float mean, square; // square: the sum of squares about it
};

DEVICE float over_neighbours(float v)
{
    v += __shfl_xor_sync(~0u, v, 1);
    return v + __shfl_xor_sync(~0u, v, 2);
}
// Of what the tile has of a row.
DEVICE moments moments_of(const float (&sum)[BLOCKS_M][TILE_N / 2], int row)
{
    float all[2] = {0, 0}, square[2] = {0, 0};
#pragma unroll
    for (int i = 0; i < TILE_N / 4; i++)
        all[i % 2] += sum[row / 2][i / 2 * 4 + row % 2 * 2 + i % 2];
    moments m;
    m.mean = NORM_RMS ? 0 : over_neighbours(all[0] + all[1]) * (1.f / TILE_N);
#pragma unroll
    for (int i = 0; i < TILE_N / 4; i++) {
        float apart = sum[row / 2][i / 2 * 4 + row % 2 * 2 + i % 2] - m.mean;
        square[i % 2] += apart * apart;
    }
    m.square = over_neighbours(square[0] + square[1]);
    return m;
}

// What members tell of a tile's row.
DEVICE uint4 *told_of(const norm_args &n, const tile_place &t, int row)
{
    return n.told + (u64)(t.row / TILE_M) * (MEMBERS * MEMBERS * TILE_M) + row;
}
DEVICE void tell_others(const norm_args &n, const tile_place &t, moments own, int row)
{
    const u32 me = t.col / TILE_N;
    uint4 *tile = told_of(n, t, row);
#pragma unroll
    for (u32 i = 0; i < MEMBERS; i++)
        if (i != me)
            tell(tile + (i * MEMBERS + me) * TILE_M,
                 make_uint4(__float_as_uint(own.mean), __float_as_uint(own.square), 0, 1));
}

// Those of the whole row: all members add them up in the same order.
DEVICE moments gathered(const norm_args &n, const tile_place &t, moments own, int row)
{
    const u32 me = t.col / TILE_N;
    uint4 *tile = told_of(n, t, row);
    moments of[MEMBERS], all = {0, 0};
#pragma unroll
    for (u32 i = 0; i < MEMBERS; i++) {
        of[i] = own;
        if (i == me)
            continue;
        uint4 *from = tile + (me * MEMBERS + i) * TILE_M;
        const uint4 v = wait_until_told(from);
        tell(from, make_uint4(0, 0, 0, 0));
        of[i] = {__uint_as_float(v.x), __uint_as_float(v.y)};
    }
#pragma unroll
    for (u32 i = 0; i < MEMBERS; i++)
        all.mean += of[i].mean * (1.f / MEMBERS);
#pragma unroll
    for (u32 i = 0; i < MEMBERS; i++) {
        float apart = of[i].mean - all.mean;
        all.square += of[i].square + apart * apart * TILE_N;
    }
    return all;
}

// The row of a tile that this thread tells of, if it does.
DEVICE int own_row(const way_out &w)
{
    const int lane = threadIdx.x % 32, mine = lane % 4;
    return w.row + mine / 2 * 64 + mine % 2 * 8 + lane / 4;
}
DEVICE bool tells() { return MEMBERS > 1 && threadIdx.x % 4 < OWN_ROWS; }

// Of the row that this thread tells of.
DEVICE moments own_moments(const float (&sum)[BLOCKS_M][TILE_N / 2])
{
    moments own = moments_of(sum, 0);
#pragma unroll
    for (int r = 1; r < OWN_ROWS; r++) {
        const moments m = moments_of(sum, r);
        if (threadIdx.x % 4 == r)
            own = m;
    }
    return own;
}

// Of all this thread's rows: mean, and the factor that makes their deviation 1.
struct row_stats {
    float mean[OWN_ROWS], factor[OWN_ROWS];
};
DEVICE row_stats stats_of(const moments &whole, const norm_args &n)
{
    const int first = threadIdx.x % 32 & ~3;
    const float factor = 1.f / sqrtf(whole.square * (1.f / (MEMBERS * TILE_N)) + n.epsilon);
    row_stats s;
#pragma unroll
    for (int r = 0; r < OWN_ROWS; r++) {
        s.mean[r] = __shfl_sync(~0u, whole.mean, first | r);
        s.factor[r] = __shfl_sync(~0u, factor, first | r);
    }
    return s;
}

// Two neighbours of what there is for each column.
template <class T> struct alignas(2 * sizeof(T)) column_pair {
    T x, y;
};
template <class T> DEVICE float2 columns_at(const void *of, int col)
{
    const column_pair<T> v = *(const column_pair<T> *)((const T *)of + col);
    return make_float2(to_float(v.x), to_float(v.y));
}
DEVICE float2 scale_at(const norm_args &n, int col) { return columns_at<NORM_SCALE>(n.scale, col); }
DEVICE float2 bias_at(const norm_args &n, int col)
{
#ifdef NORM_BIAS
    return columns_at<NORM_BIAS>(n.bias, col);
#else
    return make_float2(0, 0);
#endif
}

DEVICE void normalise_part(pairs<COLS / 8> &r, const float (&sum)[BLOCKS_M][TILE_N / 2], const row_stats &s, const norm_args &n,
                           const tile_place &t, int part)
{
    const int col = t.col + part % PARTS * COLS + threadIdx.x % 4 * 2;
    const float *x = &sum[part / PARTS][part % PARTS * (COLS / 2)];
#pragma unroll
    for (int c = 0; c < COLS / 8; c++) {
        const float2 scale = scale_at(n, col + c * 8), bias = bias_at(n, col + c * 8);
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const float mean = s.mean[part / PARTS * 2 + half], factor = s.factor[part / PARTS * 2 + half];
            const float2 v = make_float2((x[c * 4 + half * 2] - mean) * factor * scale.x + bias.x,
                                         (x[c * 4 + half * 2 + 1] - mean) * factor * scale.y + bias.y);
            r.of[c][half] = PAIR_STORED(v);
        }
    }
}

DEVICE void keep_part(pairs<COLS / 8> &r, const float (&sum)[BLOCKS_M][TILE_N / 2], int part)
{
    const float *x = &sum[part / PARTS][part % PARTS * (COLS / 2)];
#pragma unroll
    for (int j = 0; j < COLS / 4; j++) {
        const float2 v = make_float2(x[j * 2], x[j * 2 + 1]);
        r.of[j / 2][j % 2] = PAIR_STORED(v);
    }
}

// As hand_out: a part is written when the next one is there. None of the slots is filled before the next tile is prepared. make(pairs, part).
template <class MAKE> DEVICE void leave(way_out slots, const out_lines &o, const MAKE &make)
{
    part_lines lines;
#pragma unroll
    for (int i = 0; i < ALL_PARTS; i++) {
        pairs<COLS / 8> r;
        make(r, i);
        if (i > 0)
            read_part(lines, slots, slots.slot);
        __syncwarp();
        slots.slot = i % SLOTS;
        put_pairs(r, slots, 0);
        if (i > 0)
            write_part(lines, o, i - 1);
        __syncwarp();
    }
    read_part(lines, slots, slots.slot);
    write_part(lines, o, ALL_PARTS - 1);
    __syncwarp();
}

// What is kept is written while the others' moments are on their way.
DEVICE void hand_out_normalised(float (&sum)[BLOCKS_M][TILE_N / 2], way_out &w, const tensor_map &added, const finish_args &f,
                                const norm_args &n, out_lines o, const tile_place &t, int added_z)
{
    finish_in_place(sum, w, added, f, t, added_z);
    moments m = own_moments(sum);
    if (tells())
        tell_others(n, t, m, own_row(w));
    __syncwarp();
#if NORM_KEPT
    leave(w, o, [&](pairs<COLS / 8> &r, int i) { keep_part(r, sum, i); });
    o.to += n.further;
#endif
    if (tells())
        m = gathered(n, t, m, own_row(w));
    __syncwarp();
    const row_stats s = stats_of(m, n);
    leave(w, o, [&](pairs<COLS / 8> &r, int i) { normalise_part(r, sum, s, n, t, i); });
}
