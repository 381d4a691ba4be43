// attention_simt.cu -- attention in float32, for any element types.
// SPDX-License-Identifier: Apache-2.0
//
// 16 x 16 threads: thread (x, y) has rows y * ROWS ..., keys x, x + 16, ... and columns x, x + 16, ... of the result. Keys, then
// values, pass through the same shared memory.
#include "common.cuh"
#include "attention.cuh"

#define ROWS (BLOCK_ROWS / 16)
#define KEYS (BLOCK_KEYS / 16)
#define COLS (DV / 16)
#define Q_STRIDE (D + 4)
#define KV_STRIDE ((D > DV ? D : DV) + 4)
#define P_STRIDE (BLOCK_KEYS + 4)

extern __shared__ __align__(16) u8 memory[];

struct tile_rows {
    float o[ROWS][COLS], most[ROWS], sum[ROWS];
    masks mask[ROWS];
};

DEVICE void load_queries(const attention_args &a, const share &h, float *to)
{
    for (int i = threadIdx.x; i < BLOCK_ROWS * D; i += THREADS) {
        int row = i / D, d = i % D;
        float v = 0;
        if (row < h.rows && d < a.head_size) {
            query q = query_of(a, h.unit, h.row + row);
            v = to_float(((const QT *)a.q)[place_of(a.at_q, q.batch, q.head, q.at) + d * a.at_q.dim]);
        }
        to[row * Q_STRIDE + d] = v;
    }
}

template <class T, int SIZE>
DEVICE void load_keys(const attention_args &a, const share &h, const void *fresh, const heads &at,
                      const void *past, const heads &at_past, int size, int first, float *to)
{
    for (int i = threadIdx.x; i < BLOCK_KEYS * SIZE; i += THREADS) {
        int row = i / SIZE, d = i % SIZE, key = first + row;
        float v = 0;
        if (key < h.to && d < size)
            v = to_float(key_row<T>(fresh, at, past, at_past, a, h.unit,
                                    key)[d * key_step(at, at_past, a, key)]);
        to[row * KV_STRIDE + d] = v;
    }
}

DEVICE void multiply_keys(const float *q, const float *k, float (&s)[ROWS][KEYS])
{
    int x = threadIdx.x % 16, y = threadIdx.x / 16;
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < KEYS; j++)
            s[i][j] = 0;
    for (int d = 0; d < D; d += 4) {
        vec16<float> b[KEYS];
#pragma unroll
        for (int j = 0; j < KEYS; j++)
            b[j] = *(const vec16<float> *)(k + (x + j * 16) * KV_STRIDE + d);
#pragma unroll
        for (int i = 0; i < ROWS; i++) {
            vec16<float> r = *(const vec16<float> *)(q + (y * ROWS + i) * Q_STRIDE + d);
#pragma unroll
            for (int j = 0; j < KEYS; j++)
#pragma unroll
                for (int e = 0; e < 4; e++)
                    s[i][j] += r.v[e] * b[j].v[e];
        }
    }
}

// Scores become weights in shared memory; what was summed up is brought to the new largest score.
DEVICE void soften(const attention_args &a, const share &h, int first, float (&s)[ROWS][KEYS],
                   tile_rows &w, float *weights)
{
    int x = threadIdx.x % 16, y = threadIdx.x / 16;
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
        float most = w.most[i], sum = 0;
#pragma unroll
        for (int j = 0; j < KEYS; j++) {
            int key = first + x + j * 16;
            s[i][j] = key < h.to ? score_of(a, w.mask[i], key, s[i][j] * a.scale) : -INFINITE;
            most = fmaxf(most, s[i][j]);
        }
        for (int o = 8; o > 0; o /= 2)
            most = fmaxf(most, __shfl_xor_sync(~0u, most, o));
        float base = most == -INFINITE ? 0.0f : most, factor = __expf(w.most[i] - base);
        w.most[i] = most;
#pragma unroll
        for (int j = 0; j < KEYS; j++) {
            float p = __expf(s[i][j] - base);
            weights[(y * ROWS + i) * P_STRIDE + x + j * 16] = p;
            sum += p;
        }
        w.sum[i] = w.sum[i] * factor + sum;
#pragma unroll
        for (int c = 0; c < COLS; c++)
            w.o[i][c] *= factor;
    }
}

