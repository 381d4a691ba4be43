// attention_mma.cu -- attention of 16-bit elements on matrix units: scores never leave registers.
// SPDX-License-Identifier: Apache-2.0
//
// Each warp has 16 * TILES rows of queries, and meets the keys BLOCK_KEYS at a time; softmax is kept up as they pass.
// While scores are computed the values are on their way into shared memory, and while those are weighed the next
// keys. VECTORS: heads lie in whole vectors of 16 bytes, which are copied asynchronously. PLAIN: scores
// are products times a positive scale, apart from causality.
#include "common.cuh"
#include "ptx_matrix.cuh"
#include "attention.cuh"

#define WARPS (THREADS / 32)
#define Q_STRIDE ((D + 8) * 2) // bytes; rows are an odd number of vectors apart, so that fragments meet no conflicts
#define V_STRIDE ((DV + 8) * 2)
#define Q_BYTES (BLOCK_ROWS * Q_STRIDE)
#define K_BYTES (BLOCK_KEYS * Q_STRIDE)

extern __shared__ __align__(16) u8 memory[];

// ---- To shared memory --------------------------------------------------------------------------

// One row of `size` elements (padded to SIZE) as vector number `vector`; absent rows are zeros.
template <int SIZE>
DEVICE void copy_vector(u32 to, const QT *row, i64 step, int vector, int size, bool there)
{
#if VECTORS
    copy16(to + vector * 16, row + vector * 8, there && vector * 8 < size);
#else
    uint4 v;
    u16 *e = (u16 *)&v;
    for (int i = 0; i < 8; i++) {
        int d = vector * 8 + i;
        e[i] = there && d < size ? row[d * step].bits : 0;
    }
    store_shared16(to + vector * 16, v);
#endif
}

DEVICE void copy_queries(const attention_args &a, const share &s, u32 to)
{
    for (int i = threadIdx.x; i < BLOCK_ROWS * (D / 8); i += THREADS) {
        int row = i / (D / 8), vector = i % (D / 8);
        bool there = row < s.rows;
        query q = query_of(a, s.unit, s.row + (there ? row : 0));
        copy_vector<D>(to + row * Q_STRIDE, (const QT *)a.q + place_of(a.at_q, q.batch, q.head, q.at),
                       a.at_q.dim, vector, a.head_size, there);
    }
}

template <int SIZE>
DEVICE void copy_keys(const attention_args &a, const share &s, const void *fresh, const heads &at,
                      const void *past, const heads &at_past, int size, int first, u32 to)
{
    for (int i = threadIdx.x; i < BLOCK_KEYS * (SIZE / 8); i += THREADS) {
        int row = i / (SIZE / 8), vector = i % (SIZE / 8), key = first + row;
        bool there = key < s.to;
        const QT *from =
            key_row<QT>(fresh, at, past, at_past, a, s.unit, there ? key : s.from);
        copy_vector<SIZE>(to + row * ((SIZE + 8) * 2), from,
                          key_step(at, at_past, a, there ? key : s.from), vector, size, there);
    }
    copies_end_group();
}

// ---- Products ----------------------------------------------------------------------------------

// What a warp holds of its rows: thread l has rows l / 4 and l / 4 + 8 of each tile.
struct warp_rows {
    float o[TILES][DV / 8][4];
    float most[TILES][2], sum[TILES][2];
    masks mask[TILES][2];
    int fewest; // keys that each of the rows sees
};

DEVICE void multiply_keys(u32 queries, u32 keys, float (&s)[TILES][BLOCK_KEYS / 8][4])
{
    int lane = threadIdx.x % 32;
    u32 q_at = queries + lane % 16 * Q_STRIDE + lane / 16 * 16;
    u32 k_at = keys + (lane % 8 + lane / 16 * 8) * Q_STRIDE + lane / 8 % 2 * 16;
#pragma unroll
    for (int t = 0; t < TILES; t++)
#pragma unroll
        for (int n = 0; n < BLOCK_KEYS / 8; n++)
            s[t][n][0] = s[t][n][1] = s[t][n][2] = s[t][n][3] = 0;
#pragma unroll
    for (int d = 0; d < D / 16; d++) {
        u32 q[TILES][4];
#pragma unroll
        for (int t = 0; t < TILES; t++)
            load_fragments(q[t], q_at + t * 16 * Q_STRIDE + d * 32);
#pragma unroll
        for (int n = 0; n < BLOCK_KEYS / 16; n++) {
            u32 k[4];
            load_fragments(k, k_at + n * 16 * Q_STRIDE + d * 32);
#pragma unroll
            for (int t = 0; t < TILES; t++) {
                multiply_fragments<QT>(s[t][2 * n], q[t], k[0], k[1]);
                multiply_fragments<QT>(s[t][2 * n + 1], q[t], k[2], k[3]);
            }
        }
    }
}

DEVICE void weigh_values(u32 values, const float (&s)[TILES][BLOCK_KEYS / 8][4], warp_rows &w)
{
    int lane = threadIdx.x % 32;
    u32 at = values + lane % 16 * V_STRIDE + lane / 16 * 16;
#pragma unroll
    for (int n = 0; n < BLOCK_KEYS / 16; n++) {
        u32 p[TILES][4];
#pragma unroll
        for (int t = 0; t < TILES; t++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                p[t][i] = pair_of<QT>(s[t][2 * n + i / 2][i % 2 * 2], s[t][2 * n + i / 2][i % 2 * 2 + 1]);
#pragma unroll
        for (int d = 0; d < DV / 16; d++) {
            u32 v[4];
            load_fragments_transposed(v, at + n * 16 * V_STRIDE + d * 32);
#pragma unroll
            for (int t = 0; t < TILES; t++) {
                multiply_fragments<QT>(w.o[t][2 * d], p[t], v[0], v[1]);
                multiply_fragments<QT>(w.o[t][2 * d + 1], p[t], v[2], v[3]);
            }
        }
    }
}

// ---- Softmax -----------------------------------------------------------------------------------

// Products become scores.
DEVICE void mask_scores(const attention_args &a, const share &h, const warp_rows &w, int first,
                        float (&s)[TILES][BLOCK_KEYS / 8][4])
{
    int key = first + threadIdx.x % 4 * 2;
#if PLAIN
    if (first + BLOCK_KEYS <= w.fewest && first + BLOCK_KEYS <= h.to)
        return;
#endif
#pragma unroll
    for (int t = 0; t < TILES; t++)
#pragma unroll
        for (int n = 0; n < BLOCK_KEYS / 8; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                int k = key + n * 8 + i % 2;
#if PLAIN
                if (k >= h.to || k >= w.mask[t][i / 2].sees)
                    s[t][n][i] = -INFINITE;
#else
                s[t][n][i] = k < h.to ? score_of(a, w.mask[t][i / 2], k, s[t][n][i] * a.scale)
                                      : -INFINITE;
#endif
            }
}

// Scores become weights; what was summed up is brought to the new largest score.
DEVICE void soften(const attention_args &a, float (&s)[TILES][BLOCK_KEYS / 8][4], warp_rows &w)
{
#pragma unroll
    for (int t = 0; t < TILES; t++)
#pragma unroll
        for (int r = 0; r < 2; r++) {
            float most = w.most[t][r], sum = 0;
#pragma unroll
            for (int n = 0; n < BLOCK_KEYS / 8; n++)
                most = fmaxf(most, fmaxf(s[t][n][2 * r], s[t][n][2 * r + 1]));
            most = fmaxf(most, __shfl_xor_sync(~0u, most, 1));
            most = fmaxf(most, __shfl_xor_sync(~0u, most, 2));
            float base = most == -INFINITE ? 0.0f : most;
            float factor = weight_of(a, w.most[t][r], base);
            w.most[t][r] = most;
#pragma unroll
            for (int n = 0; n < BLOCK_KEYS / 8; n++)
#pragma unroll
                for (int i = 2 * r; i < 2 * r + 2; i++) {
                    s[t][n][i] = weight_of(a, s[t][n][i], base);
                    sum += s[t][n][i];
                }
            w.sum[t][r] = w.sum[t][r] * factor + sum;
#pragma unroll
            for (int d = 0; d < DV / 8; d++) {
                w.o[t][d][2 * r] *= factor;
                w.o[t][d][2 * r + 1] *= factor;
            }
        }
}

// ---- Results -----------------------------------------------------------------------------------

DEVICE void begin(const attention_args &a, const share &h, int row, warp_rows &w)
{
    w.fewest = a.total;
#pragma unroll
    for (int t = 0; t < TILES; t++) {
#pragma unroll
        for (int r = 0; r < 2; r++) {
            int at = row + t * 16 + threadIdx.x % 32 / 4 + r * 8;
            w.mask[t][r] = masks_of(a, query_of(a, h.unit, h.row + (at < h.rows ? at : 0)));
            w.fewest = w.fewest < w.mask[t][r].sees ? w.fewest : w.mask[t][r].sees;
            w.most[t][r] = -INFINITE;
            w.sum[t][r] = 0;
        }
#pragma unroll
        for (int d = 0; d < DV / 8; d++)
            w.o[t][d][0] = w.o[t][d][1] = w.o[t][d][2] = w.o[t][d][3] = 0;
    }
}

// Sums of the row's four threads.
DEVICE float over_four(float v)
{
    v += __shfl_xor_sync(~0u, v, 1);
    return v + __shfl_xor_sync(~0u, v, 2);
}

DEVICE void store_part(const attention_args &a, const share &h, int row, const warp_rows &w, int t,
                       int r)
{
    float *to = part_of(a, h.unit, row, h.split), *stats = part_stats(a, h.unit, row, h.split);
    int d = threadIdx.x % 4 * 2;
#pragma unroll
    for (int n = 0; n < DV / 8; n++)
        for (int i = 0; i < 2; i++)
            if (d + n * 8 + i < a.v_head_size)
                to[d + n * 8 + i] = w.o[t][n][2 * r + i];
    if (d == 0) {
        stats[0] = w.most[t][r];
        stats[1] = w.sum[t][r];
    }
}

// Stores a row; false: it is to be done again in doubles.
DEVICE bool store_row(const attention_args &a, const share &h, int row, const warp_rows &w, int t,
                      int r)
{
    query q = query_of(a, h.unit, row);
    float factor = 1.0f / w.sum[t][r];
    int d = threadIdx.x % 4 * 2;
    bool good = is_good(w.sum[t][r]);
#pragma unroll
    for (int n = 0; n < DV / 8; n++)
        for (int i = 0; i < 2; i++)
            if (d + n * 8 + i < a.v_head_size) {
                float v = w.o[t][n][2 * r + i] * factor;
                good = good && fabsf(v) < INFINITE;
                put(a, q, d + n * 8 + i, v);
            }
    return good;
}

DEVICE void store(const attention_args &a, const share &h, int row, warp_rows &w)
{
#ifndef SPLITS
    __shared__ u8 bad[BLOCK_ROWS];
    for (int i = threadIdx.x; i < BLOCK_ROWS; i += THREADS)
        bad[i] = 0;
    __syncthreads();
    bool again = false;
#endif
#pragma unroll
    for (int t = 0; t < TILES; t++)
#pragma unroll
        for (int r = 0; r < 2; r++) {
            int at = row + t * 16 + threadIdx.x % 32 / 4 + r * 8;
            w.sum[t][r] = over_four(w.sum[t][r]);
            if (at >= h.rows)
                continue;
#ifdef SPLITS
            store_part(a, h, h.row + at, w, t, r);
#else
            if (!store_row(a, h, h.row + at, w, t, r)) {
                bad[at] = 1;
                again = true;
            }
#endif
        }
#ifndef SPLITS
    if (!__syncthreads_or(again))
        return;
    for (int i = 0; i < h.rows; i++)
        if (bad[i])
            slow_row(a, h.unit, h.row + i);
#endif
}

// Forbidden keys are left out at first, and looked at when it turns out that they weigh something.
#if defined CAUSAL && defined FILL && !defined BIAS_LAST && !defined SPLITS
#define MAY_GO_ON 1
#else
#define MAY_GO_ON 0
#endif

// Where the walk over keys may end.
DEVICE int end_of(const attention_args &a, const share &h)
{
#if defined CAUSAL && !(defined FILL && (defined BIAS_LAST || defined SPLITS))
    int seen = most_seen(a, h);
    return seen < h.to ? seen : h.to;
#else
    return h.to;
#endif
}

// Forbidden scores of a finite value weigh something only where no score is far above it.
DEVICE bool weighs_forbidden(const attention_args &a, const warp_rows &w, bool busy)
{
    bool more = false;
#pragma unroll
    for (int t = 0; t < TILES; t++)
        for (int r = 0; r < 2; r++)
            more = more || (busy && !(w.most[t][r] > a.mask_value + 104.0f));
    return __syncthreads_or(more);
}

extern "C" __global__ void __launch_bounds__(THREADS) attention(const __grid_constant__ attention_args a)
{
    wait_for_predecessor();
    share h = share_of(a, blockIdx.x);
    u32 queries = shared_address(memory), keys = queries + Q_BYTES, values = keys + K_BYTES;
    int row = threadIdx.x / 32 * 16 * TILES, end = end_of(a, h), first = h.from;
    bool busy = row < h.rows;
    warp_rows w;
    begin(a, h, row, w);
    copy_queries(a, h, queries);
    if (first < end)
        copy_keys<D>(a, h, a.k, a.at_k, a.past_k, a.at_past_k, a.head_size, first, keys);
    for (; first < end; first += BLOCK_KEYS) {
        float s[TILES][BLOCK_KEYS / 8][4];
        copies_wait<0>();
        __syncthreads();
        copy_keys<DV>(a, h, a.v, a.at_v, a.past_v, a.at_past_v, a.v_head_size, first, values);
        if (busy)
            multiply_keys(queries + row * Q_STRIDE, keys, s);
        copies_wait<0>();
        __syncthreads();
        if (first + BLOCK_KEYS < (MAY_GO_ON ? h.to : end))
            copy_keys<D>(a, h, a.k, a.at_k, a.past_k, a.at_past_k, a.head_size, first + BLOCK_KEYS,
                         keys);
        if (busy) {
            mask_scores(a, h, w, first, s);
            soften(a, s, w);
            weigh_values(values, s, w);
        }
#if MAY_GO_ON
        if (first + BLOCK_KEYS >= end && end < h.to && weighs_forbidden(a, w, busy))
            end = h.to;
#endif
    }
    copies_wait<0>();
    store(a, h, row, w);
}