DEVICE void weigh_values(const float *weights, const float *v, tile_rows &w)
{
    int x = threadIdx.x % 16, y = threadIdx.x / 16;
    for (int k = 0; k < BLOCK_KEYS; k += 4) {
        vec16<float> p[ROWS];
#pragma unroll
        for (int i = 0; i < ROWS; i++)
            p[i] = *(const vec16<float> *)(weights + (y * ROWS + i) * P_STRIDE + k);
#pragma unroll
        for (int e = 0; e < 4; e++)
#pragma unroll
            for (int c = 0; c < COLS; c++) {
                float r = v[(k + e) * KV_STRIDE + x + c * 16];
#pragma unroll
                for (int i = 0; i < ROWS; i++)
                    w.o[i][c] += p[i].v[e] * r;
            }
    }
}

DEVICE void store_part(const attention_args &a, const share &h, int row, const tile_rows &w, int i)
{
    int x = threadIdx.x % 16;
    float *to = part_of(a, h.unit, row, h.split), *stats = part_stats(a, h.unit, row, h.split);
    for (int c = 0; c < COLS; c++)
        if (x + c * 16 < a.v_head_size)
            to[x + c * 16] = w.o[i][c];
    if (x == 0) {
        stats[0] = w.most[i];
        stats[1] = w.sum[i];
    }
}

// False: the row is to be done again in doubles.
DEVICE bool store_row(const attention_args &a, const share &h, int row, const tile_rows &w, int i)
{
    int x = threadIdx.x % 16;
    query q = query_of(a, h.unit, row);
    bool good = is_good(w.sum[i]);
    for (int c = 0; c < COLS; c++)
        if (x + c * 16 < a.v_head_size) {
            float v = w.o[i][c] / w.sum[i];
            good = good && fabsf(v) < INFINITE;
            put(a, q, x + c * 16, v);
        }
    return good;
}

DEVICE void store(const attention_args &a, const share &h, tile_rows &w)
{
#ifndef SPLITS
    __shared__ u8 bad[BLOCK_ROWS];
    for (int i = threadIdx.x; i < BLOCK_ROWS; i += THREADS)
        bad[i] = 0;
    __syncthreads();
    bool again = false;
#endif
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
        int at = threadIdx.x / 16 * ROWS + i;
        for (int o = 8; o > 0; o /= 2)
            w.sum[i] += __shfl_xor_sync(~0u, w.sum[i], o);
        if (at >= h.rows)
            continue;
#ifdef SPLITS
        store_part(a, h, h.row + at, w, i);
#else
        if (!store_row(a, h, h.row + at, w, i)) {
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

extern "C" __global__ void __launch_bounds__(THREADS) attention(const __grid_constant__ attention_args a)
{
    share h = share_of(a, blockIdx.x);
    float *q = (float *)memory, *kv = q + BLOCK_ROWS * Q_STRIDE;
    float *weights = kv + BLOCK_KEYS * KV_STRIDE;
    int end = h.to;
#if defined CAUSAL && !defined FILL
    end = most_seen(a, h) < end ? most_seen(a, h) : end;
#endif
    tile_rows w;
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
        int at = threadIdx.x / 16 * ROWS + i;
        w.mask[i] = masks_of(a, query_of(a, h.unit, h.row + (at < h.rows ? at : 0)));
        w.most[i] = -INFINITE;
        w.sum[i] = 0;
#pragma unroll
        for (int c = 0; c < COLS; c++)
            w.o[i][c] = 0;
    }
    load_queries(a, h, q);
    for (int first = h.from; first < end; first += BLOCK_KEYS) {
        float s[ROWS][KEYS];
        __syncthreads();
        load_keys<KT, D>(a, h, a.k, a.at_k, a.past_k, a.at_past_k, a.head_size, first, kv);
        __syncthreads();
        multiply_keys(q, kv, s);
        soften(a, h, first, s, w, weights);
        __syncthreads();
        load_keys<VT, DV>(a, h, a.v, a.at_v, a.past_v, a.at_past_v, a.v_head_size, first, kv);
        __syncthreads();
        weigh_values(weights, kv, w);
    }
    store(a, h, w);
}
